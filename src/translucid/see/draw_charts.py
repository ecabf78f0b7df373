"""Lines over tokens, steps or layers, and bars."""

import math
import re
from collections.abc import Sequence
from itertools import cycle, groupby

import numpy as np

from translucid.see.draw_sheet import AXIS, EDGE, TURNED, WIDEST, finish, readable, sheet, widest
from translucid.see.picture_data import Axis, Bars, Lines, Numbers
from translucid.see.render.drawing import SIZE, Box, Drawing, Line, Text, text_width
from translucid.see.render.palette import LINES

HIGH = 240.0  # of the field in which lines are drawn
MARGIN = 14.0  # between the field's sides and the first and last number
FEW = 24  # labels that all find room
DASHES = ((), (7.0, 4.0), (8.0, 3.0, 2.0, 3.0), (2.0, 3.0))
DOTS = 64  # points of a line that are marked
BAR = 26.0  # height of a bar with the room around it
BAR_LENGTH = 300.0  # of a bar


def draw_lines(picture: Lines) -> Drawing:
    low, high, ticks = _scale(picture)
    shown = [_tick(tick) for tick in ticks]
    left = widest(shown) + 8
    every, flat = _every(picture.x.labels, _width(picture.x) - left)
    labels = readable(picture.x.labels)[::every]
    if not flat:  # turned labels end at their places, and begin to the left of them
        own = 26.0 * every  # at least, from one to the next
        begins = [TURNED * text_width(label) - own * at for at, label in enumerate(labels)]
        left = max(left, max(begins) - MARGIN + 6)
    drawing, y = sheet(picture.title, _width(picture.x))
    y = _legend(drawing, picture, y)
    y = drawing.paragraph(EDGE, y, picture.y, drawing.width - 2 * EDGE, SIZE, "ink3") + 6
    field = _Field(drawing, EDGE + left, y, low, high, len(picture.x.labels), picture.logarithmic)
    for tick, label in zip(ticks, shown, strict=True):
        at = field.y(tick)
        drawing.add(Line(((field.left, at), (field.right, at))),
                    Text(field.left - 6, at + 0.35 * SIZE, label, anchor="end"))  # fmt: skip
    styles = cycle((f"series{n}", d) for d in DASHES for n in range(len(LINES["light"])))
    for values, (colour, dashes) in zip(picture.series.values(), styles, strict=False):
        field.draw(values, colour, dashes)
    y += HIGH + 8
    for place, label in enumerate(labels):
        at = field.x(place * every)
        if flat:
            drawing.add(Text(at, y + SIZE, label, anchor="middle"))
        else:
            drawing.add(Text(at + 4, y + 8, label, anchor="end", turn=45))
    y += SIZE + 4 if flat else TURNED * widest(labels) + SIZE
    if picture.x.name:
        middle = (field.left + field.right) / 2
        drawing.add(Text(middle, y + SIZE, picture.x.name, colour="ink3", anchor="middle"))
        y += AXIS
    return finish(drawing, y, picture.note)


class _Field:
    """Where numbers are on the sheet."""

    def __init__(
        self, drawing: Drawing, left: float, top: float, low: float, high: float, count: int,
        logarithmic: bool,
    ) -> None:  # fmt: skip
        self.drawing, self.left, self.top = drawing, left, top
        self.right = drawing.width - EDGE
        self.low, self.high, self.count, self.logarithmic = low, high, count, logarithmic

    def x(self, place: int) -> float:
        room = self.right - self.left - 2 * MARGIN
        at = place / (self.count - 1) if self.count > 1 else 0.5
        return self.left + MARGIN + at * room

    def y(self, value: float) -> float:
        value = math.log10(value) if self.logarithmic else value
        return self.top + HIGH * (1 - (value - self.low) / (self.high - self.low))

    def draw(self, values: Numbers, colour: str, dashes: tuple[float, ...]) -> None:
        """Broken where there is no number."""
        there = np.isfinite(values) & ((values > 0) if self.logarithmic else True)
        for known, group in groupby(range(len(values)), lambda place: bool(there[place])):
            if known:
                points = [(self.x(place), self.y(float(values[place]))) for place in group]
                self.drawing.add(Line(points, colour, 2.0, dashes))
                if len(values) <= DOTS:
                    boxes = (Box(x - 2.5, y - 2.5, 5, 5, fill=colour) for x, y in points)
                    self.drawing.add(*boxes)


