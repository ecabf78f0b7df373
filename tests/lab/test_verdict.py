"""From numbers to verdicts: intervals against a second way, and the logic of deciding."""

import math
from itertools import product

import numpy as np
import pytest

from translucid_lab import (
    Finding,
    Interval,
    Rule,
    by_case,
    clearly,
    column,
    decide,
    difference_of,
    fraction_of,
    has_learned,
    mean_of,
    median_of,
    not_tested,
    ratio_of,
    seeds_above,
)
from translucid_lab.engine.statistics import holm, t_interval, t_test

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
def test_intervals_of_fractions_have_at_least_their_nominal_coverage(p: float) -> None:
    tries = 12
    inside = 0.0
    for k in range(tries + 1):
        found = fraction_of(k, tries)
        if found.low <= p <= found.high:
            inside += math.comb(tries, k) * p**k * (1 - p) ** (tries - k)
    assert inside >= 0.95


@pytest.mark.parametrize(("successes", "tries"), [(-1, 3), (4, 3), (0, 0)])
def test_an_impossible_fraction_is_refused(successes: int, tries: int) -> None:
    with pytest.raises(ValueError, match=f"{successes} of {tries}"):
        fraction_of(successes, tries)


# ---- means ----


def test_the_interval_is_the_one_of_the_scale_that_is_named() -> None:
    values = np.random.default_rng(1).uniform(0.1, 0.9, size=10).tolist()
    for by, scale in (("t", "raw"), ("log", "log"), ("logit", "logit")):
        interval = mean_of(values, by)  # type: ignore[arg-type]
        assert (interval.mean, interval.low, interval.high) == pytest.approx(
            [float(bound) for bound in t_interval(np.array(values), scale)]  # type: ignore[arg-type]
        )
    assert mean_of(values, "rank") == median_of(values)


def test_what_seeds_agree_on_is_judged_by_ranks() -> None:
    """Without a spread Student's t is sure of everything: five seeds would be enough."""
    assert median_of([2.5] * 10) == mean_of([2.5] * 10) == Interval(2.5, 2.5, 2.5)
    assert mean_of([2.5] * 10).against(2.0) == "above"
    assert mean_of([2.5] * 5).against(2.0) == "across"
    assert mean_of([1.0] * 6 + [0.2, 0.4, 0.5, 0.9]).method == "rank"
    assert mean_of([1.0] * 4 + [0.2, 0.4, 0.5, 0.9, 0.3, 0.1]).method == "t"
    assert mean_of([0.0, *range(1, 10)], "log").method == "rank"  # a zero has no logarithm


def test_yes_or_no_data_is_no_mean() -> None:
    for by in ("t", "log", "logit"):
        with pytest.raises(ValueError, match=r"10 numbers are all 0 or 1.*fraction_of"):
            mean_of([1.0] * 7 + [0.0] * 3, by)
    # Accuracies that are all right or all wrong are judged by ranks, and equal numbers are no vote.
    assert mean_of([1.0] * 7 + [0.0] * 3, "rank").method == "rank"
    assert mean_of([0.0] * 10) == median_of([0.0] * 10)


def test_infinite_and_nan_values_are_undecided() -> None:
    for values in ([], [1.0, math.nan], [1.0, math.inf]):
        interval = mean_of(values)
        assert math.isnan(interval.mean)
        assert interval.against(0.0) == interval.against(1e300) == "across"


def test_differences_and_ratios_go_seed_by_seed() -> None:
    a, b = [3.0 * n for n in range(1, 11)], [3.0 * n - 2 for n in range(1, 11)]  # always 2 more
    assert difference_of(a, b) == Interval(2.0, 2.0, 2.0)
    assert ratio_of([2.0 * x for x in b], b) == Interval(2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="shorter"):
        difference_of(a, b[:2])


def test_ratios_are_those_of_logarithms() -> None:
    """A mean of ratios says that both are larger than the other."""
    a, b = [1.0, 10.0, 2.0], [10.0, 1.0, 2.0]
    assert ratio_of(a, b).mean == pytest.approx(1.0)
    assert ratio_of(a, b).mean * ratio_of(b, a).mean == pytest.approx(1.0)


def test_seeds_above_a_bar_are_a_fraction() -> None:
    assert seeds_above([0.1, 0.95, 0.97, 1.0], 0.9) == fraction_of(3, 4)
    assert has_learned([0.95] * 8 + [0.1] * 2, 0.9)
    assert not has_learned([0.95] * 7 + [0.1] * 3, 0.9)
    assert has_learned([0.05] * 8 + [1.0] * 2, 0.1, below=True)


# ---- Holm within a claim ----


