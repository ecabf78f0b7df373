"""The small net by hand: kinks, output weights, first steps, learning rates."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.lab.families import around, changed_data, check, quick_data, rule_test

from translucid_lab.claims import activation_slopes, gradient_descent

# ---- the worked example ----


def test_the_worked_example() -> None:
    problem = gradient_descent.worked()
    assert problem.seen("preactivation").tolist() == [1, 3]
    assert float(problem.output().detach()) == -1
    gradients = torch.autograd.grad(problem.loss(), list(problem.net.parameters()))
    w, b, v, c = (each.tolist() for each in gradients)
    assert w == [[-8, 0, -16], [4, 0, 8]]
    assert b == [-8, 4]
    assert v == [[-4, -12]]
    assert c == [-4]
    assert problem.step(0.02) == -4
    assert float(problem.loss().detach()) == pytest.approx(0.28758528)


def test_random_problems_begin_with_an_active_unit() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        assert (gradient_descent.random_problem(generator).seen("activation") > 0).any()


# ---- kinks ----


def kinks(**changed: list[float]) -> list[dict[str, Any]]:
    linear = {"curvature_output": 0.0, "curvature_loss": 0.0, "negative": 0.0, "kink": 1.0,
              "elsewhere": 0.0}  # fmt: skip
    return [linear | {name: values[seed] for name, values in changed.items()} for seed in range(10)]


def test_kinks() -> None:
    data = quick_data(activation_slopes.relu_kinks)
    drawn = activation_slopes.relu_kinks.draw([data, data]).series
    np.testing.assert_allclose(drawn["output ŷ"], data["along"]["output"])
    at = {float(b): place for place, b in enumerate(activation_slopes.BIASES)}
    assert [data["along"]["output"][at[b]] for b in (0.0, 1.0, 2.0)] == [-1, 1, 3]
    assert [data["along"]["loss"][at[b]] for b in (0.0, 1.0, 2.0)] == [8, 2, 0]


def test_curvature_and_jumps_have_their_closed_forms() -> None:
    """L'' = v² where the unit is on; the output's slope jumps by |v| where it goes on."""
    problem = gradient_descent.worked()  # its most active unit has v = -1
    assert activation_slopes._curvature(problem, "loss") == pytest.approx(1.0, rel=1e-4)
    assert activation_slopes._curvature(problem, "output") == pytest.approx(0.0, abs=1e-6)
    assert activation_slopes._slope_jump(problem, at_zero=True) == pytest.approx(1.0, rel=1e-6)
    assert activation_slopes._slope_jump(problem, at_zero=False) == pytest.approx(0.0, abs=1e-6)
    assert float(problem.loss().detach()) == 8  # left as it was


# ---- output weights ----


def distances(v: float, autograd: float = 0.0, spread: float = 0.0) -> list[dict[str, Any]]:
    numbers = {"numeric": [0.0, 0.0], "delta_v": [0.0, 0.0], "delta_h": [0.0, 0.0]}
    return [
        {"delta_v": each, "delta_h": 0.0, "autograd": autograd, "worked": numbers}
        for each in around(v, spread)
    ]


def test_output_weights() -> None:
    data = quick_data(gradient_descent.output_gradient)
    numbers = data["worked"]
    np.testing.assert_allclose(numbers["numeric"], [-4, -12], atol=1e-8)
    assert numbers["delta_v"] == [-8, 4]
    assert numbers["delta_h"] == numbers["autograd"] == [-4, -12]
    assert data["delta_h"] < 1e-6
    drawn = gradient_descent.output_gradient.draw([data]).values
    np.testing.assert_allclose(drawn, [-4, -8, -4, -12, 4, -12], atol=1e-8)


# ---- the first step ----


def first(loss: float = 0.28758528, fell: int = 100, rose: int = 0) -> list[dict[str, Any]]:
    losses = [8.0, loss] + [0.0] * 19
    return [{"worked": losses, "starts": 100, "fell": [50] * 7 + [fell], "rose": [50] * 7 + [rose]}]


@pytest.mark.slow
def test_the_first_step() -> None:
    data = quick_data(gradient_descent.first_step)
    known = [8.0, 0.28758528, 0.009709576233656043, 0.0002803543903998847, 7.813891698862153e-06]
    np.testing.assert_allclose(data["worked"][:5], known, rtol=1e-7)
    drawn = gradient_descent.first_step.draw([data, data]).series["loss fell"]
    np.testing.assert_allclose(drawn, np.array(data["fell"]) / data["starts"])


