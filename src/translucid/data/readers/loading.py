"""Reports on reading a file: how many records were read, how many were left out for which reason,
and the first line affected. Also checks for missing and unknown labels."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from translucid.core.errors import InputError, nearest
from translucid.core.spelling import quoted
from translucid.data.readers.cells import MISSING
from translucid.data.records import Labelled, TableRow

WithLabel = TypeVar("WithLabel", Labelled, TableRow)
Columns = int | str | tuple[int | str, ...]
Reason = Literal[
    "empty", "no label", "no output", "too long", "comment", "range or empty node", "document mark"
]  # fmt: skip

_WORDS: dict[Reason, str] = {
    "empty": "empty, left out",
    "no label": "without a label, left out",
    "no output": "without an output, left out",
    "too long": "with a line that is too long, left out",
    "comment": "comment lines, skipped",
    "range or empty node": "multiword ranges or empty nodes, skipped",
    "document mark": "-DOCSTART- marks, skipped",
}


@dataclass
class Loading:
    """The report on reading a file, filled in while records are read."""

    file: str = ""
    records: int = 0
    left_out: dict[Reason, int] = field(default_factory=dict)
    first: dict[Reason, int] = field(default_factory=dict)  # the first line affected, by reason
    notes: list[str] = field(default_factory=list)  # choices of the reader
    # Columns by role, as names or numbers from 1. `expected`: the columns that were used in
    # training, which are used unless others are chosen; `columns`: those used in this file.
    expected: Mapping[str, Columns] = field(default_factory=dict)
    columns: dict[str, Columns] = field(default_factory=dict)

    @property
    def lost(self) -> dict[str, int]:
        """For each reason, how many examples of the file were left out."""
        counts = {_WORDS[reason]: n for reason, n in self.left_out.items()}
        end = ", left out"
        return {words.removesuffix(end): n for words, n in counts.items() if words.endswith(end)}

    def leave_out(self, reason: Reason, line: int) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1
        self.first.setdefault(reason, line)

    def add(self, part: "Loading") -> None:
        """Add the report on the next part of the same file."""
        self.records += part.records
        for reason, count in part.left_out.items():
            self.left_out[reason] = self.left_out.get(reason, 0) + count
            self.first.setdefault(reason, part.first[reason])
        self.notes += part.notes

    def lines(self) -> list[str]:
        """The report, ready to print."""
        head = f"{self.file}: {self.records:,} record{'' if self.records == 1 else 's'}"
        counts = [
            f"  {n:,} {_WORDS[reason]} (first: line {self.first[reason]:,})"
            for reason, n in self.left_out.items()
        ]
        return [head, *("  " + note for note in self.notes), *counts]


def check_labels(
    seen: Iterable[tuple[int, str]], known: Collection[str], file: str, what: str = "label"
) -> None:
    """Raise an error if there are labels that were not in the training data. seen: pairs of line
    number and label, in the order of the file. what: the noun for the labels in the message."""
    unknown: dict[str, int] = {}
    allowed = set(known)
    for line, label in seen:
        if label not in allowed:
            unknown.setdefault(label, line)
    if not unknown:
        return
    label, line = next(iter(unknown.items()))
    close = nearest(label, known)
    some = sorted(known)
    listed = ", ".join(map(repr, some[:20])) + (", ..." if len(some) > 20 else "")
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"it has {listed}."
    more = f" ({len(unknown) - 1} further unknown {what}s)" if len(unknown) > 1 else ""
    raise InputError(
        f"{file}:{line}: the model has no {what} {label!r}; {hint}{more} "
        f"A model can only be tested on {what}s it was trained with."
    )


AUTO = ("auto",)
FEW = 0.05  # words such as n/a are missing labels if they are a smaller fraction of all labels


def has_no_label(value: object) -> bool:
    """Whether a cell of the label column is empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return isinstance(value, str) and not value.strip()


def with_label(
    records: Sequence[WithLabel], missing: Collection[str], file: str, loading: Loading
) -> list[WithLabel]:
    """The records that have a label; the others are counted in `loading`. missing: the labels that
    mean "no label", or AUTO for words such as n/a. With AUTO, a frequent word other than nan raises
    an error, since it may be a class."""
    counts = Counter(record.label for record in records)
    words = [label for label in counts if label.lower() in MISSING]
    if tuple(missing) != AUTO:
        words = [label for label in counts if label in missing]
    else:
        _ask_about_frequent(words, counts, file)
    if words:
        named = ", ".join(f"{label!r} ({counts[label]:,})" for label in words)
        loading.notes.append(
            f"read as a missing label: {named} (set data.missing_labels=[] if it is a class)"
        )
    for record in records:
        if record.label in words:
            loading.leave_out("no label", record.line)
    return [record for record in records if record.label not in words]


def _ask_about_frequent(words: Sequence[str], counts: Counter[str], file: str) -> None:
    for label in words:
        if label.lower() != "nan" and counts[label] >= FEW * counts.total():
            raise InputError(
                f"{file}: {counts[label]:,} of {counts.total():,} labels are {label!r}; is it a "
                "class, or a missing label? Set data.missing_labels=[] if it is a class, or "
                f"data.missing_labels={quoted(label)} to skip these rows"
            )
