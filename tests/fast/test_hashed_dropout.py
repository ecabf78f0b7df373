"""Hashed dropout hides what it should, anew for every part, pass and step."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from translucid.fast.dropout import HashedDropout, kept
from translucid.models import TransformerConfig, build

CPU = torch.device("cpu")
SIZES: dict[str, Any] = {
    "vocab": 9, "d_model": 32, "heads": 2, "layers": 2, "head": "language", "shape": "decoder",
    "activation": "relu",
}  # fmt: skip


def seed(number: int) -> Tensor:
    return torch.tensor(number, dtype=torch.int32)


@pytest.mark.parametrize("probability", [0.1, 0.5, 1 / 3])
def test_hashed_dropout_keeps_the_right_fraction_independently(
    probability: float,
) -> None:
    x = torch.empty(600, 700)
    draws = [kept(x, seed(number), probability).flatten() for number in (0, 1, -7)]
    deviation = (probability * (1 - probability) / x.numel()) ** 0.5
    for draw in draws:
        assert float(draw.float().mean()) == pytest.approx(1 - probability, abs=5 * deviation)
    by_chance = probability**2 + (1 - probability) ** 2
    pairs = [(draws[0], draws[1]), (draws[1], draws[2])]
    pairs += [(draws[0][:-lag], draws[0][lag:]) for lag in (1, 2, 8, 64, 700, 4096)]
    pairs += [
        (draws[0][lag:], draws[1][:-lag]) for lag in (1, 8)
    ]  # one seed is no shift of another
    for one, other in pairs:
        assert float((one == other).float().mean()) == pytest.approx(by_chance, abs=4e-3)
    assert torch.equal(kept(x, seed(1), probability).flatten(), draws[1])


def test_hashed_dropout_replaces_torchs_only_within_layers() -> None:
    network = build(TransformerConfig(**SIZES, dropout=0.25)).train()
    parts = [part for part in network.modules() if type(part) is nn.Dropout]
    inside = [part for layer in network.decoder.layers for part in layer.modules() if part in parts]
    assert len(parts) == len(inside) + 1 == 7
    x = torch.ones(40, 50, requires_grad=True)
    hashed = HashedDropout(network, CPU)
    torch.manual_seed(0)
    with hashed.used():
        first = [part(x) for part in inside]
    with hashed.used():
        second = [part(x) for part in inside]
        assert torch.equal(inside[0].eval()(x), x)
        inside[0].train()
    torch.manual_seed(0)
    with hashed.used():
        again = [part(x) for part in inside]
    torch.testing.assert_close(again, first, rtol=0, atol=0)
    patterns = {tuple((y > 0).flatten().tolist()) for y in (*first, *second)}
    assert len(patterns) == 12, "every part and every pass has its own"
    assert sorted(first[0].unique().tolist()) == pytest.approx([0, 1 / 0.75])
    (gradient,) = torch.autograd.grad(first[0].sum(), x)
    assert torch.equal(gradient, first[0])
    torch.manual_seed(0)
    expected = nn.functional.dropout(x, 0.25)
    torch.manual_seed(0)
    assert torch.equal(inside[0](x), expected), "outside it is torch's again"


def test_the_mean_of_many_passes_is_the_pass_without_dropout() -> None:
    """Of one part: what is kept grows as much as what is hidden is missed."""
    network = build(TransformerConfig(**SIZES, dropout=0.25)).train()
    part = network.decoder.layers[0].feedforward.dropout
    x, hashed = torch.randn(30, 10), HashedDropout(network, CPU)
    total = torch.zeros_like(x)
    for _ in range(400):
        with hashed.used():
            total += part(x)
    torch.testing.assert_close(total / 400, x, rtol=0.15, atol=0.05)
