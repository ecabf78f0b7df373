"""Labels that are missing: cells without a value, and words that tables write for none.

A cell that is empty, null or NaN is missing. Other words, such as NA or none, may be a class: they
count as missing where they are rare, and are asked about where they are not.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence

from translucid.core.errors import InputError
from translucid.core.spelling import quoted
from translucid.data.readers.cells import MISSING
from translucid.data.readers.loading import Loading
from translucid.data.records import Labelled

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
