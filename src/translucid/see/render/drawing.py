"""A drawing as marks on a sheet: texts, boxes, lines and coloured cells.

Lengths are pixels, from the upper left corner. Colours are names of the palette. What is drawn is
written by `svg` for pages and files, and by `matplotlib_file` as PNG and PDF.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Literal

SIZE = 12.0  # of letters: 9 points, read from the last row where a drawing fills the page
Anchor = Literal["start", "middle", "end"]
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Text:
    """One line of text."""

    x: float
    y: float  # of the baseline
    text: str
    size: float = SIZE
    colour: str = "ink"
    anchor: Anchor = "start"
    turn: float = 0.0  # degrees, upwards


@dataclass(frozen=True)
class Box:
    """A rectangle, filled or framed."""

    x: float
    y: float
    width: float
    height: float
    fill: str = ""  # nothing: not filled
    stroke: str = ""


@dataclass(frozen=True)
class Line:
    """From point to point."""

    points: Points
    colour: str = "line"
    width: float = 1.0
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Cells:
    """A table of colours; hatched where there is no value, and so no colour."""

    x: float
    y: float
    width: float  # of a cell
    height: float
    colours: Sequence[Sequence[str]]


@dataclass
class Drawing:
    """A sheet and what is on it."""

    title: str
    width: float = 0.0
    height: float = 0.0
    marks: list[Text | Box | Line | Cells] = field(default_factory=list)

    def add(self, *marks: Text | Box | Line | Cells) -> None:
        self.marks += marks

    def paragraph(
        self, x: float, y: float, text: str, width: float, size: float = SIZE, colour: str = "ink"
    ) -> float:
        """A text on as many lines as it takes, from y down; returns where the next thing goes."""
        for line in lines(text, width, size):
            y += 1.3 * size
            self.add(Text(x, y - 0.35 * size, line, size, colour))
        return y


def lines(text: str, width: float, size: float = SIZE) -> list[str]:
    """A text broken between words."""
    columns = max(8, int(width / (0.58 * size)))
    return wrap(printable(text), columns)


def printable(text: str) -> str:
    """What nobody could see, and what a file of XML may not hold, is shown as a sign."""
    return "".join(sign if sign.isprintable() else "␣" for sign in text)


def text_width(text: str, size: float = SIZE) -> float:
    """About how wide a text is, in a wide font, so that it fits in others too."""
    return size * sum(map(_width, text))


def _width(sign: str) -> float:
    if unicodedata.combining(sign):
        return 0.0
    if unicodedata.east_asian_width(sign) in "WF":
        return 1.0
    if sign in "iljItf.,:;'|!()[] ":
        return 0.38
    return 0.9 if sign in "mwMW@%" else 0.7 if sign.isupper() else 0.62
