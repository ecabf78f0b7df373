"""A picture on the page of the lab, large or small, and its numbers as a table."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from translucid.see.pictures import Bars, Grid, Heat, Lines, Picture
from translucid.see.render.drawing import SIZE, Drawing, TextMark, svg
from translucid.see.render.frame import escape, table
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.results import Kept

FONT_SIZE = 1.3  # rem, at most: the size of a picture's text


def picture_of(made: Experiment, kept: Kept) -> Picture | None:
    """None where the experiment has changed since it ran, and cannot draw what it measured then."""
    try:
        return made.draw(kept.data)
    except Exception:
        if not kept.stale(made):
            raise  # a mistake in the experiment
        return None


def thumbnail(picture: Picture) -> str:
    """Its lines and bars alone, small, beside a sentence that says what is seen: words of this
    size could not be read."""
    drawing = picture.drawing()
    shapes = Drawing(drawing.title, drawing.width, drawing.height)
    shapes.add(*(mark for mark in drawing.marks if not isinstance(mark, TextMark)))
    return svg(shapes, themed=True)


def figure(picture: Picture) -> str:
    """As a part of the page: large enough for the last row of the room, but no larger than the
    claim above them."""
    return picture.figure(f"max-width: {round(picture.drawing().width * FONT_SIZE / SIZE, 1)}rem")


def numbers(picture: Picture) -> str:
    """The same numbers to read, in as many tables as there are."""
    parts = []
    for title, header, rows in _tables(picture):
        parts.append(f"<p>{escape(title)}</p>" if title else "")
        parts.append(_table(header, [[str(row[0]), *map(number, row[1:])] for row in rows]))
    return "".join(parts)


def as_csv(picture: Picture) -> str:
    """The same numbers for a spreadsheet, every digit of them; several tables one below the other,
    each with its title."""
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
    """0.0123, −4.5, 1.2e-05: three digits that count."""
    if not np.isfinite(value):
        return "–"
    return f"{float(value):.3g}".replace("-", "\N{MINUS SIGN}")
