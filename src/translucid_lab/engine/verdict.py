"""From measurements to a verdict, by a rule that is frozen before the run that counts.

Numbers of several seeds become an interval; an interval lies above a bar, below it, or across it
(intervals.py). Only what lies clearly on one side decides; the rest stays undecided, which is a
legal outcome. Where the nets have not learned what a claim is about, nothing was tested.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from translucid_lab.engine.intervals import (
    LEVEL,
    BarComparison,
    Family,
    Interval,
    Side,
    clearly,
    difference_of,
    fraction_of,
    mean_of,
    median_of,
    ratio_of,
    seeds_above,
    within,
)

__all__ = [  # what rules are made of, in one place
    "BarComparison", "Data", "Finding", "Interval", "Label", "Rule", "Side", "Verdict", "all_hold",
    "average", "by_case", "clearly", "column", "decide", "difference_of", "fraction_of",
    "has_learned", "mean_of", "median_of", "not_tested", "ratio_of", "seeds_above",
]  # fmt: skip

Verdict = Literal["supported", "refuted", "depends", "undecided", "not tested"]
# What stands behind a claim: algebra that our code repeats, random numbers, small nets that are
# trained for it, a clock, or data and weights that were not made for it.
Label = Literal["identity", "simulation", "trained toy", "timing", "real data"]
Data = Mapping[str, Any]  # what one seed measured: numbers and lists of numbers
ENOUGH = 0.8  # of the seeds must have learned, or nothing is tested


@dataclass(frozen=True)
class Finding:
    """What the measurements say of a claim, and why, in one or two sentences with the numbers."""

    verdict: Verdict
    why: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    cases: Mapping[str, bool | None] = field(default_factory=dict)  # what holds, fails, stays open
    comparisons: tuple[BarComparison, ...] = ()  # all that the rule has made, corrected
    p: float | None = None  # the level down to which the verdict stays; None: none was compared


@dataclass(frozen=True)
class Rule:
    """When a claim counts as supported or refuted: in words, and as a function of the data."""

    text: str
    judge: Callable[[Sequence[Data]], Finding]
    label: Label = "trained toy"
    beyond: str = ""  # what the verdict does not say

    def finding(self, data: Sequence[Data]) -> Finding:
        """The verdict, with Holm's correction for all comparisons that the rule makes."""
        family = Family()
        finding = self._judged(data, family)
        while family.adjust():
            finding = self._judged(data, family)
        p = self._level(data, family, finding.verdict)
        return replace(finding, comparisons=family.comparisons(), p=p)

    def _judged(self, data: Sequence[Data], family: Family) -> Finding:
        with within(family):
            return self.judge(data)

    def _level(self, data: Sequence[Data], family: Family, verdict: Verdict) -> float | None:
        """How far the level can be lowered until the verdict is another."""
        levels = sorted({p for p in family.adjusted.values() if p <= LEVEL}, reverse=True)
        if not levels or verdict in ("undecided", "not tested"):
            return None
        lower = Family()
        lower.adjusted = family.adjusted
        for level, below in zip(levels, [*levels[1:], -1.0], strict=True):
            lower.level = below
            if self._judged(data, lower).verdict != verdict:
                return level
        return None  # none of the comparisons is needed


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
    sides: Mapping[str, bool | None],
    why: str,
    numbers: Mapping[str, Any] | None = None,
    *,
    learned: Mapping[str, bool] | None = None,
) -> Finding:
    """Supported if all conditions hold, refuted if one clearly fails, else undecided. None: the
    data do not say. What has to be `learned` first, and is not, leaves the claim untested."""
    if missing := [name for name, there in (learned or {}).items() if not there]:
        return not_tested(why, missing, numbers)
    verdicts: dict[bool | None, Verdict] = {True: "supported", False: "refuted", None: "undecided"}
    verdict = verdicts[all_hold(sides.values())]
    return Finding(verdict, why + _not_met(sides), numbers or {}, dict(sides))


