"""Checks on the data: sizes, lengths, labels, duplicates, overlap of training and held-out data,
labels missing from a part or spelled inconsistently, too few examples.

Each check takes records and returns a Finding. Records are compared by 8-byte hashes, so that
millions fit in memory. Records with equal hashes are then compared by value.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from translucid.core.errors import InputError
from translucid.runs.recipe.examples import Record
from translucid.tasks.base import Task
from translucid.tasks.findings import Finding
from translucid.tasks.options import DataConfig
from translucid.tasks.vocabulary import check_labels

MANY_TWICE = 0.1  # fraction of repeated training examples to warn about
MOSTLY = 0.5  # fraction of held-out examples in the training data that is an error
FEW_SOURCES = 0.05  # fraction of sources with another translation that is normal
SHORT_TEXT = 5  # words; shorter lines of running text repeat by nature
WORDS = {"train": "training", "valid": "validation", "test": "test"}


def duplicated(train: Sequence[Record]) -> Finding:
    """Check for duplicate training examples, except empty lines that are kept on purpose."""
    train = [r for r in train if not r.running or any(t.strip() for t in r.texts)]
    _, firsts, which = np.unique(
        _hashes(train, lambda record: record.whole_key), return_index=True, return_inverse=True
    )
    before = firsts[which]  # the first occurrence of each example
    again = [
        (train[place], train[before[place]])
        for place in np.flatnonzero(before != np.arange(len(train))).tolist()
    ]
    again = [(one, other) for one, other in again if one.whole_key == other.whole_key]
    fraction = len(again) / max(len(train), 1)
    words = (
        f"{len(again):,} of {len(train):,} training examples repeat an earlier one ({fraction:.1%})"
    )
    if again:
        words += f"; first: line {again[0][0].line:,} = line {again[0][1].line:,}"
    if fraction > MANY_TWICE:
        words += "; the model may memorize them: remove repetitions unless they are intended"
    return Finding("duplicates", fraction <= MANY_TWICE, words)


def crossed(train: Sequence[Record], held_out: Sequence[Record], part: str) -> Finding:
    """Check for held-out examples that are also in the training data."""
    compared = [r for r in held_out if not r.running or _long_enough(r)]
    both = _also_in(train, compared, lambda record: record.inputs_key)
    fraction = len(both) / max(len(compared), 1)
    kind = f" of at least {SHORT_TEXT} words" if held_out and held_out[0].running else ""
    words = (
        f"{len(both):,} of {len(compared):,} {WORDS[part]} examples{kind} are also in the training "
        "data"
    )
    if both:
        words += f" (first: {part} line {both[0][0]:,} = train line {both[0][1]:,})"
    ok = not both
    if compared and compared[0].question is not None:
        known = _also_in(train, compared, lambda record: record.question)
        words += f", {len(known):,} if only the sources are compared"
        ok = ok and len(known) <= FEW_SOURCES * len(compared)
    if not ok:
        words += "; the score will be too high: remove these examples from one of the two"
    return Finding(f"{part} apart from train", ok, words, serious=fraction >= MOSTLY)


def empty(parts: dict[str, Sequence[Record]]) -> Finding:
    """Check for examples with an empty text."""
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
    """Run all data checks for this task. parts: the records of train and, if given, of valid and
    test."""
    train = parts["train"]
    findings = [duplicated(train)]
    findings += [crossed(train, parts[p], p) for p in ("valid", "test") if parts.get(p)]
    if train[0].sides and not train[0].running:  # empty lines of running text are intended
        findings.append(empty(parts))
    return findings + task.check_data(parts)


def _hashes(records: Iterable[Record], key: Callable[[Record], Hashable]) -> NDArray[np.int64]:
    return np.fromiter((hash(key(record)) for record in records), dtype=np.int64)


def _also_in(
    train: Sequence[Record], held_out: Sequence[Record], key: Callable[[Record], Hashable]
) -> list[tuple[int, int]]:
    """The line numbers (held-out, training) of each held-out record whose key equals that of a
    training record."""
    if not train or not held_out:
        return []
    hashes, wanted = _hashes(train, key), _hashes(held_out, key)
    order = np.argsort(hashes, kind="stable")  # finds the first of equal ones
    places = order[np.searchsorted(hashes, wanted, sorter=order).clip(max=len(hashes) - 1)]
    hits = np.flatnonzero(hashes[places] == wanted).tolist()
    pairs = ((held_out[i], train[places[i]]) for i in hits)
    return [(one.line, other.line) for one, other in pairs if key(one) == key(other)]


def _long_enough(record: Record) -> bool:
    return any(len(text.split(maxsplit=SHORT_TEXT)) >= SHORT_TEXT for text in record.texts)


SHOWN = 5  # labels to list


def of_labels(
    task: type[Task[Any, Any]],
    parts: Mapping[str, Sequence[Record]],
    files: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Run the checks on labels. files: the files of the held-out parts, if any."""
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
    """Check for labels that occur only in the held-out part or only in the training data."""
    name, train = f"{noun}s of {part}", counts["train"]
    if file is not None:
        try:
            check_labels(parts[part], sorted(train), file, task.label_noun)
        except InputError as error:
            return Finding(name, False, str(error), serious=True)
    absent = [label for label, _ in train.most_common() if label not in counts[part]]
    if not absent:
        return Finding(name, True, f"the same {len(counts[part]):,} as in the training data")
    shown = ", ".join(f"{label!r} ({train[label]:,})" for label in absent[:SHOWN])
    more = f" and {len(absent) - SHOWN:,} more" if len(absent) > SHOWN else ""
    words = (
        f"{len(absent):,} of {len(train):,} {noun}s (examples in train) do not occur in {part}: "
        f"{shown}{more}; the score does not cover them"
    )
    return Finding(name, False, words)


