"""From numbers to verdicts: intervals against a second way, and the logic of deciding."""

import math
from itertools import product

import numpy as np
import pytest

from translucid.lab.engine.verdict import (
    Interval,
    clearly,
    column,
    decide,
    difference_of,
    fraction_of,
    mean_of,
    ratio_of,
)

# ---- shares ----


def tail(successes: int, tries: int, p: float) -> float:
    """The chance of at least so many, by going through every outcome."""
    outcomes = product((0, 1), repeat=tries)
    return sum(
        math.prod(p if each else 1 - p for each in outcome)
        for outcome in outcomes
        if sum(outcome) >= successes
    )


@pytest.mark.parametrize("tries", [1, 2, 5, 10, 40])
def test_shares_of_none_and_of_all_have_closed_forms(tries: int) -> None:
    none, every = fraction_of(0, tries), fraction_of(tries, tries)
    assert (none.mean, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1 - 0.025 ** (1 / tries), abs=1e-12)
    assert (every.mean, every.high) == (1.0, 1.0)
    assert every.low == pytest.approx(0.025 ** (1 / tries), abs=1e-12)


@pytest.mark.parametrize(("successes", "tries"), [(1, 4), (2, 5), (4, 5), (3, 6)])
def test_shares_are_what_a_search_over_all_outcomes_finds(successes: int, tries: int) -> None:
    found = fraction_of(successes, tries)
    grid = np.linspace(0, 1, 1001)
    low = max(p for p in grid if tail(successes, tries, p) <= 0.025)
    high = min(p for p in grid if 1 - tail(successes + 1, tries, p) <= 0.025)
    assert found.mean == successes / tries
    assert found.low == pytest.approx(low, abs=0.001)
    assert found.high == pytest.approx(high, abs=0.001)


def test_shares_are_known_numbers() -> None:
    found = fraction_of(8, 10)  # in the tables of Clopper and Pearson
    assert (found.low, found.high) == pytest.approx((0.44390, 0.97479), abs=1e-5)
    swapped = fraction_of(2, 10)
    assert (1 - swapped.high, 1 - swapped.low) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.83])
def test_shares_hold_the_truth_at_least_as_often_as_they_say(p: float) -> None:
    tries = 12
    inside = 0.0
    for k in range(tries + 1):
        found = fraction_of(k, tries)
        if found.low <= p <= found.high:
            inside += math.comb(tries, k) * p**k * (1 - p) ** (tries - k)
    assert inside >= 0.95


@pytest.mark.parametrize(("successes", "tries"), [(-1, 3), (4, 3), (0, 0)])
def test_what_is_no_share(successes: int, tries: int) -> None:
    with pytest.raises(ValueError, match="is no fraction"):
        fraction_of(successes, tries)


# ---- means ----


def test_the_same_values_give_the_same_interval() -> None:
    values = np.random.default_rng(1).normal(size=20).tolist()  # hardly two resamples are alike
    found = mean_of(values)
    assert all(mean_of(values) == found for _ in range(3))
    assert found.mean == pytest.approx(sum(values) / 20)
    assert min(values) <= found.low < found.mean < found.high <= max(values)


def test_the_bootstrap_is_what_all_resamples_give() -> None:
    values = [0.0, 1.0, 2.0, 5.0]
    every = np.array([np.mean(chosen) for chosen in product(values, repeat=4)])
    found = mean_of(values)
    assert (found.low, found.high) == pytest.approx(np.quantile(every, [0.025, 0.975]), abs=0.26)


def test_bootstrap_intervals_hold_the_truth_about_as_often_as_few_seeds_allow() -> None:
    generator = np.random.default_rng(5)
    inside = sum(
        found.low <= 3.0 <= found.high
        for found in (mean_of(generator.normal(3.0, 2.0, 30)) for _ in range(200))
    )
    assert 180 <= inside <= 199


def test_constants_and_what_is_not_finite() -> None:
    assert mean_of([2.5] * 5) == Interval(2.5, 2.5, 2.5)
    for values in ([], [1.0, math.nan], [1.0, math.inf]):
        found = mean_of(values)
        assert math.isnan(found.mean)
        assert found.against(0.0) == found.against(1e300) == "across"  # decides nothing


def test_differences_and_ratios_go_seed_by_seed() -> None:
    a, b = [3.0, 5.0, 9.0], [1.0, 3.0, 7.0]  # far apart from seed to seed, always 2 more
    assert difference_of(a, b) == Interval(2.0, 2.0, 2.0)
    assert ratio_of([2.0, 8.0], [1.0, 4.0]) == Interval(2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="shorter"):
        difference_of(a, b[:2])


def test_columns_follow_a_path() -> None:
    data = [{"a": {"b": [1, 2]}}, {"a": {"b": [3, 4]}}]
    assert column(data, "a", "b", 1) == [2.0, 4.0]


# ---- sides and verdicts ----


def test_an_interval_lies_above_below_or_across() -> None:
    found = Interval(1.0, 0.5, 1.5)
    sides = [found.against(bar) for bar in (0.4, 0.5, 1.0, 1.5, 1.6)]
    assert sides == ["above", "across", "across", "across", "below"]
    assert str(found) == "1 [0.5, 1.5]"


def test_clearly() -> None:
    assert clearly("above", "above") is True
    assert clearly("below", "above") is False
    assert clearly("across", "above") is None
    assert clearly("across", "below") is None


@pytest.mark.parametrize(
    ("sides", "verdict"),
    [
        ((True, True), "supported"),
        ((True, None), "undecided"),
        ((None, None), "undecided"),
        ((True, False), "refuted"),
        ((None, False), "refuted"),
    ],
)
def test_all_must_hold_and_one_failure_refutes(
    sides: tuple[bool | None, ...], verdict: str
) -> None:
    named = {f"condition {place}": side for place, side in enumerate(sides)}
    found = decide(named, "because", {"x": 1.0})
    assert found.verdict == verdict
    assert found.numbers == {"x": 1.0}
    assert found.why.startswith("because")
    for name, side in named.items():
        assert (f"does not hold: {name}" in found.why) == (side is False)
        if side is True:
            assert name not in found.why
    if None in sides:
        assert "not clear: condition" in found.why
