"""Records: examples that are read from users' files, each with its line number, counted from 1.

Every kind of record defines its texts, its labels, and when two records are equal. So code that
counts, compares or tokenizes records works for all kinds. Records of your own tasks derive from
`Record`.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


class Record:
    """One example from a file. Subclasses must be frozen dataclasses."""

    __slots__ = ()
    sides: ClassVar[tuple[str, ...]] = ("text",)  # names of its texts
    # Whether records are running text, in which short lines repeat and empty lines may be kept.
    running: ClassVar[bool] = False

    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to tokenize, one for each side."""
        return ()

    def texts_of(self, side: str) -> tuple[str, ...]:
        """The text of one side, such as the source, as a tuple. If the record has no such side, the
        tuple contains all of its texts."""
        if side not in self.sides:
            return self.texts
        return (self.texts[self.sides.index(side)],)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels or tags of the record."""
        return ()

    @property
    def values(self) -> tuple[Any, ...]:
        """The cells of the input columns, for rows of a table."""
        return ()

    @property
    def question(self) -> str | None:
        """The input text if the output is another text, as in translation; otherwise None."""
        return None

    @property
    def asked(self) -> str:
        """The input as a person would type it."""
        return self.texts[0]

    @property
    def answer(self) -> str | None:
        """The correct output as a person would type it; None if there is none."""
        return None

    @property
    def stratum(self) -> Hashable:
        """The key by which records are grouped for stratified splits: the labels or, without
        labels, the length of the texts. Floats, such as the targets of regression, are grouped into
        quantiles."""
        if self.labels:
            return frozenset(self.labels)
        return sum(map(len, self.texts)).bit_length()

    @property
    def inputs_key(self) -> Hashable:
        """A key that is equal for two records with the same inputs."""
        return self.values or self.texts

    @property
    def whole_key(self) -> Hashable:
        """A key that is equal for two records that differ only in their line numbers."""
        mine = (f for f in fields(self) if f.compare and f.name != "line")  # type: ignore[arg-type]
        return tuple(getattr(self, f.name) for f in mine)


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
    """The words of a sentence, and one tag for each word."""

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
    """Two texts with the same meaning, or with a similarity score: 1 means the same, 0
    unrelated."""

    sides: ClassVar[tuple[str, ...]] = ("source", "target")

    source: str
    target: str
    score: float | None
    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.source, self.target)


@dataclass(frozen=True)
class Header:
    """The file of a table row, and its input columns: names, or numbers from 1."""

    file: str
    columns: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class TableRow(Record):
    """The input cells of a table row, as they are in the file, and its outputs: its class, or
    numbers."""

    sides: ClassVar[tuple[str, ...]] = ()

    inputs: tuple[Any, ...]
    outputs: tuple[str, ...] | tuple[float, ...]
    line: int
    header: Header | None = field(default=None, compare=False, repr=False)

    @property
    def values(self) -> tuple[Any, ...]:
        return self.inputs

    @property
    def label(self) -> str:
        return str(self.outputs[0])

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(output for output in self.outputs if isinstance(output, str))

    @property
    def stratum(self) -> Hashable:
        return frozenset(self.labels) or float(self.outputs[0])

    @property
    def asked(self) -> str:
        return ",".join("" if value is None else str(value) for value in self.inputs)

    @property
    def answer(self) -> str | None:
        return " ".join(
            output if isinstance(output, str) else f"{output:.6g}" for output in self.outputs
        )
