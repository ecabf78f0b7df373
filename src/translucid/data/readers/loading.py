"""What was read and what was left out of a file: the counts printed after loading, labels that
are missing among them.

Nothing is left out silently: whatever a reader leaves out is counted here, with its first line.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from translucid.core.errors import InputError, nearest
from translucid.core.spelling import quoted
from translucid.data.readers.cells import MISSING
from translucid.data.records import Labelled

Columns = int | str | tuple[int | str, ...]
Reason = Literal["empty", "no label", "too long", "comment", "range or empty node", "document mark"]

_WORDS: dict[Reason, str] = {
    "empty": "{n} empty, left out",
    "no label": "{n} without a label, left out",
    "too long": "{n} with a line above the limit, left out",
    "comment": "{n} comment lines, skipped",
    "range or empty node": "{n} multiword ranges or empty nodes, skipped",
    "document mark": "{n} -DOCSTART- marks, skipped",
}


@dataclass
class Loading:
    """Filled while records are read; `records` counts those that came out."""

    file: str = ""
    records: int = 0
    left_out: dict[Reason, int] = field(default_factory=dict)
    first: dict[Reason, int] = field(default_factory=dict)  # the first line of each reason
    notes: list[str] = field(default_factory=list)  # what the reader decided by itself
    # Which column played which part (role: name, or number from 1): in the training data of a
    # model, looked for where nobody chooses; and in this file.
    expected: Mapping[str, Columns] = field(default_factory=dict)
    columns: dict[str, Columns] = field(default_factory=dict)

    @property
    def empty(self) -> int:
        return self.left_out.get("empty", 0)

    @property
    def too_long(self) -> int:
        return self.left_out.get("too long", 0)

    @property
    def lost(self) -> dict[str, int]:
        """Examples of the file that are not among the records: reason and count."""
        words: dict[Reason, str] = {
            "empty": "empty", "no label": "without a label",
            "too long": "with a line above the limit",
        }  # fmt: skip
        return {words[reason]: n for reason, n in self.left_out.items() if reason in words}

    def leave_out(self, reason: Reason, line: int) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1
        self.first.setdefault(reason, line)

    def add(self, part: "Loading") -> None:
        """What was found in the part of the file that follows."""
        self.records += part.records
        for reason, count in part.left_out.items():
            self.left_out[reason] = self.left_out.get(reason, 0) + count
            self.first.setdefault(reason, part.first[reason])
        self.notes += part.notes

    def lines(self) -> list[str]:
        """The report, ready to print."""
        head = f"{self.file}: {self.records:,} record{'' if self.records == 1 else 's'}"
        counts = [
            "  " + _WORDS[reason].format(n=f"{n:,}") + f" (first: line {self.first[reason]:,})"
            for reason, n in self.left_out.items()
        ]
        return [head, *("  " + note for note in self.notes), *counts]


def check_labels(
    seen: Iterable[tuple[int, str]], known: Collection[str], file: str, what: str = "label"
) -> None:
    """Refuse labels that training never saw. seen: (line, label), in file order."""
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
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {listed}."
    more = f" ({len(unknown) - 1} further unknown {what}s)" if len(unknown) > 1 else ""
    raise InputError(
        f"{file}:{line}: the model knows no {what} {label!r}; {hint}{more} "
        f"A model can only be tested on {what}s it was trained with."
    )


AUTO = ("auto",)
FEW = 0.05  # of all labels: rarer words for a missing value are read as one


def has_no_label(value: object) -> bool:
    """Whether a cell of labels holds none, however its words are read."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return isinstance(value, str) and not value.strip()


def with_label(
    records: Sequence[Labelled], missing: Collection[str], file: str, loading: Loading
) -> list[Labelled]:
    """The records whose label is one. missing: the labels that mean there is none; auto: by their
    words. Those left out are counted."""
    counts = Counter(record.label for record in records)
    words = [label for label in counts if label.lower() in MISSING]
    if tuple(missing) != AUTO:
        words = [label for label in counts if label in missing]
    else:
        _ask_about_frequent(words, counts, file)
    if words:
        named = ", ".join(f"{label!r} ({counts[label]:,})" for label in words)
        loading.notes.append(
            f"read as a missing label: {named} (data.missing_labels=[] if it is a class)"
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
                f"data.missing_labels={quoted(label)} to leave these rows out"
            )
