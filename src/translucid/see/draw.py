"""Pictures on paper: SVG and PNG, by matplotlib. It loads here and late: it takes a while."""

import io
import re
import warnings
from collections.abc import Sequence
from itertools import cycle
from textwrap import fill
from typing import Any

import numpy as np

from translucid.see import colours
from translucid.see.picture_data import Axis, Bars, Grid, Heat, Lines, Picture

CELL, LETTER = 0.34, 0.085  # inches: a cell of a table, a letter of a label
TITLE = 1.1 * LETTER  # inches: a letter of a title
BESIDE = 0.22  # inches: a cell of tables that stand side by side
LEAST = 9  # points: the smallest letters, but for tables that are too large to be read whole
WIDEST = 9.2  # inches: on a page as wide as a projector, LEAST can be read from the last row
NUMBERS = 12  # tables of up to this many rows and columns get their numbers written in
SMALL = 40  # above this many labels on a side they are set smaller
EVERY = 8  # of many numbers along a side
FEW = 24  # words on a side that tables side by side can show
SET: dict[Any, Any] = {
    "svg.fonttype": "none",  # words stay words: they can be searched and read aloud
    "svg.hashsalt": "translucid",  # the same picture is the same file
    "font.family": "sans-serif",
    "axes.edgecolor": colours.EDGE,
    "axes.labelcolor": colours.PALE,
    "text.color": colours.INK,
    "xtick.color": colours.INK,
    "ytick.color": colours.INK,
    "text.parse_math": False,  # a word with two dollar signs is no formula
}


