"""Staircases and steep sigmoids."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.lab.families import quick_data, rule_test

from translucid_lab.claims import universal_approximation

# ---- staircases ----


def built(*errors: float) -> list[dict[str, Any]]:
    good = [0.5**n for n in range(len(universal_approximation.UNITS))]
    rows = dict.fromkeys(universal_approximation.TARGETS, good) | {"√x": list(errors) or good}
    return [{"built": rows, "trained": [0.5] * 4, "curves": [], "steps": 1} for _ in range(10)]


@pytest.mark.slow
def test_staircases() -> None:
    data = quick_data(universal_approximation.staircases)
    expected = [0.2928116950935672, 0.11597349978629534, 0.054286290481253385,
                0.02666766347642944, 0.01325207468945891, 0.006630245001021717]  # fmt: skip
    np.testing.assert_allclose(data["built"]["sin 2πx"], expected, rtol=1e-9)
    drawn = list(universal_approximation.staircases.draw([data, data]).series.values())
    np.testing.assert_allclose(drawn[1:], data["curves"])
    assert drawn[0][10] == pytest.approx(1.0)  # sin at a quarter


# ---- steps ----


def errors(anywhere: float) -> list[dict[str, Any]]:
    row = {"anywhere": anywhere, "away": 0.0, "area": 0.0}
    good = {"anywhere": 0.0, "away": 0.0, "area": 0.0}
    return [{"one step": [good] * 5, "two steps": [good] * 4 + [row]}]


def test_steep_sigmoids() -> None:
    data = quick_data(universal_approximation.steep_sigmoids)
    one = data["one step"]
    assert [row["anywhere"] for row in one] == [0.5] * 5
    for row, steep in zip(one, universal_approximation.STEEPNESS, strict=True):
        exact = 2 * (math.log(2) - math.log1p(math.exp(-steep / 2))) / steep
        assert row["area"] == pytest.approx(exact, rel=0.02)
    drawn = universal_approximation.steep_sigmoids.draw([data]).series
    assert drawn["area between the two"].tolist() == [row["area"] for row in one]


test_rules = rule_test(
    {
        "C12": [
            (built(), "supported"),
            (built(0.5, 0.4, 0.3, 0.3, 0.3, 0.3), "refuted"),
            (built(0.5, 0.25, 0.12, 0.06, 0.03, 0.0285), "undecided"),
            (built(0.5, 0.5, 0.12, 0.06, 0.03, 0.015), "undecided"),
        ],
        "C13": [
            (errors(0.001), "supported"),
            (errors(0.5), "refuted"),
            (errors(0.2), "undecided"),
        ],
    }
)


def test_sigmoids_at_their_jumps() -> None:
    x = torch.tensor([[0.0], [0.5], [1.0], [1.5], [2.0], [2.5], [3.0]], dtype=torch.float64)
    with torch.no_grad():
        one = universal_approximation.sigmoids([10.0], [-5.0], [1.0])(x[:3])[:, 0]
        two = universal_approximation.sigmoids([100.0] * 2, [-100.0, -200.0], [1.0, 2.0])(x)[:, 0]
    np.testing.assert_allclose(one, [0.006692850924284856, 0.5, 0.9933071490757153], rtol=1e-9)
    np.testing.assert_allclose(two, [0, 0, 0.5, 1, 2, 3, 3], atol=1e-12)
