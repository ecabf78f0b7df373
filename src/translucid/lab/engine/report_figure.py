"""A picture on the page of the lab, and its numbers as a table."""

from collections.abc import Iterator

import numpy as np

from translucid.render.drawing import SIZE
from translucid.render.frame import escape, table
from translucid.see.draw import draw
from translucid.see.pictures import Bars, Grid, Heat, Lines, Picture

FONT_SIZE = 1.3  # rem, at most: the size of a picture's text


def figure(picture: Picture) -> str:
    """As a part of the page: large enough for the last row of the room, but no larger than the
    claim above them."""
    return picture.figure(f"max-width: {round(draw(picture).width * FONT_SIZE / SIZE, 1)}rem")


def numbers(picture: Picture) -> str:
    """The same numbers to read, in as many tables as there are."""
    return "".join(_tables(picture))


def _tables(picture: Picture) -> Iterator[str]:
    match picture:
        case Lines():
            header = [picture.x.name, *picture.series]
            rows = [
                [label, *(number(values[place]) for values in picture.series.values())]
                for place, label in enumerate(picture.x.labels)
            ]
            yield _table(header, rows)
        case Bars():
            bars = zip(picture.labels, picture.values, strict=True)
            yield _table(["", picture.x], [[label, number(value)] for label, value in bars])
        case Heat():
            rows = [
                [label, *map(number, line)]
                for label, line in zip(picture.rows.labels, picture.values, strict=True)
            ]
            yield _table([f"{picture.rows.name} \\ {picture.columns.name}",
                          *picture.columns.labels], rows)  # fmt: skip
        case Grid():
            for heat in picture.heats:
                yield f"<p>{escape(heat.title)}</p>"
                yield from _tables(heat)


def _table(header: list[str], rows: list[list[str]]) -> str:
    cells = [[escape(cell) for cell in row] for row in rows]
    return table([escape(cell) for cell in header], cells, numbers=range(1, len(header)))


def number(value: float) -> str:
    """0.0123, −4.5, 1.2e-05: three digits that count."""
    if not np.isfinite(value):
        return "–"
    return f"{float(value):.3g}".replace("-", "\N{MINUS SIGN}")
