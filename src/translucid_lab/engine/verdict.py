"""Judge measurements by a rule that was frozen before they were made.

The numbers of several seeds become an interval, which lies above a bar, below it, or across it
(intervals.py). An interval decides only if it lies on one side of the bar; otherwise the claim
stays undecided. If the networks have not learned what a claim is about, the claim was not tested.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from translucid_lab.engine.intervals import LEVEL, BarComparison, Family, within

# Depends: the claim holds in some of the settings that it leaves open, and fails in others.
# Refuted: it fails in all of them. What the claim says itself ("everywhere", "sigmoid and tanh") is
# no such setting: one counterexample makes it fail.
# Illustrates: no measurement could change the outcome. Not applicable: the premise is not met.
Verdict = Literal[
    "supported", "refuted", "depends", "undecided", "not tested", "illustrates", "not applicable"
]
UNDECIDED: tuple[Verdict, ...] = ("undecided", "not tested", "illustrates", "not applicable")
# The kind of evidence: algebra checked by the library's code, random numbers, small networks
# trained for the claim, measured times, or data and weights that were not made for the claim.
Label = Literal["identity", "simulation", "trained toy", "timing", "real data"]
Data = Mapping[str, Any]  # the numbers, and lists of numbers, that one seed measured
ENOUGH = 0.8  # fraction of the seeds that must have learned for a claim to count as tested


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim, and why: one or two sentences with the numbers."""

    verdict: Verdict
    why: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    cases: Mapping[str, bool | None] = field(default_factory=dict)  # holds, fails, or open
    comparisons: tuple[BarComparison, ...] = ()  # of the rule, corrected
    p: float | None = None  # lowest significance level with this verdict; None: no comparison made


@dataclass(frozen=True)
class Rule:
    """When a claim counts as supported or refuted: as text, and as a function of the data."""

    text: str
    judge: Callable[[Sequence[Data]], Finding]
    label: Label = "trained toy"
    beyond: str = ""  # the limits of the verdict

    def finding(self, data: Sequence[Data]) -> Finding:
        """Apply the rule, with Holm's correction for all comparisons that it makes."""
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
        """The lowest significance level at which the verdict stays the same."""
        levels = sorted({p for p in family.adjusted.values() if p <= LEVEL}, reverse=True)
        if not levels or verdict in ("undecided", "not tested"):
            return None
        lower = Family()
        lower.adjusted = family.adjusted
        for level, below in zip(levels, [*levels[1:], -1.0], strict=True):
            lower.level = below
            if self._judged(data, lower).verdict != verdict:
                return level
        return None  # no comparison is needed


def column(data: Sequence[Data], *path: str | int) -> list[float]:
    """The number at one path for every seed: data[seed][path[0]][path[1]]..."""
    return [float(_at(run, path)) for run in data]


def average(data: Sequence[Data], *path: str | int) -> Tensor:
    """The mean over seeds of numbers or lists, for a picture; NaN where no seed has a number."""
    rows = [torch.tensor(_at(run, path), dtype=torch.float64) for run in data]
    return torch.stack(rows).nanmean(dim=0)


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        value = value[key]
    return value


def all_hold(conditions: Iterable[bool | None]) -> bool | None:
    """True if all hold, False if one fails, None if the data do not decide."""
    known = list(conditions)
    return False if False in known else None if None in known else True


def decide(
    sides: Mapping[str, bool | None],
    why: str,
    numbers: Mapping[str, Any] | None = None,
    *,
    learned: Mapping[str, bool] | None = None,
) -> Finding:
    """Supported if all conditions hold, refuted if one clearly fails, else undecided (None: the
    data do not decide). If something in `learned` was not learned, the claim is not tested."""
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
    holds in some and clearly fails in others; else undecided (None: the data do not decide).

    learned: what a network had to learn, and whether it did. If a case was not learned, only this
    case is not tested; if anything else was not learned, the claim is not tested.
    """
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


def illustrates(finding: Finding) -> Finding:
    """The finding of an experiment whose outcome is fixed by the numbers of its example, so that it
    shows what the claim means and cannot test it."""
    return replace(finding, verdict="illustrates")


def not_tested(
    why: str, missing: Iterable[str], numbers: Mapping[str, Any] | None = None
) -> Finding:
    """A finding that the claim could not be tested. missing: what was not learned or not found."""
    return Finding("not tested", f"{why} (not there: {'; '.join(missing)})", numbers or {})


def has_learned(values: Sequence[float], bar: float, *, below: bool = False) -> bool:
    """Whether at least eight of ten seeds pass the bar that shows a network has learned its
    task."""
    past = sum(value < bar if below else value > bar for value in values)
    return past >= ENOUGH * len(values)


def _not_met(sides: Mapping[str, bool | None]) -> str:
    """A remark on the conditions that failed and those that the data do not decide."""
    failed = "; ".join(name for name, side in sides.items() if side is False)
    open_ = "; ".join(name for name, side in sides.items() if side is None)
    remarks = [f"does not hold: {failed}"] if failed else []
    remarks += [f"not clear: {open_}"] if open_ else []
    return f" ({'. '.join(remarks)})" if remarks else ""


_STATES = {True: "holds", False: "fails", None: "is open"}


def compared(first: Finding, again: Finding) -> Iterator[str]:
    """Sentences: whether the verdict is the same, which cases changed, and how many effect sizes
    lie within the intervals of the first measurement."""
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
    """Whether verdict, cases and effect sizes agree."""
    if (first.verdict, dict(first.cases)) != (again.verdict, dict(again.cases)):
        return False
    sizes = [[comparison.value for comparison in finding.comparisons] for finding in (first, again)]
    return len(sizes[0]) == len(sizes[1]) and all(
        a == b or abs(a - b) <= tolerance * max(abs(a), abs(b)) for a, b in zip(*sizes, strict=True)
    )
