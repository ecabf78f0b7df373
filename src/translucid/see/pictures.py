"""Pictures: heat maps, grids of heat maps, line charts and bar charts.

A picture is data (numbers, labels, a note on what was omitted) that can be drawn as SVG, PNG or
PDF, or as part of an HTML page. Pages with their own drawing code use its JSON.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from translucid.core.errors import InputError, install_command
from translucid.see.picture_layout import (
    AXIS,
    EDGE,
    FEW,
    HEIGHT,
    MARGIN,
    TURNED,
    WIDEST,
    Field,
    TableLayout,
    chart_width,
    draw_legend,
    finish,
    label_step,
    legend_width,
    line_names,
    line_styles,
    readable,
    sheet,
    signed,
    vertical_axis,
    widest,
)
from translucid.see.picture_layout import Axis as Axis
from translucid.see.render.drawing import (
    SIZE,
    Box,
    Drawing,
    Line,
    TextMark,
    lines,
    matplotlib_bytes,
    svg,
    text_width,
)
from translucid.see.render.palette import STEPS

Numbers = NDArray[np.float64]

# Range of values that a colour scale covers: 0 to 1; 0 to largest; -largest to largest.
Scale = Literal["unit", "positive", "signed"]

ENDINGS = (".svg", ".png", ".pdf")
CELL = 33.0  # width and height of a cell in a single table
CELLS_IN_COLUMNS = (
    21.0,
    19.0,
    17.0,
)  # cell sizes for tables side by side; the largest that fits is used
NUMBERS = 12  # tables with up to this many rows and columns show their numbers
THUMB = 134.0  # width and height of a table without labels
HEADING = 13.0  # font size of the headings in a grid
GAP = 14.0  # between tables side by side
BAR = 26.0  # height of a bar including the space around it
BAR_LENGTH = 300.0


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """A picture that can be shown, saved, or read as numbers."""

    title: str

    def drawing(self) -> Drawing:
        """The picture as a `Drawing`, from which every file format is written."""
        raise NotImplementedError

    def svg(self) -> str:
        return self._written("svg").decode("utf-8")

    def png(self, *, dpi: int = 160) -> bytes:
        return self._written("png", dpi)

    def save(self, path: str | Path) -> Path:
        """Write the picture to a .svg, .png or .pdf file."""
        path = picture_file(path)
        path.write_bytes(self._written(path.suffix[1:]))
        return path

    def as_dict(self) -> dict[str, Any]:
        """The data of the picture as a dictionary, with None for numbers that are not finite."""
        return {"kind": type(self).__name__.lower(), **_plain(asdict(self))}

    def json(self) -> str:
        """The data of the picture as JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False)

    def figure(self, style: str = "") -> str:
        """HTML of the picture for one of Translucid's pages, using the page's colours."""
        return f"<figure>{svg(self.drawing(), themed=True, style=style)}</figure>"

    def _written(self, ending: str, dpi: int = 160) -> bytes:
        if ending == "svg":
            return svg(self.drawing()).encode("utf-8")
        _check_matplotlib()
        return matplotlib_bytes(self.drawing(), ending, dpi)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r})"


