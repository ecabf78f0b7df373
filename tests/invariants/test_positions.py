"""Positions: relative schemes see distance alone, and all agree with their textbook form."""

import math

import pytest
import torch
from tests.invariants.cases import close
from torch import Tensor

from translucid.models import TransformerConfig, build
from translucid.parts.positions import (
    Alibi,
    Learned,
    Rotary,
    Sinusoidal,
    fits_complex,
    rotate,
)

pytestmark = pytest.mark.invariant("relative positions see distance alone")
D_HEAD, HEADS, FAR = 6, 4, 17
PLACES = torch.tensor([[0, 1, 2, 5], [3, 3, 4, 9]])


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_rotary_scores() -> None:
    """⟨R(p) q, R(p') k⟩ depends on p - p' alone, and turning keeps every length."""
    rotary = Rotary(D_HEAD, base=100.0)
    q, k = drawn(2, HEADS, 4, D_HEAD), drawn(2, HEADS, 4, D_HEAD)

    def scores(places: Tensor) -> Tensor:
        angles = rotary.angles(places)
        return rotate(q, angles) @ rotate(k, angles).transpose(-2, -1)

    close(scores(PLACES + FAR), scores(PLACES))
    assert not torch.allclose(scores(PLACES * 2), scores(PLACES))
    close(rotate(q, rotary.angles(PLACES)).norm(dim=-1), q.norm(dim=-1))


def test_rotary_is_a_complex_product() -> None:
    """The pair (2i, 2i+1) is one complex number; turning it by θ is multiplying by e^{iθ}. Both
    implementations give the same result and gradients, also of values that are not adjacent."""
    q, angles = drawn(2, HEADS, 4, D_HEAD), Rotary(D_HEAD).angles(PLACES)
    turned = torch.view_as_complex(q.unflatten(-1, (-1, 2))) * torch.exp(1j * angles)[:, None]
    expected = torch.view_as_real(turned).flatten(-2)
    apart = torch.stack([q, drawn(*q.shape)], dim=-1)[..., 0]  # not adjacent: only as pairs
    assert [fits_complex(x.unflatten(-1, (-1, 2))) for x in (q, apart)] == [True, False]
    for x in (q, apart):
        close(rotate(x, angles), expected)
    weight, gradients = drawn(*q.shape), []
    for x in (q, apart):
        x = x.detach().requires_grad_()
        (rotate(x, angles) * weight).sum().backward()
        gradients.append(x.grad)
    close(*gradients)
    assert angles[0, 1, 1].item() == pytest.approx(10000 ** (-2 / D_HEAD), abs=1e-15)


def test_rotary_scaling() -> None:
    near, far = Rotary(D_HEAD), Rotary(D_HEAD, scaling=4.0)
    close(far.angles(PLACES * 4), near.angles(PLACES))


def test_alibi() -> None:
    """The bias falls by the head's slope for each position of distance, wherever the two stand."""
    alibi = Alibi(HEADS)
    bias = alibi.bias(PLACES, PLACES)
    close(alibi.bias(PLACES + FAR, PLACES + FAR), bias)
    close(bias, bias.transpose(-2, -1))
    for head in range(HEADS):
        slope = 2.0 ** (-8 * (head + 1) / HEADS)
        assert bias[0, head, 0, 3].item() == pytest.approx(-slope * 5, abs=1e-15)


def test_sinusoidal() -> None:
    """⟨PE(p), PE(p')⟩ depends on p - p' alone; one step on is one turn of every pair."""
    table = Sinusoidal(D_HEAD)
    first, moved = table.encode(PLACES), table.encode(PLACES + FAR)
    close(moved @ moved.transpose(1, 2), first @ first.transpose(1, 2))
    p, i = 5, 1
    assert first[0, 3, 2 * i].item() == pytest.approx(math.sin(p / 10000 ** (2 * i / D_HEAD)))
    assert first[0, 3, 2 * i + 1].item() == pytest.approx(math.cos(p / 10000 ** (2 * i / D_HEAD)))


def test_learned() -> None:
    scheme = Learned(D_HEAD, max_length=10).double()
    torch.nn.init.normal_(scheme.table)
    x = drawn(2, 4, D_HEAD)
    close(scheme.add(x, PLACES) - x, torch.stack([scheme.table[row] for row in PLACES]))


def test_rotary_sines_are_computed_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(
        TransformerConfig(
            shape="encoder-decoder", head="language", vocab=9, d_model=8, heads=2, layers=3,
            positions="rotary",
        )
    )  # fmt: skip
    calls = []
    plain = torch.Tensor.cos
    monkeypatch.setattr(torch.Tensor, "cos", lambda x: calls.append(x) or plain(x))
    model(torch.ones(2, 4, dtype=torch.long), torch.ones(2, 3, dtype=torch.long))
    assert len(calls) == 2  # of the encoder and of the decoder
