"""RoPE scaling against the formulas of the papers, pair by pair, in plain Python."""

import math

import pytest
import torch

from translucid.parts.positions import Rotary, rotate
from translucid.parts.rotary_scaling import RotaryScaling, yarn_attention_factor

D, BASE, FACTOR = 64, 10000.0, 8.0
PLACES = torch.tensor([[0, 1, 7, 8000, 40000]])


def plain(place: float, pair: int, base: float = BASE) -> float:
    return place / base ** (2 * pair / D)


def test_llama3_divides_only_slow_pairs() -> None:
    angles = RotaryScaling(FACTOR, "llama3", 8192, 1.0, 4.0).angles(PLACES, D, BASE)
    met = set()
    for pair in range(D // 2):
        wave = 2 * math.pi * BASE ** (2 * pair / D)
        if wave < 8192 / 4:
            expected, kind = 1.0, "fast"
        elif wave > 8192:
            expected, kind = 1 / FACTOR, "slow"
        else:
            smooth = (8192 / wave - 1) / 3
            expected, kind = (1 - smooth) / FACTOR + smooth, "between"
        met.add(kind)
        wanted = [plain(place, pair) * expected for place in PLACES[0].tolist()]
        torch.testing.assert_close(angles[0, :, pair], torch.tensor(wanted, dtype=torch.float64))
    assert met == {"fast", "slow", "between"}


def test_yarn_divides_slow_pairs_alone() -> None:
    angles = RotaryScaling(FACTOR, "yarn", 4096, 1.0, 32.0).angles(PLACES, D, BASE)
    first, last = (
        D * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(BASE)) for turns in (32, 1)
    )
    first, last = math.floor(first), math.ceil(last)
    assert 0 < first < last < D // 2
    for pair in range(D // 2):
        ramp = min(max((pair - first) / (last - first), 0), 1)
        share = ramp / FACTOR + (1 - ramp)
        wanted = [plain(place, pair) * share for place in PLACES[0].tolist()]
        torch.testing.assert_close(angles[0, :, pair], torch.tensor(wanted, dtype=torch.float64))
    assert yarn_attention_factor(FACTOR) == pytest.approx(1 + 0.1 * math.log(8))
    assert yarn_attention_factor(0.5) == 1


def test_dynamic_changes_nothing_within_the_original_length() -> None:
    scaling = RotaryScaling(FACTOR, "dynamic", 8001)
    angles = scaling.angles(PLACES, D, BASE)
    torch.testing.assert_close(angles[:, :4], RotaryScaling().angles(PLACES[:, :4], D, BASE))
    grown = BASE * (FACTOR * 40001 / 8001 - (FACTOR - 1)) ** (D / (D - 2))
    wanted = [plain(40000, pair, grown) for pair in range(D // 2)]
    torch.testing.assert_close(angles[0, 4], torch.tensor(wanted, dtype=torch.float64))


def test_partial_rotary_rotates_only_the_first_dimensions() -> None:
    x = torch.randn(1, 2, 5, 8, dtype=torch.float64)
    half, alone = Rotary(8, fraction=0.5), Rotary(4)
    turned = rotate(x, half.angles(PLACES))
    assert torch.equal(turned[..., 4:], x[..., 4:])
    assert torch.equal(turned[..., :4], rotate(x[..., :4], alone.angles(PLACES)))