# ---- learning rates ----


def ended(slow: int, oscillates: int, otherwise: int, settles: int = 20) -> list[dict[str, Any]]:
    return [
        {"settles": settles, "slow": slow, "oscillates": oscillates, "otherwise": otherwise,
         "starts": 20, "worked": [{"rate": 0.1, "outcome": "dead"}]}
        for _ in range(10)
    ]  # fmt: skip


@pytest.mark.slow
def test_learning_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gradient_descent, "LADDER", gradient_descent.LADDER[::4]
    )  # fewer rungs, for time
    data = changed_data(gradient_descent.learning_rates)
    check(gradient_descent.learning_rates, [data])
    drawn = gradient_descent.learning_rates.draw([data, data]).series
    for each in data["worked"]:
        name = f"{each['rate']:g}: {each['outcome']}"
        np.testing.assert_allclose(drawn[name], each["losses"])
    by_rate = {each["rate"]: each for each in data["worked"]}
    assert by_rate[0.1]["losses"][:4] == pytest.approx([8.0, 65.4368, 7.008768, 5.67710208])
    assert {rate: each["outcome"] for rate, each in by_rate.items()} == {
        0.001: "slow", 0.005: "settles", 0.02: "settles", 0.05: "oscillates", 0.1: "dead",
        0.2: "dead",
    }  # fmt: skip


def test_what_lies_below_and_above_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ladders = iter([
        ["slow", "settles", "oscillates", "dead"],
        ["slow", "settles", "settles", "diverges"],
        ["settles", "slow", "settles", "oscillates"],  # slow above counts for nothing
        ["slow", "oscillates", "dead", "dead"],  # never settles
    ])  # fmt: skip
    monkeypatch.setattr(gradient_descent, "_outcomes", lambda problem: next(ladders))
    data = gradient_descent.learning_rates.run(0, True)
    counted = [data[name] for name in ("starts", "settles", "slow", "oscillates", "otherwise")]
    assert counted == [4, 3, 2, 2, 2]


@pytest.mark.parametrize(
    ("errors", "active", "expected"),
    [
        ([4, 3.9, 3.8, 3.7], 2, "slow"),
        ([4, 1, 0.1, 0.01], 2, "settles"),
        ([4, -3, 2, -1], 2, "oscillates"),
        ([4, -3, 2, -1], 0, "dead"),
        ([4, -8, 16, -32], 2, "diverges"),
        ([4, 1e9, float("nan"), float("nan")], 2, "diverges"),
        ([4, 1e-9, -1e-9, 1e-9, -1e-9], 2, "settles"),  # rounding does not oscillate
    ],
)
def test_outcomes(errors: list[float], active: int, expected: str) -> None:
    assert gradient_descent.outcome(errors, active) == expected


test_rules = rule_test(
    {
        "C8": [
            (kinks(), "supported"),
            (kinks(curvature_loss=around(1.0)), "refuted"),
            (kinks(negative=around(0.4)), "refuted"),
            (kinks(kink=around(0.0)), "refuted"),
            (kinks(elsewhere=around(1.0)), "refuted"),
            (kinks(curvature_loss=around(1e-3, 1e-3)), "undecided"),
        ],
        "C9": [
            (distances(1e-9), "supported"),
            (distances(1.2), "refuted"),
            (distances(1e-3), "undecided"),
            (distances(0.02, spread=0.04), "undecided"),
            (distances(1.2, autograd=0.5), "undecided"),
        ],
        "C10": [
            (first(), "supported"),
            (first(loss=0.3), "refuted"),
            (first(fell=99, rose=1), "refuted"),
            (first(fell=99), "undecided"),
        ],
        "C11": [
            (ended(20, 20, 0), "supported"),
            (ended(20, 1, 0), "refuted"),
            (ended(1, 20, 0), "refuted"),
            (ended(20, 20, 20), "depends", "how much too large"),
            (ended(20, 10, 0), "undecided"),
            (ended(20, 20, 10), "undecided"),
            (ended(0, 0, 0, settles=0), "undecided"),
        ],
    }
)
