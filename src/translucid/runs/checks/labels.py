"""Labels that a part of the data lacks, and labels that are written in two ways."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from translucid.core.errors import InputError
from translucid.runs.recipe.examples import Record
from translucid.tasks.base import Task
from translucid.tasks.findings import Finding

SHOWN = 5  # labels, before the rest is counted


def of_labels(
    task: type[Task[Any, Any]],
    parts: Mapping[str, Sequence[Record]],
    files: Mapping[str, str] | None = None,
) -> list[Finding]:
    """What `check` and the start of a training print about labels. parts: with train; files: those
    of the other parts, as far as they have one."""
    noun = task.label_noun
    if noun is None or "train" not in parts:
        return []
    counts = {
        part: Counter(label for record in records for label in record.labels)
        for part, records in parts.items()
    }
    findings = [_spelling(noun, counts["train"])]
    for part in parts:
        if part != "train":
            file = (files or {}).get(part)
            findings.append(_of_part(task, noun, part, parts, counts, file))
    return findings


def _of_part(
    task: type[Task[Any, Any]],
    noun: str,
    part: str,
    parts: Mapping[str, Sequence[Record]],
    counts: Mapping[str, Counter[str]],
    file: str | None,
) -> Finding:
    """Held-out labels that training never shows, and labels of training that are not held out."""
    name, train = f"{noun}s of {part}", counts["train"]
    if file is not None:
        try:
            task.check_labels(parts[part], sorted(train), file)
        except InputError as error:
            return Finding(name, False, str(error), serious=True)
    absent = [label for label, _ in train.most_common() if label not in counts[part]]
    if not absent:
        return Finding(name, True, f"the same {len(counts[part]):,} as in the training data")
    shown = ", ".join(f"{label!r} ({train[label]:,})" for label in absent[:SHOWN])
    more = f" and {len(absent) - SHOWN:,} more" if len(absent) > SHOWN else ""
    words = (
        f"{len(absent):,} of {len(train):,} {noun}s (examples in train) do not occur in {part}: "
        f"{shown}{more}; the score says nothing about them"
    )
    return Finding(name, False, words)


def _spelling(noun: str, counts: Counter[str]) -> Finding:
    """Labels that differ only in case or white space."""
    name, alike = f"spelling of {noun}s", dict[str, list[str]]()
    for label in counts:
        alike.setdefault("".join(label.split()).casefold(), []).append(label)
    several = [sorted(labels, key=lambda x: -counts[x]) for labels in alike.values() if labels[1:]]
    if not several:
        return Finding(name, True, f"no two {noun}s differ only in case or white space")
    shown = "; ".join(
        " and ".join(f"{label!r} ({counts[label]:,})" for label in labels)
        for labels in several[:SHOWN]
    )
    more = f"; and {len(several) - SHOWN:,} more" if len(several) > SHOWN else ""
    words = (
        f"{shown}{more} are different {noun}s, though they differ only in case or white space; "
        "write them in one way if they mean the same"
    )
    return Finding(name, False, words)