def picture_file(path: str | Path) -> Path:
    """The path; raises an error if no picture can be written to it."""
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise InputError(f"{path}: the file name must end in {', '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.suffix != ".svg":
        _check_matplotlib()  # before the command computes what it would draw
    return path


def _check_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise InputError(
            "PNG and PDF figures need the package matplotlib; save the figure as .svg, or install "
            f"matplotlib with: {install_command('figures')}"
        )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


@dataclass(frozen=True, eq=False, repr=False)
class Heat(Picture):
    """A heat map: a table of numbers shown as colours."""

    values: Numbers  # (rows, columns); nan for no value
    rows: Axis
    columns: Axis
    scale: Scale = "signed"
    most: float | None = None  # value of the strongest colour; by default the largest magnitude
    frames: tuple[tuple[int, int], ...] = ()  # cells to mark, such as a known alignment
    texts: tuple[tuple[str, ...], ...] = ()  # text of each cell
    note: str = ""  # what was omitted, and how to see it
    address: str = ""  # the name in the trace

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The values of the first and last colours of the scale."""
        if self.scale == "unit":
            return 0.0, 1.0
        finite = np.abs(self.values[np.isfinite(self.values)])
        most = self.most or (float(finite.max()) if finite.size and finite.max() > 0 else 1.0)
        return (0.0, most) if self.scale == "positive" else (-most, most)

    def colour(self, value: float) -> str:
        """The palette name of a value's colour; empty for a missing value."""
        if not np.isfinite(value):
            return ""
        low, high = self.limits
        step = round(min(max((value - low) / (high - low), 0.0), 1.0) * STEPS)
        return f"{self._colours}{step}"

    @property
    def _colours(self) -> str:
        return "s" if self.scale == "signed" else "u"

    def layout(
        self, cell: float, *, numbers: bool = False, rows: bool = True, columns: bool = True
    ) -> TableLayout:
        """The layout of the cells. numbers: write values into the cells of a small table. rows,
        columns: whether to label them."""
        texts: Sequence[Sequence[str]] = self.texts
        if numbers and not texts and max(self.values.shape) <= NUMBERS:
            texts = [[_in_cell(value) for value in line] for line in self.values]
        colours = [[self.colour(value) for value in line] for line in self.values]
        return TableLayout(colours, texts, self.frames, self.rows if rows else None,
                     self.columns if columns else None, cell)  # fmt: skip

    @property
    def legend(self) -> list[str]:
        """The numbers next to the colour scale, from top to bottom."""
        low, high = (signed(f"{value:.3g}") for value in self.limits)
        return [high, "0", low] if self.scale == "signed" else [high, low]

    def draw_legend(self, drawing: Drawing, x: float, y: float, height: float) -> None:
        draw_legend(drawing, self._colours, self.legend, x, y, height)

    def drawing(self) -> Drawing:
        table = self.layout(CELL, numbers=True)
        bar = 0.0 if table.texts else legend_width(self.legend)
        drawing, y = sheet(self.title, table.left + table.across + max(table.over, bar))
        x, y = EDGE + table.left, y + table.top
        table.draw(drawing, x, y)
        if bar:
            self.draw_legend(drawing, x + table.across, y, table.down)
        return finish(drawing, y + table.down + EDGE, self.note)


def _in_cell(value: float) -> str:
    if not np.isfinite(value):
        return ""
    text = f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return "0" if float(text) == 0 else signed(text)


@dataclass(frozen=True, eq=False, repr=False)
class Grid(Picture):
    """Several heat maps, arranged in rows."""

    heats: tuple[Heat, ...]
    columns: int
    note: str = ""

    def drawing(self) -> Drawing:
        """Draw the tables, with one legend if all share a colour scale, and labels only where they
        differ from those of the table to the left or above. Many or large tables are drawn
        small, without labels."""
        heats, columns = self.heats, min(self.columns, len(self.heats))
        small = len(heats) > NUMBERS or (columns > 1 and max(heats[0].values.shape) > FEW)
        tables = self._small() if small else self._fitting(columns)
        font_size = 9.5 if small else HEADING
        left, across = (
            [max(getattr(table, side) for table in tables[at::columns]) for at in range(columns)]
            for side in ("left", "across")
        )
        same = len({heat.limits for heat in heats}) == 1
        bar = legend_width(heats[0].legend) if same else 0.0
        over = max(table.over for table in tables[columns - 1 :: columns] or tables[-1:])
        inside = sum(left) + sum(across) + GAP * (columns - 1)
        drawing, y = sheet(self.title, inside + max(over, bar))
        first = y
        for start in range(0, len(tables), columns):
            row = tables[start : start + columns]
            headings = [
                lines(heat.title, max(wide, 100.0), font_size)
                for heat, wide in zip(heats[start:], across, strict=False)
            ]
            y += 1.3 * font_size * max(map(len, headings)) + 4
            above = y
            y += max(table.top for table in row)
            x = EDGE
            for table, heading, before, wide in zip(row, headings, left, across, strict=False):
                x += before
                for place, line in enumerate(reversed(heading)):
                    at = above - 4 - 1.3 * font_size * place
                    drawing.add(TextMark(x, at, line, font_size, "ink2"))
                table.draw(drawing, x, y)
                x += wide + GAP
            y += max(table.down for table in row) + 10
        if same:
            heats[0].draw_legend(drawing, EDGE + inside, first + 24, min(160.0, y - first - 40))
        alone = "draw a single table to see its tokens" * small
        return finish(drawing, y, "; ".join(filter(None, [self.note, alone])))

    def _small(self) -> list[TableLayout]:
        """Tables without labels, scaled so that the longer side has length THUMB."""
        most = max(max(heat.values.shape) for heat in self.heats)
        return [heat.layout(THUMB / most, rows=False, columns=False) for heat in self.heats]

    def _fitting(self, columns: int) -> list[TableLayout]:
        """Tables with the largest cells that fit, but no smaller than their labels require."""
        tables: list[TableLayout] = []
        for cell in (CELL,) if columns == 1 else CELLS_IN_COLUMNS:
            tables = [
                heat.layout(cell, rows=self._own_rows(place, columns),
                           columns=self._own_columns(place, columns))
                for place, heat in enumerate(self.heats)
            ]  # fmt: skip
            width = sum(
                max(t.left for t in tables[at::columns])
                + max(t.across for t in tables[at::columns])
                for at in range(columns)
            )
            if width + GAP * columns + 80 <= WIDEST:
                break
        return tables

    def _own_rows(self, place: int, columns: int) -> bool:
        """Whether a table's rows differ from those of the table to its left."""
        return place % columns == 0 or self.heats[place].rows != self.heats[place - 1].rows

    def _own_columns(self, place: int, columns: int) -> bool:
        """Whether a table's columns differ from those of the table above it."""
        above = place - columns
        return above < 0 or self.heats[place].columns != self.heats[above].columns


@dataclass(frozen=True, eq=False, repr=False)
class Lines(Picture):
    """A line chart of values over tokens, steps or layers."""

    x: Axis
    y: str
    series: Mapping[str, Numbers]
    logarithmic: bool = False
    note: str = ""

    def drawing(self) -> Drawing:
        values = np.concatenate([np.ravel(line) for line in self.series.values()])
        ends, ticks = vertical_axis(values, self.logarithmic)
        shown = [signed(f"{tick:.6g}") for tick in ticks]
        left, width = widest(shown) + 8, chart_width(self.x.labels)
        every, flat = label_step(self.x.labels, width - left)
        labels = readable(self.x.labels)[::every]
        if not flat:  # slanted labels end at their position and begin to the left of it
            own = 26.0 * every  # minimum distance between labels
            begins = [TURNED * text_width(label) - own * at for at, label in enumerate(labels)]
            left = max(left, max(begins) - MARGIN + 6)
        drawing, y = sheet(self.title, width)
        y = line_names(drawing, list(self.series), y)
        y = drawing.paragraph(EDGE, y, self.y, drawing.width - 2 * EDGE, SIZE, "ink3") + 6
        field = Field(drawing, EDGE + left, y, ends, len(self.x.labels), self.logarithmic)
        for tick, label in zip(ticks, shown, strict=True):
            at = field.y(tick)
            drawing.add(Line(((field.left, at), (field.right, at))))
            drawing.add(TextMark(field.left - 6, at + 0.35 * SIZE, label, anchor="end"))
        for line, style in zip(self.series.values(), line_styles(), strict=False):
            field.draw(line, *style)
        y += HEIGHT + 8
        for place, label in enumerate(labels):
            at = field.x(place * every)
            if flat:
                drawing.add(TextMark(at, y + SIZE, label, anchor="middle"))
            else:
                drawing.add(TextMark(at + 4, y + 8, label, anchor="end", turn=45))
        y += SIZE + 4 if flat else TURNED * widest(labels) + SIZE
        if self.x.name:
            middle = (field.left + field.right) / 2
            drawing.add(TextMark(middle, y + SIZE, self.x.name, colour="ink3", anchor="middle"))
            y += AXIS
        return finish(drawing, y, self.note)


@dataclass(frozen=True, eq=False, repr=False)
class Bars(Picture):
    """A bar chart: one number for each label."""

    x: str
    labels: tuple[str, ...]
    values: Numbers
    note: str = ""
    marked: tuple[int, ...] = ()  # indices of bars to highlight

    def drawing(self) -> Drawing:
        labels = readable(self.labels)
        left = widest(labels) + 8
        shown = [signed(f"{value:.3g}") for value in self.values]
        finite = [float(value) for value in self.values if np.isfinite(value)]
        low, high = min(0.0, *finite, 0.0), max(0.0, *finite, 0.0)
        scale = BAR_LENGTH / ((high - low) or 1.0)
        room = widest(shown) + 8
        before = room if low < 0 else 0.0
        drawing, y = sheet(self.title, left + before + BAR_LENGTH + room)
        zero = EDGE + left + before - low * scale
        top = y
        for place, (label, value) in enumerate(zip(labels, self.values, strict=True)):
            long = float(value) * scale if np.isfinite(value) else 0.0
            middle = y + BAR / 2 + 0.35 * SIZE
            drawing.add(
                TextMark(EDGE + left - 8, middle, label, anchor="end"),
                Box(min(zero, zero + long), y + 3, abs(long), BAR - 6, fill=self._colour(place)),
                TextMark(zero + long + (4 if long >= 0 else -4), middle, shown[place],
                     anchor="start" if long >= 0 else "end"),
            )  # fmt: skip
            y += BAR
        drawing.add(Line(((zero, top), (zero, y)), "ink3"))
        y = drawing.paragraph(EDGE + left, y + 4, self.x, BAR_LENGTH + room, SIZE, "ink3")
        return finish(drawing, y, self.note)

    def _colour(self, place: int) -> str:
        """The colour of a bar, by sign; if all are positive, marked bars get their own colour."""
        if (self.values < 0).any():
            return "neg" if self.values[place] < 0 else "pos"
        return "mark" if place in self.marked else "accent"
