"""The content of a worked solution: the given values, the steps, and notes.

Formulas are LaTeX. Titles, notes and table cells are plain text with LaTeX in `$...$`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

_DOLLAR = "\ue010"  # a literal dollar sign: in texts, $ begins and ends a formula

Value: TypeAlias = "float | int | bool | str | list[Value] | dict[str, Value] | None"


@dataclass(frozen=True)
class SolutionTable:
    """Rows of cells under a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Given:
    """One given value of the exercise: X = ..."""

    name: str
    symbol: str
    text: str = ""  # LaTeX
    value: Value = None
    table: SolutionTable | None = None  # instead of a formula; then the symbol is its heading


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the solution: the formula, the formula with numbers, the result."""

    title: str
    section: str = ""  # a heading is printed where it changes
    name: str = ""  # of the trace point, or of the quantity
    symbol: str = ""
    formula: str = ""
    numbers: str = ""
    result: str = ""
    value: Value = None  # the result in full precision
    table: SolutionTable | None = None
    note: str = ""

    def sides(self) -> list[str]:
        """The right-hand sides in order, without repetition."""
        sides: list[str] = []
        for side in (self.formula, self.numbers, self.result):
            if side and side not in sides:
                sides.append(side)
        return sides


@dataclass(frozen=True, kw_only=True)
class Content:
    """A solution as data."""

    title: str
    given: tuple[Given, ...]
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    closing: str = ""  # the answer in a sentence
    next: str = ""  # a command to try, complete
    more: str = ""  # options to try, added to a command with these numbers
    example: bool = False  # the numbers are built in, because none were given
    asked: bool = False  # options were given nevertheless

    @property
    def opening(self) -> str:
        """A sentence on built-in numbers, if they are used."""
        if not self.example:
            return ""
        if self.asked:
            return "The rest is a built-in example."
        return "No numbers were given, so here is a built-in example."

    def numbered(self) -> Iterator[tuple[int, str, Step]]:
        """The steps, counted from 1, each with its heading where a section begins, else ""."""
        section = ""
        for number, step in enumerate(self.steps, 1):
            yield number, "" if step.section == section else step.section, step
            section = step.section


def first_and_last(rows: Sequence[tuple[str, ...]], most: int) -> tuple[tuple[str, ...], ...]:
    """The rows of a table; of more than `most`, the first ones and the last."""
    if len(rows) <= most:
        return tuple(rows)
    return (*rows[: most - 1], tuple("…" for _ in rows[0]), rows[-1])


def literal(text: str) -> str:
    """The user's own text, in which $ has no meaning."""
    return text.replace("$", _DOLLAR)


def dollars(text: str, written: str) -> str:
    """A finished document with the dollar signs of `literal` replaced by its own notation."""
    return text.replace(_DOLLAR, written)


def plain(value: Tensor) -> Value:
    """A tensor as nested lists that JSON can hold: minus infinity becomes the text "-inf"."""
    return _finite(value.tolist())


def _finite(value: Value) -> Value:
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
