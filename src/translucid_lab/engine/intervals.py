"""Confidence intervals over seeds, and their comparison with bars.

All comparisons that the rule of one claim makes form a family, and are corrected together by Holm's
method. Outside a rule, as in a notebook, a comparison is not corrected.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from translucid_lab.engine.statistics import (
    CONFIDENCE,
    Scale,
    binomial_test,
    clopper_pearson,
    holm,
    median_interval,
    on_scale,
    sign_test,
    t_interval,
    t_test,
)

Side = Literal["above", "below", "across"]
# Student's t on the numbers, their logarithms or their log odds; or the median, with rank tests.
Method = Literal["t", "log", "logit", "rank"]
LEVEL = 1 - CONFIDENCE
Bounds = Callable[[float], tuple[float, float]]  # of an interval, by its confidence


@dataclass(frozen=True)
class BarComparison:
    """A comparison of one estimate with a threshold, the bar."""

    value: float
    low: float
    high: float
    bar: float
    method: str
    p: float  # two-sided p-value of the hypothesis that the true value is at the bar
    adjusted: float  # p-value after Holm's correction over all comparisons of the claim
    side: Side
    values: tuple[float, ...] = ()  # one for each seed, in order
    corrected: tuple[float, float] = (-math.inf, math.inf)  # the interval after Holm's correction


class Family:
    """The comparisons of one rule, and which of them are significant at a level."""

    def __init__(self, level: float = LEVEL) -> None:
        self.level = level
        self.made: dict[tuple[float, float, float, float, str], BarComparison] = {}
        self.bounds: dict[tuple[float, float, float, float, str], Bounds] = {}
        self.adjusted: dict[tuple[float, float, float, float, str], float] = {}

    def side(self, comparison: BarComparison, bounds: Bounds) -> Side:
        key = (comparison.value, comparison.low, comparison.high, comparison.bar, comparison.method)
        adjusted = max(self.adjusted.get(key, comparison.p), comparison.p)
        side = _side(comparison.value, comparison.bar, adjusted <= self.level)
        self.made[key], self.bounds[key] = replace(comparison, adjusted=adjusted, side=side), bounds
        return side

    def comparisons(self) -> tuple[BarComparison, ...]:
        """All comparisons, corrected. A corrected interval has the level that Holm's correction
        leaves for its comparison, so it excludes the bar exactly if the comparison is decided."""
        return tuple(
            replace(
                made, adjusted=p, side=_side(made.value, made.bar, p <= self.level),
                corrected=self.bounds[key](1 - self.level * (made.p / p if p else 1.0)),
            )
            for (key, made), p in zip(self.made.items(), self.adjusted.values(), strict=True)
        )  # fmt: skip

    def adjust(self) -> bool:
        """Correct the p-values of all comparisons so far. Return whether any comparison is new
        since the last correction."""
        new = self.made.keys() != self.adjusted.keys()
        p_values = holm([comparison.p for comparison in self.made.values()])
        self.adjusted = dict(zip(self.made, p_values, strict=True))
        return new


_family: ContextVar[Family | None] = ContextVar("family", default=None)


@contextmanager
def within(family: Family) -> Iterator[Family]:
    """Collect the comparisons made in this block in the family."""
    token = _family.set(family)
    try:
        yield family
    finally:
        _family.reset(token)


def _side(value: float, bar: float, decided: bool) -> Side:
    if not decided or value == bar:
        return "across"
    return "above" if value > bar else "below"


@dataclass(frozen=True)
class Interval:
    """An estimate over seeds with its 95 % confidence interval."""

    mean: float  # or median, or fraction, by method
    low: float
    high: float
    method: str = field(default="bounds", compare=False)
    test: Callable[[float], float] | None = field(default=None, compare=False, repr=False)
    bounds: Bounds | None = field(default=None, compare=False, repr=False)
    values: tuple[float, ...] = field(default=(), compare=False, repr=False)

    def p(self, bar: float) -> float:
        """The two-sided p-value of the hypothesis that the true value is at the bar."""
        if self.test is not None:
            return self.test(bar)
        return 0.0 if self.low > bar or self.high < bar else 1.0

    def against(self, bar: float) -> Side:
        p = self.p(bar)
        side = _side(self.mean, bar, p <= LEVEL)
        family = _family.get()
        if family is None:
            return side
        made = BarComparison(
            self.mean, self.low, self.high, bar, self.method, p, p, side, self.values
        )
        return family.side(made, self.bounds or (lambda confidence: (self.low, self.high)))

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


UNKNOWN = Interval(math.nan, -math.inf, math.inf)  # contains every bar


def mean_of(values: Sequence[float], by: Method = "t") -> Interval:
    """The mean with its Student's t interval, on a scale that suits the quantity. If more than half
    of the seeds give the same number, t cannot estimate the spread, and the median is used.

    Yes/no data has no mean with such an interval, and is refused."""
    numbers = [float(value) for value in values]
    if set(numbers) == {0.0, 1.0} and by != "rank":
        raise ValueError(
            f"mean_of: the {len(numbers)} numbers are all 0 or 1 (yes or no); use fraction_of"
        )
    if not numbers or not all(map(math.isfinite, numbers)):
        return UNKNOWN
    if by == "rank" or 2 * Counter(numbers).most_common(1)[0][1] > len(numbers):
        return median_of(numbers)
    scale: Scale = "raw" if by == "t" else by
    if not on_scale(scale, np.array(numbers)):
        return median_of(numbers)  # zero has no logarithm

    def test(bar: float) -> float:
        # A bar that the scale does not contain can only be compared by ranks.
        if not on_scale(scale, np.array([bar])):
            return sign_test([number - bar for number in numbers])
        return t_test(numbers, bar, scale)

    def bounds(confidence: float) -> tuple[float, float]:
        _, low, high = map(float, t_interval(np.array(numbers), scale, confidence))
        return low, high

    mean = float(t_interval(np.array(numbers), scale)[0])
    method = "t" if by == "t" else f"t, {by}"
    return Interval(mean, *bounds(CONFIDENCE), method, test, bounds, tuple(numbers))


def median_of(values: Sequence[float]) -> Interval:
    """The median with its exact interval, valid for any distribution. Suited to runs that either
    learn or do not."""
    numbers = [float(value) for value in values]
    if not numbers or any(map(math.isnan, numbers)):
        return UNKNOWN

    def bounds(confidence: float) -> tuple[float, float]:
        _, low, high = map(float, median_interval(np.array(numbers), confidence))
        return low, high

    return Interval(
        float(np.median(numbers)), *bounds(CONFIDENCE), "rank",
        lambda bar: sign_test([number - bar for number in numbers]), bounds, tuple(numbers),
    )  # fmt: skip


def difference_of(a: Sequence[float], b: Sequence[float], by: Method = "t") -> Interval:
    """The mean of a - b over seeds, paired by seed."""
    return mean_of([x - y for x, y in zip(a, b, strict=True)], by)


def ratio_of(a: Sequence[float], b: Sequence[float]) -> Interval:
    """The geometric mean of a / b over seeds, paired by seed; the mean of ratios would favour large
    ones."""
    return mean_of([x / y if y else math.nan for x, y in zip(a, b, strict=True)], "log")


def fraction_of(successes: int, tries: int) -> Interval:
    """A fraction of successes, with the exact interval of Clopper and Pearson."""
    if not 0 <= successes <= tries or tries == 0:
        raise ValueError(f"{successes} of {tries} is not a fraction")
    return Interval(
        successes / tries, *clopper_pearson(successes, tries), "binomial",
        lambda bar: binomial_test(successes, tries, min(max(bar, 0.0), 1.0)),
        lambda confidence: clopper_pearson(successes, tries, confidence),
    )  # fmt: skip


def seeds_above(values: Sequence[float], bar: float) -> Interval:
    """The fraction of seeds that lie above a bar."""
    return fraction_of(sum(value > bar for value in values), len(values))


def clearly(side: Side, wanted: Side) -> bool | None:
    """Whether an interval lies on the wanted side of the bar; None if it contains the bar."""
    return None if side == "across" else side == wanted
