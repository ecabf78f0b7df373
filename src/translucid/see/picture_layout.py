"""Layout of pictures: sheets with a title and a note, tables of coloured cells, charts.

These functions compute pixel positions of labels and colours; `pictures` decides what to show.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, groupby

import numpy as np
from numpy.typing import NDArray

from translucid.see.render.drawing import SIZE, Box, Cells, Drawing, Line, TextMark, text_width
from translucid.see.render.palette import LINES, STEPS, on

EDGE = 8.0  # margin around a drawing
TITLE = 14.5  # font size of a title
AXIS = 18.0  # space for the name of an axis
WIDEST = 883.0  # at this width, text of SIZE is still readable on a projector
TURNED = 0.71  # horizontal and vertical extent of a label at 45 degrees
TINY = 13.0  # cell size in a table with more than SMALL rows or columns
SMALL = 40
EVERY = 8  # with many numbers along a side, label every 8th
LEGEND = 12.0  # width of the bar of a colour scale
HEIGHT = 240.0  # height of a line chart's plot area
MARGIN = 14.0  # between the sides of the plot area and the first and last value
FEW = 24  # this many labels always fit
DASHES = ((), (7.0, 4.0), (8.0, 3.0, 2.0, 3.0), (2.0, 3.0))
DOTS = 64  # lines with up to this many points get a dot at each point


@dataclass(frozen=True)
class Axis:
    """The name and the labels along one side of a picture."""

    name: str
    labels: tuple[str, ...]


# ---- sheets ----


def sheet(title: str, width: float) -> tuple[Drawing, float]:
    """Create a sheet with a title; return it with the y coordinate below the title. A long title
    widens the sheet up to WIDEST, then wraps."""
    width = max(width, min(text_width(title, TITLE), WIDEST - 2 * EDGE)) + 2 * EDGE
    drawing = Drawing(title, width)
    below = drawing.paragraph(EDGE, EDGE / 2, title, width - 2 * EDGE, TITLE)
    return drawing, below + EDGE / 2


def finish(drawing: Drawing, y: float, note: str) -> Drawing:
    """Add the note below everything else, and set the height."""
    width = drawing.width - 2 * EDGE
    drawing.height = drawing.paragraph(EDGE, y, note, width, SIZE, "ink3") + EDGE
    return drawing


def readable(labels: Sequence[str]) -> list[str]:
    """Put single punctuation marks, which are easily overlooked, in quotation marks."""
    return [f"‘{label}’" if len(label) == 1 and not label.isalnum() else label for label in labels]


def widest(labels: Sequence[str], size: float = SIZE) -> float:
    return max((text_width(label, size) for label in labels), default=0.0)


def signed(text: str) -> str:
    """Replace the hyphen of a negative number with a minus sign."""
    return text.replace("-", "\N{MINUS SIGN}")


# ---- tables ----


@dataclass(frozen=True)
class TableLayout:
    """The layout of a table: cell size, and space for labels."""

    colours: Sequence[Sequence[str]]  # names of the palette, (rows, columns)
    texts: Sequence[Sequence[str]]  # text of each cell; may be empty
    frames: Sequence[tuple[int, int]]
    rows: Axis | None  # None: without labels
    columns: Axis | None
    cell: float

    @cached_property
    def size(self) -> tuple[float, float]:
        """The width and height of a cell, with space for its text."""
        high, wide = (self.cell if n <= SMALL else min(TINY, self.cell) for n in self._shape)
        written = widest([text for line in self.texts for text in line])
        return max(wide, written + 10.0 * bool(written)), high

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.colours), max(map(len, self.colours), default=0)

    @property
    def across(self) -> float:
        return self.size[0] * self._shape[1]

    @property
    def down(self) -> float:
        return self.size[1] * self._shape[0]

    @cached_property
    def left(self) -> float:
        """The space for the row labels."""
        if self.rows is None:
            return 0.0
        labels = readable(self.rows.labels)
        return widest(labels, self._font_size(0)) + 8 + AXIS * bool(self.rows.name)

    @cached_property
    def top(self) -> float:
        """The space for the column labels."""
        if self.columns is None:
            return 0.0
        labels = self._column_labels
        high = SIZE + 6 if self._flat else TURNED * widest(labels, self._font_size(1)) + SIZE
        return high * any(labels) + AXIS * bool(self.columns.name)

    @cached_property
    def over(self) -> float:
        """How far a slanted label extends beyond the last column."""
        if self.columns is None or self._flat:
            return 0.0
        wide = [TURNED * text_width(label, self._font_size(1)) for label in self._column_labels]
        ends = [(n + 0.5) * self.size[0] + w for n, w in enumerate(wide)]
        return max(0.0, *(end - self.across for end in ends))

    def _font_size(self, side: int) -> float:
        """The font size along a side: smaller for many labels, unless most are omitted."""
        many = self._shape[side] > SMALL and not (side == 1 and self._every > 1)
        return 8.0 if many else SIZE

    @property
    def _every(self) -> int:
        labels = self.columns.labels if self.columns is not None else ()
        return EVERY if len(labels) > SMALL and labels[-1].isdigit() else 1

    @cached_property
    def _column_labels(self) -> list[str]:
        labels = readable(self.columns.labels) if self.columns is not None else []
        return [label if place % self._every == 0 else "" for place, label in enumerate(labels)]

    @cached_property
    def _flat(self) -> bool:
        room = self.size[0] * self._every - 4
        return widest(self._column_labels, self._font_size(1)) <= room

    def draw(self, drawing: Drawing, x: float, y: float) -> None:
        """Draw the table. x, y: the upper left corner of its cells."""
        wide, high = self.size
        drawing.add(Cells(x, y, wide, high, self.colours))
        for row, line in enumerate(self.texts):
            for column, text in enumerate(line):
                colour = self.colours[row][column]
                at = (x + (column + 0.5) * wide, y + (row + 0.5) * high + 0.35 * SIZE)
                drawing.add(TextMark(*at, text, SIZE, on(colour) if colour else "ink", "middle"))
        for row, column in self.frames:
            corner = (x + column * wide + 1, y + row * high + 1)
            drawing.add(Box(*corner, wide - 2, high - 2, stroke="mark"))
        if self.rows is not None:
            self._label_rows(drawing, self.rows, x, y)
        if self.columns is not None:
            self._label_columns(drawing, self.columns, x, y)

    def _label_rows(self, drawing: Drawing, rows: Axis, x: float, y: float) -> None:
        font_size, high = self._font_size(0), self.size[1]
        for place, label in enumerate(readable(rows.labels)):
            middle = y + (place + 0.5) * high + 0.35 * font_size
            drawing.add(TextMark(x - 6, middle, label, font_size, anchor="end"))
        middle = y + self.down / 2
        drawing.add(TextMark(x - self.left + SIZE, middle, rows.name, SIZE, "ink3", "middle", 90))

    def _label_columns(self, drawing: Drawing, columns: Axis, x: float, y: float) -> None:
        font_size, wide = self._font_size(1), self.size[0]
        for place, label in enumerate(self._column_labels):
            middle = x + (place + 0.5) * wide
            if self._flat:
                drawing.add(TextMark(middle, y - 6, label, font_size, anchor="middle"))
            elif label:
                drawing.add(TextMark(middle + 0.25 * font_size, y - 5, label, font_size, turn=45))
        above = y - self.top + SIZE
        drawing.add(TextMark(x + self.across / 2, above, columns.name, SIZE, "ink3", "middle"))


def legend_width(labels: Sequence[str]) -> float:
    """The width of a colour scale with its numbers."""
    return 16 + LEGEND + 6 + widest(labels)


def draw_legend(
    drawing: Drawing, kind: str, labels: Sequence[str], x: float, y: float, height: float
) -> None:
    """Draw a colour scale with its numbers from top to bottom. kind: s (signed) or u (unsigned)."""
    colours = [[f"{kind}{STEPS - step}"] for step in range(STEPS + 1)]
    drawing.add(Cells(x + 16, y, LEGEND, height / len(colours), colours))
    for place, label in enumerate(labels):
        at = y + height * place / (len(labels) - 1)
        drawing.add(TextMark(x + 16 + LEGEND + 6, at + 0.35 * SIZE, label, SIZE, "ink3"))


# ---- charts ----


@dataclass(frozen=True)
class Field:
    """The plot area of a chart."""

    drawing: Drawing
    left: float
    top: float
    ends: tuple[float, float]  # limits of the vertical axis; exponents if it is logarithmic
    count: int  # number of values from left to right
    logarithmic: bool

    @property
    def right(self) -> float:
        return self.drawing.width - EDGE

    def x(self, place: int) -> float:
        room = self.right - self.left - 2 * MARGIN
        at = place / (self.count - 1) if self.count > 1 else 0.5
        return self.left + MARGIN + at * room

    def y(self, value: float) -> float:
        low, high = self.ends
        value = math.log10(value) if self.logarithmic else value
        return self.top + HEIGHT * (1 - (value - low) / (high - low))

    def draw(self, values: NDArray[np.float64], colour: str, dashes: tuple[float, ...]) -> None:
        """Draw a line, with gaps where values are missing."""
        shown = drawable(values, self.logarithmic)
        for known, group in groupby(range(len(values)), lambda place: bool(shown[place])):
            if known:
                points = [(self.x(place), self.y(float(values[place]))) for place in group]
                self.drawing.add(Line(points, colour, 2.0, dashes))
                if len(values) <= DOTS:
                    boxes = (Box(x - 2.5, y - 2.5, 5, 5, fill=colour) for x, y in points)
                    self.drawing.add(*boxes)


def drawable(values: NDArray[np.float64], logarithmic: bool) -> NDArray[np.bool_]:
    return np.isfinite(values) & ((values > 0) if logarithmic else True)


def line_styles() -> Iterable[tuple[str, tuple[float, ...]]]:
    """Colour and dash pattern for each line; dashes vary once the colours are used up."""
    return cycle((f"series{n}", d) for d in DASHES for n in range(len(LINES["light"])))


def line_names(drawing: Drawing, names: Sequence[str], y: float) -> float:
    """Write the names of the lines in rows above the chart; return the y below them."""
    if len(names) < 2:
        return y
    x, y = EDGE, y + 1.3 * SIZE
    for name, (colour, dashes) in zip(names, line_styles(), strict=False):
        wide = 26 + text_width(name) + 16
        if x > EDGE and x + wide > drawing.width - EDGE:
            x, y = EDGE, y + 1.5 * SIZE
        drawing.add(Line(((x, y - 4), (x + 20, y - 4)), colour, 2.0, dashes),
                    TextMark(x + 26, y, name))  # fmt: skip
        x += wide
    return y + 4


def vertical_axis(
    values: NDArray[np.float64], logarithmic: bool
) -> tuple[tuple[float, float], list[float]]:
    """The limits of the axis (exponents if it is logarithmic), and its tick values."""
    values = values[drawable(values, logarithmic)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if logarithmic:
        low, high = (math.log10(end) if values.size else end for end in (low, high))
        middle, room = (low + high) / 2, max(high - low, 0.5) * 1.1
        low, high = middle - room / 2, middle + room / 2
        decades = [10.0**n for n in range(math.ceil(low), math.floor(high) + 1)]
        every = -(-len(decades) // 7)
        if len(decades) > 1:
            return (low, high), decades[::every]
        digits = (1, 2, 3, 5, 7)  # so close together that the axis always has two ticks
        near = [m * 10.0**n for n in range(math.floor(low), math.ceil(high) + 1) for m in digits]
        return (low, high), [tick for tick in near if low <= math.log10(tick) <= high]
    if high == low:
        high, low = high + (abs(high) or 1) * 0.1, low - (abs(low) or 1) * 0.1
    margin = 0.05 * (high - low)
    low, high = low - margin, high + margin
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 2.5, 5, 10) if (high - low) / (m * step) <= 6)
    first, last = math.ceil(low / step), math.floor(high / step)
    return (low, high), [round(n * step, 12) for n in range(first, last + 1)]


def chart_width(labels: Sequence[str]) -> float:
    """The width of a chart in pixels. It grows with the number of labels up to a maximum, which is
    smaller for numbers than for words."""
    most = WIDEST if _numeric(labels) else 1728.0
    return max(480.0, min(144.0 + 29 * len(labels), most)) - 2 * EDGE


def label_step(labels: Sequence[str], room: float) -> tuple[int, bool]:
    """The step n such that every n-th label is written, and whether the labels are horizontal. As
    many numbers are written as fit. All words are written unless there are very many."""
    if not _numeric(labels):
        return -(-len(labels) // 64), all(len(label) <= 3 for label in labels)
    own = room / len(labels)
    gap = min(np.diff(np.flatnonzero(labels)), default=1) if "" in labels else 1
    for every in (1, 2, 4, 5, 8, 10) if len(labels) > FEW and "" not in labels else (1,):
        if widest(labels[::every]) + 0.6 * SIZE <= own * every * gap:
            return every, True
    return every, False


def _numeric(labels: Sequence[str]) -> bool:
    return all(re.fullmatch(r"|[-\N{MINUS SIGN}]?[\d.]+%?", label) for label in labels)
