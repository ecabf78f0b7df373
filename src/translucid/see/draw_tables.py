"""Tables of numbers as colours, alone and side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from translucid.see.draw_sheet import AXIS, EDGE, TURNED, WIDEST, finish, readable, sheet, widest
from translucid.see.picture_data import Grid, Heat
from translucid.see.render.drawing import SIZE, Box, Cells, Drawing, Text, lines, text_width
from translucid.see.render.palette import STEPS, on

CELL = 33.0  # a cell of a table alone
CELLS_IN_COLUMNS = (21.0, 19.0, 17.0)  # of tables side by side, the largest that fit
TINY = 13.0  # of a table with more than SMALL rows or columns
SMALL = 40
NUMBERS = 12  # tables of up to this many rows and columns get their numbers written in
EVERY = 8  # of many numbers along a side
FEW = 24  # tokens on a side that tables side by side can show
THUMB = 134.0  # width and height of a table without labels
HEADING = 13.0  # font size above a table of a grid
BAR = 12.0  # width of the legend's bar


def limits(heat: Heat) -> tuple[float, float]:
    """The numbers that get the first and the last colour."""
    if heat.scale == "unit":
        return 0.0, 1.0
    finite = np.abs(heat.values[np.isfinite(heat.values)])
    most = heat.most or (float(finite.max()) if finite.size and finite.max() > 0 else 1.0)
    return (0.0, most) if heat.scale == "positive" else (-most, most)


def colour(heat: Heat, value: float) -> str:
    """A name of the palette; nothing where there is no number."""
    if not np.isfinite(value):
        return ""
    low, high = limits(heat)
    step = round(min(max((value - low) / (high - low), 0.0), 1.0) * STEPS)
    return f"{'s' if heat.scale == 'signed' else 'u'}{step}"


@dataclass(frozen=True)
class Table:
    """A table laid out: how large its cells are, and the room that its labels take."""

    heat: Heat
    cell: float
    numbers: bool = True  # few are written into their cells
    rows: bool = True  # whether its rows have labels
    columns: bool = True

    @cached_property
    def texts(self) -> Sequence[Sequence[str]]:
        """What is written into the cells, if anything."""
        if self.heat.texts or not self.numbers or max(self.heat.values.shape) > NUMBERS:
            return self.heat.texts
        return [[_number(value) for value in line] for line in self.heat.values]

    @cached_property
    def size(self) -> tuple[float, float]:
        """The width and the height of a cell, with room for what is written into it."""
        high, wide = (self.cell if n <= SMALL else min(TINY, self.cell) for n in self._shape)
        written = widest([text for line in self.texts for text in line])
        return max(wide, written + 10.0 * bool(written)), high

    @property
    def _shape(self) -> tuple[int, int]:
        rows, columns = self.heat.values.shape
        return rows, columns

    @property
    def across(self) -> float:
        return self.size[0] * self._shape[1]

    @property
    def down(self) -> float:
        return self.size[1] * self._shape[0]

    @cached_property
    def left(self) -> float:
        if not self.rows:
            return 0.0
        labels = readable(self.heat.rows.labels)
        return widest(labels, self._font_size(0)) + 8 + AXIS * bool(self.heat.rows.name)

    @cached_property
    def top(self) -> float:
        if not self.columns:
            return 0.0
        labels = self._column_labels
        high = SIZE + 6 if self._flat else TURNED * widest(labels, self._font_size(1)) + SIZE
        return high * any(labels) + AXIS * bool(self.heat.columns.name)

    @cached_property
    def over(self) -> float:
        """How far a turned label reaches beyond the last column."""
        if not self.columns or self._flat:
            return 0.0
        wide = [TURNED * text_width(label, self._font_size(1)) for label in self._column_labels]
        ends = [(n + 0.5) * self.size[0] + w for n, w in enumerate(wide)]
        return max(0.0, *(end - self.across for end in ends))

    def _font_size(self, side: int) -> float:
        """Many labels are set smaller, unless most of them are left out."""
        many = self._shape[side] > SMALL and not (side == 1 and self._every > 1)
        return 8.0 if many else SIZE

    @property
    def _every(self) -> int:
        labels = self.heat.columns.labels
        return EVERY if len(labels) > SMALL and labels[-1].isdigit() else 1

    @cached_property
    def _column_labels(self) -> list[str]:
        every = self._every
        labels = readable(self.heat.columns.labels)
        return [label if place % every == 0 else "" for place, label in enumerate(labels)]

    @cached_property
    def _flat(self) -> bool:
        room = self.size[0] * self._every - 4
        return widest(self._column_labels, self._font_size(1)) <= room

    def draw(self, drawing: Drawing, x: float, y: float) -> None:
        """x, y: the upper left corner of its cells."""
        heat, (wide, high) = self.heat, self.size
        names = [[colour(heat, value) for value in line] for line in heat.values]
        drawing.add(Cells(x, y, wide, high, names))
        for row, line in enumerate(self.texts):
            for column, text in enumerate(line):
                name = names[row][column]
                at = (x + (column + 0.5) * wide, y + (row + 0.5) * high + 0.35 * SIZE)
                drawing.add(Text(*at, text, SIZE, on(name) if name else "ink", "middle"))
        for row, column in heat.frames:
            corner = (x + column * wide + 1, y + row * high + 1)
            drawing.add(Box(*corner, wide - 2, high - 2, stroke="mark"))
        if self.rows:
            self._label_rows(drawing, x, y)
        if self.columns:
            self._label_columns(drawing, x, y)

    def _label_rows(self, drawing: Drawing, x: float, y: float) -> None:
        font_size, high = self._font_size(0), self.size[1]
        for place, label in enumerate(readable(self.heat.rows.labels)):
            middle = y + (place + 0.5) * high + 0.35 * font_size
            drawing.add(Text(x - 6, middle, label, font_size, anchor="end"))
        middle = y + self.down / 2
        name = Text(x - self.left + SIZE, middle, self.heat.rows.name, SIZE, "ink3", "middle", 90)
        drawing.add(name)

    def _label_columns(self, drawing: Drawing, x: float, y: float) -> None:
        font_size, wide = self._font_size(1), self.size[0]
        for place, label in enumerate(self._column_labels):
            middle = x + (place + 0.5) * wide
            if self._flat:
                drawing.add(Text(middle, y - 6, label, font_size, anchor="middle"))
            elif label:
                drawing.add(Text(middle + 0.25 * font_size, y - 5, label, font_size, turn=45))
        above = y - self.top + SIZE
        drawing.add(Text(x + self.across / 2, above, self.heat.columns.name, SIZE, "ink3",
                         "middle"))  # fmt: skip


def _number(value: float) -> str:
    if not np.isfinite(value):
        return ""
    written = f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return "0" if float(written) == 0 else written.replace("-", "\N{MINUS SIGN}")


def _legend(heat: Heat) -> tuple[list[str], float]:
    """What stands beside the bar, from the top down, and how wide bar and numbers are."""
    low, high = limits(heat)
    marked = [f"{value:.3g}".replace("-", "\N{MINUS SIGN}") for value in (high, low)]
    labels = [marked[0], "0", marked[1]] if heat.scale == "signed" else marked
    return labels, 16 + BAR + 6 + widest(labels)


def _draw_legend(drawing: Drawing, heat: Heat, x: float, y: float, height: float) -> None:
    labels, _ = _legend(heat)
    kind = "s" if heat.scale == "signed" else "u"
    names = [[f"{kind}{STEPS - step}"] for step in range(STEPS + 1)]
    drawing.add(Cells(x + 16, y, BAR, height / len(names), names))
    for place, label in enumerate(labels):
        at = y + height * place / (len(labels) - 1)
        drawing.add(Text(x + 16 + BAR + 6, at + 0.35 * SIZE, label, SIZE, "ink3"))


def draw_heat(heat: Heat) -> Drawing:
    table = Table(heat, CELL)
    bar = 0.0 if table.texts else _legend(heat)[1]
    drawing, y = sheet(heat.title, table.left + table.across + max(table.over, bar))
    x, y = EDGE + table.left, y + table.top
    table.draw(drawing, x, y)
    if bar:
        _draw_legend(drawing, heat, x + table.across, y, table.down)
    return finish(drawing, y + table.down + EDGE, heat.note)


def draw_grid(grid: Grid) -> Drawing:
    """Side by side, with one legend where the colours mean the same everywhere. Tables with the
    tokens of the one beside or above have them once; many, or many tokens, are small and have none.
    """
    columns = min(grid.columns, len(grid.heats))
    small = len(grid.heats) > NUMBERS or (columns > 1 and max(grid.heats[0].values.shape) > FEW)
    tables = _small(grid) if small else _fitting(grid, columns)
    font_size = 9.5 if small else HEADING
    left, across = (
        [max(getattr(table, side) for table in tables[at::columns]) for at in range(columns)]
        for side in ("left", "across")
    )
    gap = 14.0
    same = len({limits(heat) for heat in grid.heats}) == 1
    bar = _legend(grid.heats[0])[1] if same else 0.0
    over = max(table.over for table in tables[columns - 1 :: columns] or tables[-1:])
    inside = sum(left) + sum(across) + gap * (columns - 1)
    drawing, y = sheet(grid.title, inside + max(over, bar))
    first = y
    for start in range(0, len(tables), columns):
        row = tables[start : start + columns]
        headings = [
            lines(table.heat.title, max(wide, 100.0), font_size)
            for table, wide in zip(row, across, strict=False)
        ]
        y += 1.3 * font_size * max(map(len, headings)) + 4
        above = y
        y += max(table.top for table in row)
        x = EDGE
        for table, heading, before, wide in zip(row, headings, left, across, strict=False):
            x += before
            for place, line in enumerate(reversed(heading)):
                at = above - 4 - 1.3 * font_size * place
                drawing.add(Text(x, at, line, font_size, "ink2"))
            table.draw(drawing, x, y)
            x += wide + gap
        y += max(table.down for table in row) + 10
    if same:
        _draw_legend(drawing, grid.heats[0], EDGE + inside, first + 24, min(160.0, y - first - 40))
    alone = "one table alone shows its tokens" * small
    return finish(drawing, y, "; ".join(filter(None, [grid.note, alone])))


def _small(grid: Grid) -> list[Table]:
    """Without labels; a cell is as large as the longer side leaves it."""
    most = max(max(heat.values.shape) for heat in grid.heats)
    return [Table(heat, THUMB / most, False, False, False) for heat in grid.heats]


def _fitting(grid: Grid, columns: int) -> list[Table]:
    """Large cells where there is room for them, and never too small for the tokens beside them."""
    tables: list[Table] = []
    for cell in (CELL,) if columns == 1 else CELLS_IN_COLUMNS:
        tables = [
            Table(heat, cell, False, _own_rows(grid, place, columns),
                  _own_columns(grid, place, columns))
            for place, heat in enumerate(grid.heats)
        ]  # fmt: skip
        width = sum(
            max(t.left for t in tables[at::columns]) + max(t.across for t in tables[at::columns])
            for at in range(columns)
        )
        if width + 14 * columns + 80 <= WIDEST:
            break
    return tables


def _own_rows(grid: Grid, place: int, columns: int) -> bool:
    """Whether its rows are not those of the table to its left."""
    return place % columns == 0 or grid.heats[place].rows != grid.heats[place - 1].rows


def _own_columns(grid: Grid, place: int, columns: int) -> bool:
    """Whether its columns are not those of the table above it."""
    above = place - columns
    return above < 0 or grid.heats[place].columns != grid.heats[above].columns