def written(picture: Picture, ending: str, dpi: int) -> bytes:
    """As a file; the same picture is the same bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
    with rc_context(SET), warnings.catch_warnings():
        # A sign that the font lacks, such as a dog, is drawn as a box; an SVG has the sign itself.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        draw(picture).savefig(buffer, format=ending, metadata=dated, dpi=dpi)
    return buffer.getvalue()


def draw(picture: Picture) -> Any:
    """A matplotlib figure."""
    match picture:
        case Grid():
            return _draw_grid(picture)
        case Heat():
            width, height = _size(picture)
            drawn, [[axes]] = _empty(_wide_enough(width, picture.title), height)
            _heat(axes, picture)
        case Lines():
            drawn, [[axes]] = _empty(_wide_enough(_width(picture.x), picture.title), 3.4)
            _lines(axes, picture)
        case Bars():
            longest = max(map(len, picture.labels), default=0)
            width = _wide_enough(4.2 + LETTER * longest, picture.title)
            drawn, [[axes]] = _empty(width, 1.0 + 0.27 * len(picture.labels))
            _bars(axes, picture)
        case _:
            raise TypeError(f"nobody knows how to draw a {type(picture).__name__}")
    _around(drawn, picture.title, picture.note)
    if isinstance(picture, Lines) and len(picture.series) > 1:
        _name_lines(drawn, axes)
    return drawn


def _empty(
    width: float,
    height: float,
    across: Sequence[float] = (1.0,),
    down: Sequence[float] = (1.0,),
) -> tuple[Any, Any]:
    """A sheet and its places. across, down: how wide and how high they are beside each other."""
    from matplotlib.figure import Figure as Sheet

    drawn = Sheet(figsize=(width, height), layout="constrained")
    places = drawn.subplots(
        len(down), len(across), squeeze=False, width_ratios=across, height_ratios=down
    )
    return drawn, places


def _wide_enough(width: float, title: str) -> float:
    """A title makes a picture wider, up to a point; from there it takes another line."""
    return max(width, min(0.4 + TITLE * len(title), WIDEST))


def _around(drawn: Any, title: str, note: str) -> None:
    """Above the title; below what was left out; both on as many lines as they take."""
    width = drawn.get_figwidth()
    drawn.suptitle(fill(title, int(width / TITLE)), x=0.01, ha="left", fontsize=11)
    if note:
        lines = fill(note, int(width / 0.08))
        drawn.supxlabel(lines, x=0.01, ha="left", fontsize=LEAST, color=colours.PALE)


def _size(heat: Heat) -> tuple[float, float]:
    across, down = _inside(heat)
    return 1.7 + _beside(heat.rows) + across, 1.3 + _above(heat.columns) + down


def _inside(heat: Heat, cell: float = CELL, *, numbers: bool = True) -> tuple[float, float]:
    """The width and the height of the cells alone, with room for what is written into them."""
    rows, columns = heat.values.shape
    down, across = (cell if size <= SMALL else 0.14 for size in (rows, columns))
    wide = max((len(text) for line in _texts(heat, numbers) for text in line), default=0)
    return max(across, LETTER * (wide + 1) * (wide > 0)) * columns, down * rows


def _beside(rows: Axis) -> float:
    return LETTER * max(map(len, rows.labels), default=0)


def _above(columns: Axis) -> float:
    return 0.6 * LETTER * max(map(len, columns.labels), default=0)


def _texts(heat: Heat, numbers: bool) -> Sequence[Sequence[str]]:
    """What is written into the cells, if anything."""
    if heat.texts or not numbers or max(heat.values.shape) > NUMBERS:
        return heat.texts
    return [[_number(value) for value in line] for line in heat.values]


def _heat(
    axes: Any, heat: Heat, *, labels: bool = True, numbers: bool = True, legend: bool = True
) -> Any:
    low, high = limits(heat)
    shown = np.ma.masked_invalid(heat.values)
    image = axes.imshow(
        shown, cmap=colours.ramp(heat.scale), vmin=low, vmax=high, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    axes.patch.set(facecolor="#ffffff", hatch="////", edgecolor=colours.EDGE)  # seen where nan
    if labels:
        _label(axes, heat)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
    from matplotlib.patches import Rectangle

    for row, column in heat.frames:
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=colours.MARK, linewidth=1.8))
    if texts := _texts(heat, numbers):
        _write(axes, heat, texts)
    elif legend:
        axes.figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    return image


def limits(heat: Heat) -> tuple[float, float]:
    """The numbers that get the first and the last colour."""
    if heat.scale == "unit":
        return 0.0, 1.0
    finite = np.abs(heat.values[np.isfinite(heat.values)])
    most = heat.most or (float(finite.max()) if finite.size and finite.max() > 0 else 1.0)
    return (0.0, most) if heat.scale == "positive" else (-most, most)


def _label(axes: Any, heat: Heat) -> None:
    rows, columns = heat.rows.labels, heat.columns.labels
    flat = all(len(label) <= 3 for label in columns)
    how = {} if flat else {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    every = EVERY if len(columns) > SMALL and columns[-1].isdigit() else 1
    size = 6 if len(columns) > SMALL and every == 1 else LEAST
    axes.set_xticks(
        range(0, len(columns), every), _readable(columns[::every]), fontsize=size, **how
    )
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    size = 6 if len(rows) > SMALL else LEAST
    axes.set_yticks(range(len(rows)), _readable(rows), fontsize=size)
    axes.set_xlabel(heat.columns.name, fontsize=LEAST)
    axes.set_ylabel(heat.rows.name, fontsize=LEAST)
    axes.tick_params(length=0)


def _readable(labels: Sequence[str]) -> list[str]:
    """A full stop alone is hardly seen: it gets quotation marks."""
    return [f"‘{label}’" if len(label) == 1 and not label.isalnum() else label for label in labels]


def _write(axes: Any, heat: Heat, texts: Any) -> None:
    low, high = limits(heat)
    ramp = colours.ramp(heat.scale)
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            value = heat.values[row, column]
            red, green, blue, _ = ramp((value - low) / (high - low) if np.isfinite(value) else 0.5)
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.55 and np.isfinite(value)
            axes.text(
                column, row, text, ha="center", va="center", fontsize=LEAST,
                color="white" if dark else colours.INK,
            )  # fmt: skip


def _number(value: float) -> str:
    if not np.isfinite(value):
        return ""
    written = f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return "0" if float(written) == 0 else written.replace("-", "\N{MINUS SIGN}")


def _draw_grid(grid: Grid) -> Any:
    """Side by side, with one legend where the colours mean the same everywhere. Tables with the
    words of the one beside or above have them once; many, or many words, are small and have none.
    """
    columns = min(grid.columns, len(grid.heats))
    small = len(grid.heats) > NUMBERS or (columns > 1 and max(grid.heats[0].values.shape) > FEW)
    width, height, across, down = _small_sheet(grid, columns) if small else _sheet(grid, columns)
    drawn, cells = _empty(_wide_enough(width, grid.title), height, across, down)
    images = []
    for place, (axes, heat) in enumerate(zip(cells.flat, grid.heats, strict=False)):
        images.append(_heat(axes, heat, labels=not small, numbers=False, legend=False))
        room = 18 if small else max(14, int(across[place % columns] / TITLE) + 2)
        axes.set_title(fill(heat.title, room), fontsize=7 if small else 10)
        if not _own_rows(grid, place, columns):
            axes.set_yticks([])
            axes.set_ylabel("")
        if not _own_columns(grid, place, columns):
            axes.set_xticks([])
            axes.set_xlabel("")
    for axes in cells.flat[len(grid.heats) :]:
        axes.set_axis_off()
    if len({limits(heat) for heat in grid.heats}) == 1:
        drawn.colorbar(images[0], ax=cells, shrink=0.6, pad=0.02)
    note = "; ".join(filter(None, [grid.note, "one table alone shows its words" * small]))
    _around(drawn, grid.title, note)
    return drawn


Sizes = tuple[float, float, list[float], list[float]]  # of the sheet; across and down its tables


def _small_sheet(grid: Grid, columns: int) -> Sizes:
    rows = -(-len(grid.heats) // columns)
    width, height = min(1.6 * columns, 24.0) + 0.8, min(1.8 * rows, 40.0) + 0.6
    return width, height, [1.0] * columns, [1.0] * rows


def _sheet(grid: Grid, columns: int) -> Sizes:
    """Large cells where there is room for them, and never too small for the words beside them."""
    for cell in (CELL,) if columns == 1 else (BESIDE, 0.2, 0.18):
        inside = [_inside(heat, cell, numbers=False) for heat in grid.heats]
        places = range(0, len(inside), columns)
        across = [max(wide for wide, _ in inside[at::columns]) for at in range(columns)]
        down = [max(high for _, high in inside[at : at + columns]) for at in places]
        beside = [
            0.35 + _beside(heat.rows) if _own_rows(grid, place, columns) else 0.0
            for place, heat in enumerate(grid.heats)
        ]
        width = 0.7 + sum(across) + sum(max(beside[at::columns]) + 0.15 for at in range(columns))
        if width <= WIDEST:
            break
    above = [
        0.3 + _above(heat.columns) if _own_columns(grid, place, columns) else 0.0
        for place, heat in enumerate(grid.heats)
    ]
    titled = 0.2 * max(len(heat.title) * TITLE > across[0] for heat in grid.heats) + 0.3
    height = 0.7 + sum(down) + sum(max(above[at : at + columns]) + titled for at in places)
    return min(width, 24.0), min(height, 40.0), across, down


def _own_rows(grid: Grid, place: int, columns: int) -> bool:
    """Whether its rows are not those of the table to its left."""
    return place % columns == 0 or grid.heats[place].rows != grid.heats[place - 1].rows


def _own_columns(grid: Grid, place: int, columns: int) -> bool:
    """Whether its columns are not those of the table above it."""
    above = place - columns
    return above < 0 or grid.heats[place].columns != grid.heats[above].columns


def _lines(axes: Any, lines: Lines) -> None:
    styles = cycle((line, dash) for dash in colours.DASHES for line in colours.LINES)
    places = range(len(lines.x.labels))
    for (name, values), (colour, dash) in zip(lines.series.items(), styles, strict=False):
        axes.plot(places, values, label=name, color=colour, linestyle=dash, marker="o", ms=3)
    every, flat = _every(lines.x.labels, _width(lines.x) - 1.2)
    axes.set_xticks(
        places[::every], _readable(lines.x.labels[::every]), fontsize=LEAST,
        **({} if flat else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}),
    )  # fmt: skip
    axes.set(xlabel=lines.x.name, ylabel=fill(lines.y, 34))  # as high as the picture
    if lines.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:.0e}")
        axes.yaxis.set_minor_formatter("")
    axes.spines[["top", "right"]].set_visible(False)


def _name_lines(drawn: Any, axes: Any) -> None:
    """Among the lines where they leave a place free, else beside them."""
    box = axes.legend(frameon=False, fontsize=LEAST)
    drawn.draw_without_rendering()
    taken = box.get_window_extent()
    paths = (line.get_path().transformed(line.get_transform()) for line in axes.lines)
    if any(path.intersects_bbox(taken, filled=False) for path in paths):
        width = drawn.get_figwidth()
        drawn.set_figwidth(max(width, min(width + taken.width / drawn.dpi, WIDEST)))
        axes.legend(frameon=False, fontsize=LEAST, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _width(x: Axis) -> float:
    """Every word has its place; many numbers stand closer together."""
    return max(5.0, min(1.5 + 0.3 * len(x.labels), WIDEST if _numeric(x.labels) else 18.0))


def _every(labels: Sequence[str], room: float) -> tuple[int, bool]:
    """Which labels are written, and whether they lie flat: of a row of numbers as many as fit, of
    words all, unless there are very many."""
    if not _numeric(labels):
        return -(-len(labels) // 64), all(len(label) <= 3 for label in labels)
    each = room / len(labels)  # inches
    gap = min(np.diff(np.flatnonzero(labels)), default=1) if "" in labels else 1
    for every in (1, 2, 4, 5, 8, 10) if len(labels) > FEW and "" not in labels else (1,):
        if LETTER * (1 + max(map(len, labels[::every]))) <= each * every * gap:
            return every, True
    return every, False


def _numeric(labels: Sequence[str]) -> bool:
    return all(re.fullmatch(r"|[-\N{MINUS SIGN}]?[\d.]+%?", label) for label in labels)


def _bars(axes: Any, bars: Bars) -> None:
    places = range(len(bars.labels))
    drawn = axes.barh(
        places, bars.values, color=[_bar(bars, place) for place in places], height=0.7
    )
    axes.set_yticks(places, _readable(bars.labels), fontsize=LEAST)
    axes.invert_yaxis()
    axes.set_xlabel(bars.x, fontsize=LEAST)
    axes.bar_label(drawn, [f"{value:.3g}" for value in bars.values], padding=3, fontsize=LEAST)
    axes.margins(x=0.15, y=0.3 / len(bars.labels))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _bar(bars: Bars, place: int) -> str:
    """Signs have their colours; where all are positive, a marked one stands out."""
    if (bars.values < 0).any():
        return colours.VIOLET if bars.values[place] < 0 else colours.AMBER
    return colours.MARK if place in bars.marked else colours.GREEN
