"""What users bring, one record at a time; `line` is where it stands in its file, from 1 on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text: a line, a paragraph or a whole file."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and its class."""

    text: str
    label: str
    line: int


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence and one tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """One point for regression."""

    inputs: tuple[float, ...]
    targets: tuple[float, ...]
    line: int