def _spelling(noun: str, counts: Counter[str]) -> Finding:
    """Check for labels that differ only in case or white space."""
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
        f"{shown}{more} are different {noun}s, but differ only in case or white space; spell them "
        "the same if they mean the same"
    )
    return Finding(name, False, words)


MANY_UNSEEN = 0.2  # fraction of words that a word vocabulary would miss


@dataclass(frozen=True)
class Lengths:
    """Lengths of texts in words, split at spaces."""

    least: int
    median: float
    most_of_95: int  # 95 % of the texts are at most this long
    most: int

    def line(self) -> str:
        return (
            f"{self.least:,} to {self.most:,} words, half have at most {self.median:,.0f}, "
            f"95 % at most {self.most_of_95:,}"
        )


@dataclass(frozen=True)
class Facts:
    """Statistics of one part of the data."""

    examples: int
    lengths: dict[str, Lengths]  # by the side of a record; none for numbers
    labels: dict[str, int]  # the most frequent first

    def lines(self) -> list[str]:
        labels = [f"{label} {n:,}" for label, n in self.labels.items()]
        more = [f"and {len(labels) - 20:,} more"] if len(labels) > 20 else []
        lines = [f"{side}: {lengths.line()}" for side, lengths in self.lengths.items()]
        return lines + ([f"labels: {', '.join(labels[:20] + more)}"] if labels else [])


def facts_of(records: Sequence[Record]) -> Facts:
    """Count examples and labels, and measure lengths."""
    counts = Counter(label for record in records for label in record.labels)
    sides = zip(*([len(text.split()) for text in r.texts] for r in records), strict=True)
    names = records[0].sides
    lengths = {name: _lengths(sorted(side)) for name, side in zip(names, sides, strict=True)}
    return Facts(len(records), lengths, dict(counts.most_common()))


def _lengths(ordered: list[int]) -> Lengths:
    at_95 = ordered[min(int(0.95 * len(ordered)), len(ordered) - 1)]
    return Lengths(ordered[0], statistics.median(ordered), at_95, ordered[-1])


def unseen_words(train: Sequence[Record], held_out: Sequence[Record], part: str) -> Finding:
    """Check how many words of the held-out data are not in the training data."""
    known = [set[str]() for _ in train[0].sides]
    for record in train:
        for side, text in enumerate(record.texts):
            known[side].update(text.split())
    words, unseen = 0, Counter[str]()
    for record in held_out:
        for side, text in enumerate(record.texts):
            text_words = text.split()
            words += len(text_words)
            unseen.update(word for word in text_words if word not in known[side])
    fraction = unseen.total() / max(words, 1)
    message = f"{fraction:.1%} of the {words:,} words of {part} do not occur in train"
    if unseen:
        message += f"; most often {', '.join(f'{w!r} {n:,}' for w, n in unseen.most_common(5))}"
    if fraction > MANY_UNSEEN:
        message += "; is it the same kind of text? Use a subword tokenizer.kind (bpe, unigram)"
    return Finding(f"words of {part}", fraction <= MANY_UNSEEN, message)


FEW = 100  # minimum examples; with fewer, the score is too uncertain
DEVIATIONS = 1.96  # of a normal distribution, for 95 %


def few_examples_warning(task: Task[Any, Any], valid: Sequence[Any], data: DataConfig) -> str:
    """A warning if there are few validation examples, else an empty string. Running text is scored
    by token, so it has enough."""
    count = task.count_examples(valid)
    if task.traits.running_text or count >= FEW:
        return ""
    more = "--valid FILE" if data.toyland is None else f"--toyland {20 * FEW}"
    words = f"! only {count} validation example{'s'[: count - 1]}: the score is unreliable"
    if task.metric == "accuracy":
        lowest = lowest_of_all_right(count)
        words += f" ({count} of {count} correct: 95 % interval of accuracy {lowest:.2f} to 1)"
    return f"{words}; add more with {more}"


def lowest_of_all_right(count: int) -> float:
    """The lower end of Wilson's 95 % interval if all examples are correct."""
    return count / (count + DEVIATIONS**2)