def shifted(effect: float, seed: int) -> list[float]:
    return (effect + np.random.default_rng(seed).normal(size=10)).tolist()


def test_comparisons_of_one_claim_are_corrected_together() -> None:
    """Each by itself is clear at 0.05; four of them together are not all."""
    rows = [shifted(0.95, seed) for seed in range(4)]
    p_values = [t_test(row, 0.0) for row in rows]
    rule = Rule("", lambda data: decide(
        {str(at): clearly(mean_of(row).against(0.0), "above") for at, row in enumerate(rows)}, ""
    ))  # fmt: skip
    alone, together = rule.judge([]), rule.finding([])
    adjusted = holm(p_values)
    assert [side is True for side in alone.cases.values()] == [p <= 0.05 for p in p_values]
    assert [side is True for side in together.cases.values()] == [p <= 0.05 for p in adjusted]
    assert alone.cases != together.cases  # else this shows nothing
    assert [made.adjusted for made in together.comparisons] == pytest.approx(adjusted)


def test_the_level_of_a_verdict_is_that_of_what_it_needs() -> None:
    strong, weak = shifted(3.0, 1), shifted(1.2, 2)

    def judge(data: object) -> Finding:
        sides = [clearly(mean_of(row).against(0.0), "above") for row in (strong, weak)]
        return decide({"one of them": True if True in sides else None}, "")

    finding = Rule("", judge).finding([])
    assert finding.verdict == "supported"
    assert finding.p == pytest.approx(2 * t_test(strong, 0.0))  # the weaker one is not needed
    assert Rule("", lambda data: decide({"by algebra": True}, "")).finding([]).p is None


def test_comparisons_behind_a_gate_count_once_it_is_open() -> None:
    def judge(data: object) -> Finding:
        if mean_of(shifted(2.0, 3)).against(0.0) != "above":
            return not_tested("", ["the first"])
        return decide({"x": clearly(mean_of(shifted(2.0, 4)).against(0.0), "above")}, "")

    finding = Rule("", judge).finding([])
    p_values = [t_test(shifted(2.0, seed), 0.0) for seed in (3, 4)]
    assert [made.adjusted for made in finding.comparisons] == pytest.approx(holm(p_values))


@pytest.mark.slow
def test_wrong_verdicts_at_the_bar_stay_below_five_in_a_hundred() -> None:
    """Eight conditions at their bars: without the correction every third claim would be refuted."""
    generator = np.random.default_rng(5)
    wrong = {"alone": 0, "corrected": 0}
    for _ in range(300):
        rows = generator.normal(size=(8, 10)).tolist()
        rule = Rule("", lambda data: decide(
            {str(at): clearly(mean_of(row).against(0.0), "above")
             for at, row in enumerate(rows)}, ""  # noqa: B023 (judged at once)
        ))  # fmt: skip
        wrong["alone"] += False in rule.judge([]).cases.values()
        wrong["corrected"] += False in rule.finding([]).cases.values()
    assert wrong["alone"] > 0.1 * 300
    assert wrong["corrected"] < 0.05 * 300


def test_a_claim_about_an_unlearned_task_is_not_tested() -> None:
    assert decide({"x": False}, "", learned={"the task": False}).verdict == "not tested"
    assert decide({"x": False}, "", learned={"the task": True}).verdict == "refuted"
    cases: dict[str, bool | None] = {"a": True, "b": False}
    assert by_case(cases, "", "it").verdict == "depends"
    assert by_case(cases, "", "it", learned={"b": False}).verdict == "undecided"
    assert by_case(cases, "", "it", learned={"a": False, "b": False}).verdict == "not tested"
    assert by_case(cases, "", "it", learned={"all": False}).verdict == "not tested"


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


def test_corrected_intervals_exclude_exactly_the_bars_that_are_decided() -> None:
    """Whatever the estimate, the number of comparisons and the bars."""
    generator = np.random.default_rng(0)
    decided = 0
    for _ in range(200):
        intervals = [
            mean_of(generator.normal(0.6, 1.0, 10).tolist()),
            mean_of(generator.lognormal(0.5, 0.6, 10).tolist(), "log"),
            median_of(generator.normal(1.0, 1.0, 12).tolist()),
            fraction_of(int(generator.integers(0, 21)), 20),
        ][: int(generator.integers(1, 5))]

        def judge(data: object, intervals: list[Interval] = intervals) -> Finding:
            for interval in intervals:
                interval.against(0.5)
            return Finding("undecided", "")

        for made in Rule("", judge).finding([]).comparisons:
            low, high = made.corrected
            assert low <= made.low <= made.high <= high
            assert (made.side == "across") == (low <= 0.5 <= high), made
            decided += made.side != "across"
    assert decided > 50