def by_case(
    cases: Mapping[str, bool | None],
    why: str,
    depends_on: str,
    numbers: Mapping[str, Any] | None = None,
    *,
    learned: Mapping[str, bool] | None = None,
) -> Finding:
    """Supported if a claim holds in every case, refuted if it clearly holds in none, depends if it
    holds in some and clearly not in others; else undecided. None: the data do not say. A case (or
    all of them, by any other name) whose net has not `learned` what it is about is not tested."""
    missing = [name for name, there in (learned or {}).items() if not there]
    if any(name not in cases for name in missing) or set(cases) <= set(missing):
        return not_tested(why, missing, numbers)
    cases = {case: None if case in missing else side for case, side in cases.items()}
    holds = [case for case, holds_here in cases.items() if holds_here is True]
    fails = [case for case, holds_here in cases.items() if holds_here is False]
    open_still = [case for case, holds_here in cases.items() if holds_here is None]
    verdict: Verdict = "undecided"
    if holds and fails:
        verdict = "depends"
    elif not open_still:
        verdict = "supported" if holds else "refuted"
    parts = [f"it depends on {depends_on}"] if verdict == "depends" else []
    open_still = [case for case in open_still if case not in missing]
    parts += [f"{state}: {' and '.join(names)}" for state, names in
              (("holds", holds), ("fails", fails), ("open", open_still),
               ("not learned, so not tested", missing)) if names]  # fmt: skip
    return Finding(verdict, f"{why} ({'; '.join(parts)})", numbers or {}, cases)


def not_tested(
    why: str, missing: Iterable[str], numbers: Mapping[str, Any] | None = None
) -> Finding:
    """Nothing follows for the claim: what it is about was not there."""
    return Finding("not tested", f"{why} (not there: {'; '.join(missing)})", numbers or {})


def has_learned(values: Sequence[float], bar: float, *, below: bool = False) -> bool:
    """Have at least eight of ten seeds come past the bar that says a net has learned its task?"""
    past = sum(value < bar if below else value > bar for value in values)
    return past >= ENOUGH * len(values)


def _not_met(sides: Mapping[str, bool | None]) -> str:
    """The conditions that failed, and those that stay open."""
    failed = "; ".join(name for name, side in sides.items() if side is False)
    open_ = "; ".join(name for name, side in sides.items() if side is None)
    remarks = [f"does not hold: {failed}"] if failed else []
    remarks += [f"not clear: {open_}"] if open_ else []
    return f" ({'. '.join(remarks)})" if remarks else ""


_STATES = {True: "holds", False: "fails", None: "is open"}


def compared(first: Finding, again: Finding) -> Iterator[str]:
    """Sentences: is the verdict the same, which cases changed, and how many of the effect sizes lie
    within the intervals of the first measurement."""
    if first.verdict == again.verdict:
        yield "the same verdict."
    changed = [
        f"{case} {_STATES[before]}, then {_STATES[again.cases[case]]}"
        for case, before in first.cases.items()
        if case in again.cases and again.cases[case] is not before
    ]
    if changed:
        yield f"Cases that changed: {'; '.join(changed)}."
    if first.comparisons and len(first.comparisons) == len(again.comparisons):
        pairs = list(zip(first.comparisons, again.comparisons, strict=True))
        inside = sum(before.low <= after.value <= before.high for before, after in pairs)
        yield f"Of {len(pairs)} effect sizes {inside} lie within the intervals of the first run."


def same(first: Finding, again: Finding, tolerance: float = 1e-9) -> bool:
    """Are they the same verdict, cases and effect sizes?"""
    if (first.verdict, dict(first.cases)) != (again.verdict, dict(again.cases)):
        return False
    sizes = [[comparison.value for comparison in finding.comparisons] for finding in (first, again)]
    return len(sizes[0]) == len(sizes[1]) and all(
        a == b or abs(a - b) <= tolerance * max(abs(a), abs(b)) for a, b in zip(*sizes, strict=True)
    )
