"""A worked solution: what was given, the steps, what to remember.

Formulas are LaTeX. Titles, notes and table cells are plain text in which `$...$` holds LaTeX.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import TypeAlias

from torch import Tensor

_DOLLAR = "\ue010"  # a dollar sign that is one: in texts, $ begins and ends a formula

Value: TypeAlias = "float | int | bool | str | list[Value] | dict[str, Value] | None"


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header; for what is no formula."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Given:
    """One thing that the exercise states: X = ..."""

    name: str
    symbol: str
    text: str  # LaTeX
    value: Value = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One line of the solution: formula, the formula with the numbers put in, the result."""

    title: str
    section: str = ""  # a heading is printed where it changes
    name: str = ""  # of the trace point, or of the quantity
    symbol: str = ""
    formula: str = ""
    numbers: str = ""
    result: str = ""
    value: Value = None  # the result in full precision
    table: Table | None = None
    note: str = ""

    def sides(self) -> list[str]:
        """The right-hand sides, one after the other, without repetition."""
        sides: list[str] = []
        for side in (self.formula, self.numbers, self.result):
            if side and side not in sides:
                sides.append(side)
        return sides


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A solution as a teacher writes it; print it, or ask for text, Markdown, LaTeX or JSON."""

    title: str
    given: tuple[Given, ...]
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    closing: str = ""  # the answer in a sentence
    next: str = ""  # a command to try
    example: bool = False  # built-in numbers, because none were given

    def text(self, width: int = 80, *, color: bool = False) -> str:
        """For a terminal of this width."""
        from translucid.glass.text import render

        return render(self, width, color)

    def markdown(self) -> str:
        """For notebooks and pages that set $$ formulas $$."""
        from translucid.glass.document import markdown

        return markdown(self)

    def latex(self) -> str:
        """A complete document, ready for pdflatex."""
        from translucid.glass.document import latex

        return latex(self)

    def json(self) -> str:
        """Every step with its formula and its value in full precision."""
        content = asdict(self)
        content["steps"] = [{"number": i, **step} for i, step in enumerate(content["steps"], 1)]
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        return dollars(text, "$")

    def __str__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def _repr_latex_(self) -> str:
        from translucid.glass.document import latex_body

        return latex_body(self)


def literal(text: str) -> str:
    """A reader's own words, in which $ has no meaning."""
    return text.replace("$", _DOLLAR)


def dollars(text: str, written: str) -> str:
    """A finished text, with the dollar signs of `literal` as this kind of document writes them."""
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
