"""Two measurements of one claim, with other seeds: not the word alone, but cases and sizes."""

from collections.abc import Iterator

from translucid_lab.engine.verdict import Finding

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
