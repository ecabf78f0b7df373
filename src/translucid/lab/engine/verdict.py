"""From measurements to a verdict, by a rule that was fixed before anything ran.

Numbers of several seeds become an interval; an interval lies above a bar, below it, or across it.
Only what lies clearly on one side decides; the rest stays undecided, which is a legal outcome.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

Verdict = Literal["supported", "refuted", "depends", "undecided"]
Side = Literal["above", "below", "across"]
Data = Mapping[str, Any]  # what one seed measured: numbers and lists of numbers

RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Finding:
    """What the measurements say of a claim, and why, in one or two sentences with the numbers."""

    verdict: Verdict
    why: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """When a claim counts as supported or refuted: in words, and as a function of the data."""

    text: str
    judge: Callable[[Sequence[Data]], Finding]


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and between which bounds it lies with 95 % confidence."""

    mean: float
    low: float
    high: float

    def against(self, bar: float) -> Side:
        if self.low > bar:
            return "above"
        return "below" if self.high < bar else "across"

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def mean_of(values: Sequence[float]) -> Interval:
    """The mean, with a bootstrap interval; the same values give the same interval."""
    array = np.asarray(values, dtype=float)
    if not len(array) or not np.isfinite(array).all():
        return Interval(math.nan, -math.inf, math.inf)  # decides nothing
    chosen = np.random.default_rng(0).integers(0, len(array), (RESAMPLES, len(array)))
    means = array[chosen].mean(axis=1)
    rest = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [rest, 1 - rest])
    return Interval(float(array.mean()), float(low), float(high))


def fraction_of(successes: int, tries: int) -> Interval:
    """A fraction of yes among yes and no, with the exact interval of Clopper and Pearson."""
    if not 0 <= successes <= tries or tries == 0:
        raise ValueError(f"{successes} of {tries} is no fraction")
    rest = (1 - CONFIDENCE) / 2
    low = 0.0 if successes == 0 else _solve(lambda p: _at_least(successes, tries, p) - rest)
    high = (
        1.0
        if successes == tries
        else _solve(lambda p: 1 - _at_least(successes + 1, tries, p) - rest, falling=True)
    )
    return Interval(successes / tries, low, high)


def difference_of(a: Sequence[float], b: Sequence[float]) -> Interval:
    """a - b, seed by seed."""
    return mean_of([x - y for x, y in zip(a, b, strict=True)])


def ratio_of(a: Sequence[float], b: Sequence[float]) -> Interval:
    """a / b, seed by seed."""
    return mean_of([x / y for x, y in zip(a, b, strict=True)])


def column(data: Sequence[Data], *path: str | int) -> list[float]:
    """One number of every seed: data[seed][path[0]][path[1]]..."""
    numbers = []
    for run in data:
        value: Any = run
        for key in path:
            value = value[key]
        numbers.append(float(value))
    return numbers


def average(data: Sequence[Mapping[str, Any]], *path: str | int) -> Tensor:
    """The mean over seeds of numbers or lists, for a picture; what no seed measured is nan."""
    rows = []
    for run in data:
        value: Any = run
        for key in path:
            value = value[key]
        rows.append(torch.tensor(value, dtype=torch.float64))
    return torch.stack(rows).nanmean(dim=0)


def all_hold(conditions: Iterable[bool | None]) -> bool | None:
    """True if all do, False if one does not, else None: the data do not say."""
    known = list(conditions)
    return False if False in known else None if None in known else True


def decide(
    sides: Mapping[str, bool | None], why: str, numbers: Mapping[str, Any] | None = None
) -> Finding:
    """Supported if all conditions hold, refuted if one clearly fails, else undecided. None: the
    data do not say."""
    verdicts: dict[bool | None, Verdict] = {True: "supported", False: "refuted", None: "undecided"}
    verdict = verdicts[all_hold(sides.values())]
    return Finding(verdict, why + _not_met(sides), numbers or {})


def by_case(
    cases: Mapping[str, bool | None],
    why: str,
    depends_on: str,
    numbers: Mapping[str, Any] | None = None,
) -> Finding:
    """Supported if a claim holds in every case, refuted if it clearly holds in none, depends if it
    holds in some and clearly not in others; else undecided. None: the data do not say."""
    holds = [case for case, holds_here in cases.items() if holds_here is True]
    fails = [case for case, holds_here in cases.items() if holds_here is False]
    open_still = [case for case, holds_here in cases.items() if holds_here is None]
    verdict: Verdict = "undecided"
    if holds and fails:
        verdict = "depends"
    elif not open_still:
        verdict = "supported" if holds else "refuted"
    parts = [f"it depends on {depends_on}"] if verdict == "depends" else []
    parts += [f"{state}: {' and '.join(names)}" for state, names in
              (("holds", holds), ("fails", fails), ("open", open_still)) if names]  # fmt: skip
    return Finding(verdict, f"{why} ({'; '.join(parts)})", numbers or {})


def _not_met(sides: Mapping[str, bool | None]) -> str:
    """The conditions that failed, and those that stay open."""
    failed = "; ".join(name for name, side in sides.items() if side is False)
    open_ = "; ".join(name for name, side in sides.items() if side is None)
    remarks = [f"does not hold: {failed}"] if failed else []
    remarks += [f"not clear: {open_}"] if open_ else []
    return f" ({'. '.join(remarks)})" if remarks else ""


def clearly(side: Side, wanted: Side) -> bool | None:
    """Does an interval lie where it should? None if it lies across the bar."""
    return None if side == "across" else side == wanted


def _at_least(successes: int, tries: int, p: float) -> float:
    """The chance of at least so many successes."""
    return sum(
        math.comb(tries, k) * p**k * (1 - p) ** (tries - k) for k in range(successes, tries + 1)
    )


def _solve(f: Callable[[float], float], *, falling: bool = False) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if (f(middle) < 0) != falling:
            low = middle
        else:
            high = middle
    return (low + high) / 2
