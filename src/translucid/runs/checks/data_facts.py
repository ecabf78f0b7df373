"""What the data is: how many examples, how long, with which labels."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from translucid.runs.recipe.examples import Record
from translucid.tasks.findings import Finding

MANY_UNSEEN = 0.2  # of the running words: a vocabulary of words would miss too much


@dataclass(frozen=True)
class Lengths:
    """In words, as spaces separate them."""

    least: int
    median: float
    most_of_95: int  # 95 % of the texts are not longer
    most: int

    def line(self) -> str:
        return (
            f"{self.least:,} to {self.most:,} words, half have at most {self.median:,.0f}, "
            f"95 % at most {self.most_of_95:,}"
        )


@dataclass(frozen=True)
class Facts:
    """One part of the data."""

    examples: int
    lengths: dict[str, Lengths]  # by the side of a record; none for numbers
    labels: dict[str, int]  # the most frequent first

    def lines(self) -> list[str]:
        labels = [f"{label} {n:,}" for label, n in self.labels.items()]
        more = [f"and {len(labels) - 20:,} more"] if len(labels) > 20 else []
        lines = [f"{side}: {lengths.line()}" for side, lengths in self.lengths.items()]
        return lines + ([f"labels: {', '.join(labels[:20] + more)}"] if labels else [])


def facts_of(records: Sequence[Record]) -> Facts:
    """Count and measure."""
    counts = Counter[str]()
    for record in records:
        counts.update(record.labels)
    sides = zip(*([len(text.split()) for text in r.texts] for r in records), strict=True)
    names = records[0].sides
    lengths = {name: _lengths(sorted(side)) for name, side in zip(names, sides, strict=True)}
    return Facts(len(records), lengths, dict(counts.most_common()))


def _lengths(ordered: list[int]) -> Lengths:
    at_95 = ordered[min(int(0.95 * len(ordered)), len(ordered) - 1)]
    return Lengths(ordered[0], statistics.median(ordered), at_95, ordered[-1])


def unseen_words(train: Sequence[Record], held_out: Sequence[Record], part: str) -> Finding:
    """Words of the held-out data that training never shows."""
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
        message += "; is it the same kind of text? Take a tokenizer.kind of pieces (bpe, unigram)"
    return Finding(f"words of {part}", fraction <= MANY_UNSEEN, message)
