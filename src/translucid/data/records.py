"""What users bring, one record at a time; `line` is where it stands in its file, from 1 on.

A record says what of it is text, what is a label and what makes it the same example as another.
Whoever counts, compares or tokenizes records asks for that and needs no list of their kinds, so
that a record of a task of one's own works as these do: derive it from `Record`.
"""

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import ClassVar


class Record:
    """One example as it stands in a file. A class of one's own is a frozen dataclass."""

    __slots__ = ()
    sides: ClassVar[tuple[str, ...]] = ("text",)  # what its texts are called
    # Running text: short lines repeat by nature, and empty ones are kept on purpose.
    running: ClassVar[bool] = False

    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        """All that a tokenizer reads of it, one for each side."""
        return ()

    def texts_of(self, side: str) -> tuple[str, ...]:
        """The text of one side; all of them if no side is called so."""
        if side not in self.sides:
            return self.texts
        return (self.texts[self.sides.index(side)],)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes or tags that stand in it."""
        return ()

    @property
    def values(self) -> tuple[float, ...]:
        """The numbers that a model reads of it."""
        return ()

    @property
    def question(self) -> str | None:
        """The part that is asked, where its answer is a text of its own."""
        return None

    @property
    def asked(self) -> str:
        """As people would type it to ask for an answer."""
        return self.texts[0]

    @property
    def answer(self) -> str | None:
        """The right answer, as people would type it; None where there is none."""
        return None

    @property
    def stratum(self) -> Hashable:
        """Of what kind it is, for parts of the data that each have as much of every kind: its
        labels, else the length of its texts; a float is put into quantiles."""
        if self.labels:
            return frozenset(self.labels)
        return sum(map(len, self.texts)).bit_length()

    @property
    def inputs_key(self) -> Hashable:
        """Equal for two records if a model reads the same."""
        return self.values or self.texts

    @property
    def whole_key(self) -> Hashable:
        """Equal for two records if all but their lines is the same."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.name != "line")  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Text(Record):
    """A piece of text: a line, a paragraph or a whole file."""

    running: ClassVar[bool] = True

    text: str
    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)


@dataclass(frozen=True, slots=True)
class Labelled(Record):
    """A text and its class."""

    text: str
    label: str
    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,)

    @property
    def answer(self) -> str | None:
        return self.label


@dataclass(frozen=True, slots=True)
class Tagged(Record):
    """The words of a sentence and one tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        return (" ".join(self.words),)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tags

    @property
    def answer(self) -> str | None:
        return " ".join(self.tags)


@dataclass(frozen=True, slots=True)
class Pair(Record):
    """A sentence and its translation."""

    sides: ClassVar[tuple[str, ...]] = ("source", "target")

    source: str
    target: str
    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.source, self.target)

    @property
    def question(self) -> str | None:
        return self.source

    @property
    def answer(self) -> str | None:
        return self.target


@dataclass(frozen=True, slots=True)
class SimilarPair(Record):
    """Two texts that mean the same, or how much alike they are: 1 the same, 0 nothing."""

    sides: ClassVar[tuple[str, ...]] = ("source", "target")

    source: str
    target: str
    score: float | None
    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.source, self.target)


@dataclass(frozen=True, slots=True)
class Numbers(Record):
    """One point for regression."""

    sides: ClassVar[tuple[str, ...]] = ()

    inputs: tuple[float, ...]
    targets: tuple[float, ...]
    line: int

    @property
    def values(self) -> tuple[float, ...]:
        return self.inputs

    @property
    def stratum(self) -> Hashable:
        return float(self.targets[0]) if self.targets else 0.0

    @property
    def asked(self) -> str:
        return " ".join(f"{value:.6g}" for value in self.inputs)

    @property
    def answer(self) -> str | None:
        return " ".join(f"{value:.6g}" for value in self.targets)
