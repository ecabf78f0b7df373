"""One unit, a hidden layer, linear layers, sums of sigmoids."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.lab.families import around, quick_data, rule_test

from translucid.models.mlp import MLP, MLPConfig
from translucid_lab.claims import single_units, small_nets, universal_approximation

# ---- one unit ----


def corners(**right: int) -> list[dict[str, Any]]:
    best = {"AND": 4, "OR": 4, "XOR": 3, "not XOR": 3} | right
    grid = [best.get(single_units.NAMED.get(table, ""), 4) for table in single_units.TABLES]
    return [{"grid": grid, "learned": [2] * 16, "reached": 14}]


def test_one_unit() -> None:
    data = quick_data(single_units.one_unit)
    # Cover 1965: 4 points in general position in the plane have 14 linear splits.
    assert data["reached"] == sum(right == 4 for right in data["grid"]) == 14
    # The convergence theorem: the rule finds whatever is separable.
    assert [right == 4 for right in data["learned"]] == [right == 4 for right in data["grid"]]
    assert single_units.one_unit.draw([data]).values.tolist() == data["grid"]
    assert single_units.one_unit.draw([data]).marked == (6, 9)


# ---- a hidden layer ----


def solved(bent: int, straight: int = 0, by_hand: float = 0.0) -> list[dict[str, Any]]:
    counts = {"tanh": [0, 0, bent], "relu": [0, 0, 0], "identity": [0, 0, straight]}
    return [{"solved": counts, "starts": 20, "by_hand": by_hand} for _ in range(10)]


@pytest.mark.slow
def test_a_hidden_layer() -> None:
    data = quick_data(single_units.xor_hidden)
    assert data["solved"]["identity"] == [0, 0, 0]
    assert data["by_hand"] == 0.0
    drawn = single_units.xor_hidden.draw([data, data]).series
    assert list(drawn) == ["tanh", "relu", "no activation"]
    np.testing.assert_allclose(drawn["relu"], np.array(data["solved"]["relu"]) / data["starts"])


def test_the_solution_by_hand() -> None:
    with torch.no_grad():
        assert single_units.xor_by_hand()(single_units.CORNERS)[:, 0].tolist() == [0, 1, 1, 0]


# ---- linear layers ----


def left(
    linear: float = 1.0, relu: float = 0.1, collapse: float = 1e-15, spread: float = 0.0
) -> list[dict[str, Any]]:
    return [
        {"least_squares": 2.0, "linear": [2.0, 2.0, 2 * ratio], "relu": 2 * relu,
         "collapse": collapse}
        for ratio in around(linear, spread)
    ]  # fmt: skip


@pytest.mark.slow
def test_linear_layers() -> None:
    data = quick_data(universal_approximation.linear_stack)
    drawn = universal_approximation.linear_stack.draw([data]).values
    np.testing.assert_allclose(drawn, [data["least_squares"], *data["linear"], data["relu"]])


def test_two_affine_layers_are_one() -> None:
    net = MLP(MLPConfig(inputs=2, hidden=(3,), outputs=2, activation="identity")).double()
    small_nets.set_weights(
        net, [[[1, 2], [0, -1], [3, 1]], [[2, 0, 1], [1, -1, 0]]], [[1, 0, -1], [0.5, 2]]
    )
    weight, bias = universal_approximation.collapsed(net)
    assert weight.tolist() == [[5, 5], [1, 3]]
    assert bias.tolist() == [1.5, 3]
    x = torch.tensor([[1.0, -2.0], [0.3, 4.0]], dtype=torch.float64)
    np.testing.assert_allclose(net(x).detach(), [[-3.5, -2.0], [23.0, 15.3]])


def test_a_bent_net_is_not_its_collapsed_matrix() -> None:
    torch.manual_seed(0)
    net = MLP(MLPConfig(inputs=2, hidden=(4,), activation="relu")).double()
    assert (
        universal_approximation._collapse_error(net, torch.randn(8, 2, dtype=torch.float64)) > 0.1
    )


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


def test_sigmoids_at_their_jumps() -> None:
    x = torch.tensor([[0.0], [0.5], [1.0], [1.5], [2.0], [2.5], [3.0]], dtype=torch.float64)
    with torch.no_grad():
        one = universal_approximation.sigmoids([10.0], [-5.0], [1.0])(x[:3])[:, 0]
        two = universal_approximation.sigmoids([100.0] * 2, [-100.0, -200.0], [1.0, 2.0])(x)[:, 0]
    np.testing.assert_allclose(one, [0.006692850924284856, 0.5, 0.9933071490757153], rtol=1e-9)
    np.testing.assert_allclose(two, [0, 0, 0.5, 1, 2, 3, 3], atol=1e-12)


test_rules = rule_test(
    {
        "C2": [
            (solved(20), "supported"),
            (solved(1), "refuted"),
            (solved(10), "undecided"),
            (solved(20, straight=20), "refuted"),
            (solved(20, straight=10), "undecided"),
            (solved(20, by_hand=0.5), "refuted"),
        ],
        "C3": [
            (left(), "supported"),
            (left(linear=0.5), "refuted"),
            (left(linear=1.5), "undecided"),
            (left(linear=1.0, spread=0.1), "undecided"),
            (left(relu=0.9), "undecided"),
            (left(collapse=0.1), "refuted"),
        ],
        "C1": [
            (corners(), "supported"),
            (corners(XOR=4), "refuted"),
            (corners(AND=3), "undecided"),
            (corners(OR=3), "undecided"),
            (corners(OR=3, XOR=4), "refuted"),
        ],
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
