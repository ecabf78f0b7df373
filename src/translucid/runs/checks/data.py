"""Mistakes that stand in the data: twice the same, seen before the test, out of balance.

Each check takes records and returns a Finding. Records are compared by hashes of 8 bytes each, so
that millions of them can be; what seems equal is then compared itself.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from translucid.runs.recipe.examples import Record
from translucid.tasks.base import Task
from translucid.tasks.findings import Finding

MANY_TWICE = 0.1  # the share of repeated training examples that is worth a word
MOSTLY = 0.5  # held-out examples that stand in the training data: it is the same file
FEW_SOURCES = 0.05  # other translations of a known source are normal up to here
SHORT_TEXT = 5  # words; shorter lines of running text repeat by nature
WORDS = {"train": "training", "valid": "validation", "test": "test"}


def duplicated(train: Sequence[Record]) -> Finding:
    """The same example more than once; empty lines do not count, which were kept on purpose."""
    train = [r for r in train if not r.running or any(t.strip() for t in r.texts)]
    _, firsts, which = np.unique(_hashes(train, _whole), return_index=True, return_inverse=True)
    before = firsts[which]  # of each example, where it stands for the first time
    again = [
        (train[place], train[before[place]])
        for place in np.flatnonzero(before != np.arange(len(train))).tolist()
    ]
    again = [(one, other) for one, other in again if _whole(one) == _whole(other)]
    fraction = len(again) / max(len(train), 1)
    words = (
        f"{len(again):,} of {len(train):,} training examples repeat an earlier one ({fraction:.1%})"
    )
    if again:
        words += f"; first: line {again[0][0].line:,} = line {again[0][1].line:,}"
    if fraction > MANY_TWICE:
        words += "; a model learns them by heart: remove repetitions unless they are meant"
    return Finding("duplicates", fraction <= MANY_TWICE, words)


def crossed(train: Sequence[Record], held_out: Sequence[Record], part: str) -> Finding:
    """Held-out examples that training has seen: their score praises memory."""
    compared = [r for r in held_out if not r.running or _long_enough(r)]
    both = _also_in(train, compared, lambda record: record.inputs_key)
    fraction = len(both) / max(len(compared), 1)
    kind = f" of at least {SHORT_TEXT} words" if held_out and held_out[0].running else ""
    words = (
        f"{len(both):,} of {len(compared):,} {WORDS[part]} examples{kind} also stand in the "
        "training data"
    )
    if both:
        words += f" (first: {part} line {both[0][0]:,} = train line {both[0][1]:,})"
    ok = not both
    if compared and compared[0].question is not None:
        known = _also_in(train, compared, lambda record: record.question)
        words += f", {len(known):,} by their source"
        ok = ok and len(known) <= FEW_SOURCES * len(compared)
    if not ok:
        words += "; the score will be too good: remove them from one of the two"
    return Finding(f"{part} apart from train", ok, words, serious=fraction >= MOSTLY)


def empty(parts: dict[str, Sequence[Record]]) -> Finding:
    """Examples with nothing to read or nothing to say."""
    places = [
        f"{part} line {record.line:,}"
        for part, records in parts.items()
        for record in records
        if not all(text.strip() for text in record.texts)
    ]
    words = f"{len(places):,} examples with an empty side"
    if places:
        words += f" (first: {places[0]}); remove them"
    return Finding("empty", not places, words)


def of_task(task: type[Task[Any, Any]], parts: dict[str, Sequence[Record]]) -> list[Finding]:
    """All checks of data that suit its kind; `parts` has train, and perhaps valid and test."""
    train = parts["train"]
    findings = [duplicated(train)]
    findings += [crossed(train, parts[p], p) for p in ("valid", "test") if parts.get(p)]
    if train[0].sides and not train[0].running:  # of texts, only those on purpose are empty
        findings.append(empty(parts))
    return findings + task.check_data(parts)


def _whole(record: Record) -> Hashable:
    key: Hashable = record.whole_key
    return key


def _hashes(records: Iterable[Record], key: Callable[[Record], Hashable]) -> NDArray[np.int64]:
    return np.fromiter((hash(key(record)) for record in records), dtype=np.int64)


def _also_in(
    train: Sequence[Record], held_out: Sequence[Record], key: Callable[[Record], Hashable]
) -> list[tuple[int, int]]:
    """(held-out line, training line) of the records with equal keys."""
    if not train or not held_out:
        return []
    hashes, wanted = _hashes(train, key), _hashes(held_out, key)
    order = np.argsort(hashes, kind="stable")  # of equal ones the first stays first
    places = order[np.searchsorted(hashes, wanted, sorter=order).clip(max=len(hashes) - 1)]
    hits = np.flatnonzero(hashes[places] == wanted).tolist()
    pairs = ((held_out[i], train[places[i]]) for i in hits)
    return [(one.line, other.line) for one, other in pairs if key(one) == key(other)]


def _long_enough(record: Record) -> bool:
    return any(len(text.split(maxsplit=SHORT_TEXT)) >= SHORT_TEXT for text in record.texts)