def _legend(drawing: Drawing, picture: Lines, y: float) -> float:
    """The names of several lines, in rows above them."""
    if len(picture.series) < 2:
        return y
    x, y = EDGE, y + 1.3 * SIZE
    styles = cycle((f"series{n}", d) for d in DASHES for n in range(len(LINES["light"])))
    for name, (colour, dashes) in zip(picture.series, styles, strict=False):
        wide = 26 + text_width(name) + 16
        if x > EDGE and x + wide > drawing.width - EDGE:
            x, y = EDGE, y + 1.5 * SIZE
        drawing.add(Line(((x, y - 4), (x + 20, y - 4)), colour, 2.0, dashes),
                    Text(x + 26, y, name))  # fmt: skip
        x += wide
    return y + 4


def _scale(picture: Lines) -> tuple[float, float, list[float]]:
    """The ends of the axis, and what is written beside it; of a logarithmic axis the ends are
    exponents."""
    values = np.concatenate([np.ravel(line) for line in picture.series.values()])
    values = values[np.isfinite(values) & ((values > 0) if picture.logarithmic else True)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if picture.logarithmic:
        low, high = (math.log10(end) if values.size else end for end in (low, high))
        middle, room = (low + high) / 2, max(high - low, 0.5) * 1.1
        low, high = middle - room / 2, middle + room / 2
        decades = [10.0**n for n in range(math.ceil(low), math.floor(high) + 1)]
        every = -(-len(decades) // 7)
        if len(decades) > 1:
            return low, high, decades[::every]
        near = [m * 10.0**n for n in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
        return low, high, [tick for tick in near if low <= math.log10(tick) <= high]
    if high == low:
        high, low = high + (abs(high) or 1) * 0.1, low - (abs(low) or 1) * 0.1
    margin = 0.05 * (high - low)
    low, high = low - margin, high + margin
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 2.5, 5, 10) if (high - low) / (m * step) <= 6)
    first, last = math.ceil(low / step), math.floor(high / step)
    return low, high, [round(n * step, 12) for n in range(first, last + 1)]


def _tick(value: float) -> str:
    return f"{value:.6g}".replace("-", "\N{MINUS SIGN}")


def _width(x: Axis) -> float:
    """Every token has its place; many numbers stand closer together."""
    most = WIDEST if _numeric(x.labels) else 1728.0
    return max(480.0, min(144.0 + 29 * len(x.labels), most)) - 2 * EDGE


def _every(labels: Sequence[str], room: float) -> tuple[int, bool]:
    """Which labels are written, and whether they lie flat: of a row of numbers as many as fit, of
    words all, unless there are very many."""
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


def draw_bars(bars: Bars) -> Drawing:
    labels, left = readable(bars.labels), 0.0
    left = widest(labels) + 8
    shown = [f"{value:.3g}".replace("-", "\N{MINUS SIGN}") for value in bars.values]
    finite = [float(value) for value in bars.values if np.isfinite(value)]
    low, high = min(0.0, *finite, 0.0), max(0.0, *finite, 0.0)
    scale = BAR_LENGTH / ((high - low) or 1.0)
    room = widest(shown) + 8
    before = room if low < 0 else 0.0
    drawing, y = sheet(bars.title, left + before + BAR_LENGTH + room)
    zero = EDGE + left + before - low * scale
    top = y
    for place, (label, value) in enumerate(zip(labels, bars.values, strict=True)):
        long = float(value) * scale if np.isfinite(value) else 0.0
        middle = y + BAR / 2 + 0.35 * SIZE
        drawing.add(
            Text(EDGE + left - 8, middle, label, anchor="end"),
            Box(min(zero, zero + long), y + 3, abs(long), BAR - 6, fill=_colour(bars, place)),
            Text(zero + long + (4 if long >= 0 else -4), middle, shown[place],
                 anchor="start" if long >= 0 else "end"),
        )  # fmt: skip
        y += BAR
    drawing.add(Line(((zero, top), (zero, y)), "ink3"))
    y = drawing.paragraph(EDGE + left, y + 4, bars.x, BAR_LENGTH + room, SIZE, "ink3")
    return finish(drawing, y, bars.note)


def _colour(bars: Bars, place: int) -> str:
    """Signs have their colours; where all are positive, a marked one stands out."""
    if (bars.values < 0).any():
        return "neg" if bars.values[place] < 0 else "pos"
    return "mark" if place in bars.marked else "accent"
