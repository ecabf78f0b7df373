"""What several seeds say of one number, and of which side of a bar it lies on.

A rule compares intervals with bars. All comparisons that one claim's rule makes are one family:
only what survives Holm's correction lies on a side. Outside of a family, as in a notebook, a
comparison stands for itself.
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
# Student's t on the numbers, their logarithms or their log odds; or the median, by ranks alone.
Method = Literal["t", "log", "logit", "rank"]
LEVEL = 1 - CONFIDENCE


@dataclass(frozen=True)
class BarComparison:
    """One number against one bar, as a rule has made it."""

    value: float
    low: float
    high: float
    bar: float
    method: str
    p: float  # how likely a truth at the bar gives a number as far from it, on either side
    adjusted: float  # by Holm, for all comparisons of the claim
    side: Side
    values: tuple[float, ...] = ()  # of the seeds, in their order


class Family:
    """The comparisons of one rule, and which of them may be believed at a level."""

    def __init__(self, level: float = LEVEL) -> None:
        self.level = level
        self.made: dict[tuple[float, float, float, float, str], BarComparison] = {}
        self.adjusted: dict[tuple[float, float, float, float, str], float] = {}

    def side(self, comparison: BarComparison) -> Side:
        key = (comparison.value, comparison.low, comparison.high, comparison.bar, comparison.method)
        adjusted = max(self.adjusted.get(key, comparison.p), comparison.p)
        side = _side(comparison.value, comparison.bar, adjusted <= self.level)
        self.made[key] = replace(comparison, adjusted=adjusted, side=side)
        return side

    def comparisons(self) -> tuple[BarComparison, ...]:
        """All of them, as they stand after the correction."""
        return tuple(
            replace(made, adjusted=p, side=_side(made.value, made.bar, p <= self.level))
            for made, p in zip(self.made.values(), self.adjusted.values(), strict=True)
        )

    def adjust(self) -> bool:
        """Correct for all that were made so far; is any of them new?"""
        new = self.made.keys() != self.adjusted.keys()
        p_values = holm([comparison.p for comparison in self.made.values()])
        self.adjusted = dict(zip(self.made, p_values, strict=True))
        return new


_family: ContextVar[Family | None] = ContextVar("family", default=None)


@contextmanager
def within(family: Family) -> Iterator[Family]:
    """Comparisons that are made here belong to this family."""
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
    """A number over seeds, and between which bounds it lies with 95 % confidence."""

    mean: float  # of whichever kind the method takes
    low: float
    high: float
    method: str = field(default="bounds", compare=False)
    test: Callable[[float], float] | None = field(default=None, compare=False, repr=False)
    values: tuple[float, ...] = field(default=(), compare=False, repr=False)

    def p(self, bar: float) -> float:
        """How likely a truth at the bar gives a number as far from it."""
        if self.test is not None:
            return self.test(bar)
        return 0.0 if self.low > bar or self.high < bar else 1.0

    def against(self, bar: float) -> Side:
        p = self.p(bar)
        side = _side(self.mean, bar, p <= LEVEL)
        family = _family.get()
        if family is None:
            return side
        return family.side(
            BarComparison(self.mean, self.low, self.high, bar, self.method, p, p, side, self.values)
        )

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


NOTHING = Interval(math.nan, -math.inf, math.inf)  # decides nothing


def mean_of(values: Sequence[float], by: Method = "t") -> Interval:
    """The mean, by Student's t on the scale that suits the quantity. Where more than half of the
    seeds give one and the same number, t has no spread to go by: then the median, by ranks."""
    numbers = [float(value) for value in values]
    if not numbers or not all(map(math.isfinite, numbers)):
        return NOTHING
    if by == "rank" or 2 * Counter(numbers).most_common(1)[0][1] > len(numbers):
        return median_of(numbers)
    scale: Scale = "raw" if by == "t" else by
    if not on_scale(scale, np.array(numbers)):
        return median_of(numbers)  # a zero has no logarithm, but it has a rank

    def test(bar: float) -> float:
        # A bar that the scale cannot hold lies beyond all numbers: ranks alone can be asked.
        if not on_scale(scale, np.array([bar])):
            return sign_test([number - bar for number in numbers])
        return t_test(numbers, bar, scale)

    mean, low, high = map(float, t_interval(np.array(numbers), scale))
    return Interval(mean, low, high, "t" if by == "t" else f"t, {by}", test, tuple(numbers))


def median_of(values: Sequence[float]) -> Interval:
    """The median, exact for whatever distribution: for what runs learn or do not learn."""
    numbers = [float(value) for value in values]
    if not numbers or any(map(math.isnan, numbers)):
        return NOTHING
    median, low, high = map(float, median_interval(np.array(numbers)))
    return Interval(
        median, low, high, "rank",
        lambda bar: sign_test([number - bar for number in numbers]), tuple(numbers),
    )  # fmt: skip


def difference_of(a: Sequence[float], b: Sequence[float], by: Method = "t") -> Interval:
    """a - b, seed by seed."""
    return mean_of([x - y for x, y in zip(a, b, strict=True)], by)


def ratio_of(a: Sequence[float], b: Sequence[float]) -> Interval:
    """a / b, seed by seed: the geometric mean, since a mean of ratios favours the large ones."""
    return mean_of([x / y if y else math.nan for x, y in zip(a, b, strict=True)], "log")


def fraction_of(successes: int, tries: int) -> Interval:
    """A fraction of yes among yes and no, with the exact interval of Clopper and Pearson."""
    if not 0 <= successes <= tries or tries == 0:
        raise ValueError(f"{successes} of {tries} is no fraction")
    low, high = clopper_pearson(successes, tries)
    return Interval(
        successes / tries, low, high, "binomial",
        lambda bar: binomial_test(successes, tries, min(max(bar, 0.0), 1.0)),
    )  # fmt: skip


def seeds_above(values: Sequence[float], bar: float) -> Interval:
    """The fraction of seeds that lie above a bar."""
    return fraction_of(sum(value > bar for value in values), len(values))


def clearly(side: Side, wanted: Side) -> bool | None:
    """Does an interval lie where it should? None if it lies across the bar."""
    return None if side == "across" else side == wanted
