"""The content of a worked solution: the given values, the steps, and notes.

Formulas are LaTeX. Titles, notes and table cells are plain text with LaTeX in `$...$`.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

from torch import Tensor

from translucid.worked.plain import Program

_NUMBER = r"-?(?:\d+(?:\{,\}\d{3})*(?:\.\d+)?|\.\d+)(?: ?\{?\\cdot\}? ?10\^\{-?\d+\})?|-?\\infty"
_BLANK = r"\square"
_DOLLAR = "\ue010"  # a literal dollar sign: in texts, $ begins and ends a formula

Value: TypeAlias = "float | int | bool | str | list[Value] | dict[str, Value] | None"


@dataclass(frozen=True)
class SolutionTable:
    """A table: a header and rows of cells."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def blank(self, known: Collection[str]) -> "SolutionTable":
        """The table with empty boxes, except in the first column where its text is `known`."""
        rows = tuple(
            (row[0] if row[0] in known else f"${_BLANK}$", *(f"${_BLANK}$" for _ in row[1:]))
            for row in self.rows
        )
        return SolutionTable(self.header, rows)


@dataclass(frozen=True, kw_only=True)
class Given:
    """One given value of the exercise, such as X = ..."""

    name: str
    symbol: str
    text: str = ""  # LaTeX
    value: Value = None
    table: SolutionTable | None = None  # shown instead of a formula; `symbol` is then its heading


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the solution: the formula, the formula with numbers, the result."""

    title: str
    section: str = ""  # printed as a heading when it changes
    name: str = ""  # name of the trace point or quantity
    symbol: str = ""
    formula: str = ""
    numbers: str = ""
    result: str = ""
    value: Value = None  # the result in full precision
    table: SolutionTable | None = None
    note: str = ""

    def sides(self) -> list[str]:
        """The right-hand sides of the equation, in order and without repetitions."""
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
    next: str = ""  # a complete command to try next
    more: str = ""  # options to add to the user's command
    example: bool = False  # whether built-in numbers are used, because none were given
    asked: bool = False  # whether other options were given
    program: Program | None = field(default=None, compare=False)  # the exercise in plain numpy

    @property
    def opening(self) -> str:
        """A sentence saying that the numbers are built in, if they are."""
        if not self.example:
            return ""
        if self.asked:
            return "All other numbers are a built-in example."
        return "No numbers were given, so here is a built-in example."

    def blank(self) -> Self:
        """The same exercise as a worksheet: formulas, and an empty box for every result. Tables
        keep the first column of the first table of their section, which is not a result."""
        known: dict[str, list[str]] = {}
        steps: list[Step] = []
        for step in self.steps:
            table = step.table
            if table is not None:
                first = known.setdefault(step.section, [row[0] for row in table.rows])
                table = table.blank(first)
            result = re.sub(_NUMBER, lambda _: _BLANK, step.result)
            steps.append(replace(step, numbers="", result=result, value=None, table=table, note=""))
        return replace(self, steps=tuple(steps), notes=(), closing="")

    def numbered(self) -> Iterator[tuple[int, str, Step]]:
        """The steps, numbered from 1, each with its section heading if it begins a section."""
        section = ""
        for number, step in enumerate(self.steps, 1):
            yield number, "" if step.section == section else step.section, step
            section = step.section


def first_and_last(rows: Sequence[tuple[str, ...]], most: int) -> tuple[tuple[str, ...], ...]:
    """Shorten a table of more than `most` rows to its first rows and its last."""
    if len(rows) <= most:
        return tuple(rows)
    return (*rows[: most - 1], tuple("…" for _ in rows[0]), rows[-1])


def literal(text: str) -> str:
    """Mark the dollar signs of a user's text as literal, not as formula delimiters."""
    return text.replace("$", _DOLLAR)


def dollars(text: str, written: str) -> str:
    """Replace the dollar signs marked by `literal` with a document format's notation."""
    return text.replace(_DOLLAR, written)


def plain(value: Tensor) -> Value:
    """Convert a tensor to nested lists for JSON; minus infinity becomes the text "-inf"."""
    return _finite(value.tolist())


def _finite(value: Value) -> Value:
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
