"""Figures on the page of the lab: pictures with their numbers, and the comparisons of a verdict."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from translucid.see import (
    SIZE,
    Bars,
    Drawing,
    Grid,
    Heat,
    Lines,
    Picture,
    TextMark,
    escape,
    svg,
    table,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.intervals import BarComparison
from translucid_lab.engine.results import Kept

FONT_SIZE = 1.3  # maximum size of a picture's text in rem


def picture_of(made: Experiment, kept: Kept) -> Picture | None:
    """The picture; None if the experiment has changed and cannot draw the stored numbers."""
    try:
        return made.draw(kept.data)
    except Exception:
        if not kept.stale(made):
            raise  # a mistake in the experiment
        return None


def thumbnail(picture: Picture) -> str:
    """A small picture without its text, which would be too small to read."""
    drawing = picture.drawing()
    shapes = Drawing(drawing.title, drawing.width, drawing.height)
    shapes.add(*(mark for mark in drawing.marks if not isinstance(mark, TextMark)))
    return svg(shapes, themed=True)


def figure(picture: Picture) -> str:
    """The picture on the page: large enough to project, but with text no larger than the claim."""
    return picture.figure(f"max-width: {round(picture.drawing().width * FONT_SIZE / SIZE, 1)}rem")


def numbers(picture: Picture) -> str:
    """The numbers of the picture as HTML tables."""
    parts = []
    for title, header, rows in _tables(picture):
        parts.append(f"<p>{escape(title)}</p>" if title else "")
        parts.append(_table(header, [[str(row[0]), *map(number, row[1:])] for row in rows]))
    return "".join(parts)


def as_csv(picture: Picture) -> str:
    """The numbers of the picture as CSV, in full precision. Several tables are written one below
    the other."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    for title, header, rows in _tables(picture):
        if title:
            lines.writerow([title])
        lines.writerow(header)
        lines.writerows(rows)
    return out.getvalue()


Table = tuple[str, list[str], list[list[Any]]]  # title, header, rows of a label and numbers


def _tables(picture: Picture) -> Iterator[Table]:
    match picture:
        case Lines():
            rows = [
                [label, *(float(values[place]) for values in picture.series.values())]
                for place, label in enumerate(picture.x.labels)
            ]
            yield "", [picture.x.name, *picture.series], rows
        case Bars():
            bars = zip(picture.labels, picture.values, strict=True)
            yield "", ["", picture.x], [[label, float(value)] for label, value in bars]
        case Heat():
            rows = [
                [label, *map(float, line)]
                for label, line in zip(picture.rows.labels, picture.values, strict=True)
            ]
            corner = f"{picture.rows.name} \\ {picture.columns.name}"
            yield "", [corner, *picture.columns.labels], rows
        case Grid():
            for heat in picture.heats:
                for _, header, rows in _tables(heat):
                    yield heat.title, header, rows


def _table(header: list[str], rows: list[list[str]]) -> str:
    cells = [[escape(cell) for cell in row] for row in rows]
    return table([escape(cell) for cell in header], cells, numbers=range(1, len(header)))


def number(value: float) -> str:
    """Format a number with three significant digits: 0.0123, −4.5, 1.2e-05."""
    if not np.isfinite(value):
        return "–"
    return f"{float(value):.3g}".replace("-", "\N{MINUS SIGN}")


WIDE, HIGH = 320, 22  # width and height of one comparison, in drawing units
EDGE = 8
LEAST = 1e-12  # smallest p-value that is printed


def dots(comparisons: Sequence[BarComparison]) -> str:
    """One row per comparison, on its own scale: seeds as dots, the interval (thick), the corrected
    interval (thin) and the bar."""
    rows = "".join(_row(made) for made in comparisons)
    return f'<ul class="dots">{rows}</ul>'


def _row(made: BarComparison) -> str:
    text = (
        f"{made.value:.3g} [{made.low:.3g}, {made.high:.3g}], corrected [{made.corrected[0]:.3g}, "
        f"{made.corrected[1]:.3g}], against {made.bar:.3g}: {made.side}, {_p(made.p)}, corrected "
        f"{_p(made.adjusted)} ({made.method})"
    )
    return f"<li>{_drawing(made, text)}<small>{escape(text)}</small></li>"


def _p(value: float) -> str:
    """Format a p-value; values below LEAST are not accurate and are shown as a bound."""
    return f"p {value:.2g}" if value >= LEAST else f"p < {LEAST:.0e}"


def _drawing(made: BarComparison, text: str) -> str:
    shown = (*made.values, made.low, made.high, made.bar, *made.corrected)
    marks = [value for value in shown if np.isfinite(value)]
    low, high = min(marks), max(marks)
    scale = (WIDE - 2 * EDGE) / (high - low) if high > low else 0.0

    def x(value: float) -> float:
        return round(EDGE + (min(max(value, low), high) - low) * scale, 1)

    middle = HIGH / 2
    seeds = "".join(
        f'<circle cx="{x(value)}" cy="{middle}" r="3" fill="currentColor" fill-opacity="0.45"/>'
        for value in made.values
        if np.isfinite(value)
    )
    return (
        f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{escape(text)}">'
        f'<path d="M{x(made.corrected[0])} {middle}H{x(made.corrected[1])}" stroke="currentColor" '
        f'stroke-width="1"/><path d="M{x(made.low)} {middle}H{x(made.high)}" stroke="currentColor" '
        'stroke-width="3"/>'
        f'<path d="M{x(made.bar)} 2V{HIGH - 2}" stroke="currentColor" stroke-width="1.5" '
        f'stroke-dasharray="3 2"/>{seeds}</svg>'
    )
