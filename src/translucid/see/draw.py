"""Pictures on paper: SVG and PNG, by matplotlib. It loads here and late: it takes a while."""

import io
import warnings
from collections.abc import Sequence
from itertools import cycle
from textwrap import fill
from typing import Any

import numpy as np

from translucid.see import colours
from translucid.see.pictures import Bars, Grid, Heat, Lines, Picture

CELL, LETTER = 0.34, 0.085  # inches: a cell of a table, a letter of a label
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
            width = min(1.5 + 0.3 * len(picture.x.labels), 18.0)
            drawn, [[axes]] = _empty(_wide_enough(max(width, 5.0), picture.title), 3.4)
            _lines(axes, picture)
        case Bars():
            longest = max(map(len, picture.labels), default=0)
            width = _wide_enough(4.2 + LETTER * longest, picture.title)
            drawn, [[axes]] = _empty(width, 1.0 + 0.27 * len(picture.labels))
            _bars(axes, picture)
        case _:
            raise TypeError(f"nobody knows how to draw a {type(picture).__name__}")
    axes.set_title(picture.title, loc="left", fontsize=11)
    _foot(drawn, picture.note)
    return drawn


def _empty(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure as Sheet

    drawn = Sheet(figsize=(width, height), layout="constrained")
    return drawn, drawn.subplots(rows, columns, squeeze=False)


def _wide_enough(width: float, title: str) -> float:
    return max(width, 0.6 + 1.1 * LETTER * len(title))


def _foot(drawn: Any, note: str) -> None:
    """What was left out, below the picture, on as many lines as it takes."""
    if note:
        lines = fill(note, int(drawn.get_figwidth() / 0.07))
        drawn.supxlabel(lines, x=0.01, ha="left", fontsize=8, color=colours.PALE)


def _size(heat: Heat, cell: float = CELL) -> tuple[float, float]:
    rows, columns = heat.values.shape
    down, across = (cell if size <= SMALL else 0.14 for size in (rows, columns))
    wide = max((len(text) for line in heat.texts for text in line), default=0)
    beside = LETTER * max(map(len, heat.rows.labels), default=0)
    above = 0.6 * LETTER * max(map(len, heat.columns.labels), default=0)
    return 1.7 + beside + max(across, LETTER * wide) * columns, 1.3 + above + down * rows


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
    if heat.texts:
        _write(axes, heat, heat.texts)
    elif numbers and max(heat.values.shape) <= NUMBERS:
        _write(axes, heat, [[_number(value) for value in line] for line in heat.values])
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
    size = 6 if max(heat.values.shape) > SMALL else 9
    columns = heat.columns.labels
    flat = all(len(label) <= 3 for label in columns)
    how = {} if flat else {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    every = EVERY if len(columns) > SMALL and columns[-1].isdigit() else 1
    axes.set_xticks(
        range(0, len(columns), every), _readable(columns[::every]), fontsize=size, **how
    )
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_yticks(range(len(heat.rows.labels)), _readable(heat.rows.labels), fontsize=size)
    axes.set_xlabel(heat.columns.name, fontsize=9)
    axes.set_ylabel(heat.rows.name, fontsize=9)
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
                column, row, text, ha="center", va="center", fontsize=8,
                color="white" if dark else colours.INK,
            )  # fmt: skip


def _number(value: float) -> str:
    if not np.isfinite(value):
        return ""
    written = f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return "0" if float(written) == 0 else written.replace("-", "\N{MINUS SIGN}")


def _draw_grid(grid: Grid) -> Any:
    """Side by side, with one legend where the colours mean the same everywhere. Tables with the
    same words have them once, at the edge; many, or many words, are small and have none."""
    columns = min(grid.columns, len(grid.heats))
    rows = -(-len(grid.heats) // columns)
    first = grid.heats[0]
    alike = all((h.rows, h.columns) == (first.rows, first.columns) for h in grid.heats)
    small = len(grid.heats) > NUMBERS or (columns > 1 and max(first.values.shape) > FEW)
    cell = CELL if columns == 1 else 0.22
    widths, heights = zip(*(_size(heat, cell) for heat in grid.heats), strict=True)
    width = 1.6 * columns if small else (0.75 if alike else 0.95) * max(widths) * columns
    height = 1.8 * rows if small else (0.8 if alike else 0.95) * max(heights) * rows
    drawn, cells = _empty(
        _wide_enough(min(width, 24) + 0.8, grid.title), min(height, 40) + 0.6, rows, columns
    )
    images = []
    for place, (axes, heat) in enumerate(zip(cells.flat, grid.heats, strict=False)):
        images.append(_heat(axes, heat, labels=not small, numbers=False, legend=False))
        axes.set_title(fill(heat.title, 18) if small else heat.title, fontsize=7 if small else 10)
        if alike and place % columns:
            axes.set_yticks([])
            axes.set_ylabel("")
        if alike and place >= columns:
            axes.set_xticks([])
            axes.set_xlabel("")
    for axes in cells.flat[len(grid.heats) :]:
        axes.set_axis_off()
    if len({limits(heat) for heat in grid.heats}) == 1:
        drawn.colorbar(images[0], ax=cells, shrink=0.6, pad=0.02)
    drawn.suptitle(grid.title, x=0.01, ha="left", fontsize=11)
    _foot(drawn, "; ".join(filter(None, [grid.note, "one table alone shows its words" * small])))
    return drawn


def _lines(axes: Any, lines: Lines) -> None:
    styles = cycle((line, dash) for dash in colours.DASHES for line in colours.LINES)
    places = range(len(lines.x.labels))
    for (name, values), (colour, dash) in zip(lines.series.items(), styles, strict=False):
        axes.plot(places, values, label=name, color=colour, linestyle=dash, marker="o", ms=3)
    every = -(-len(lines.x.labels) // 64)
    flat = all(len(label) <= 3 for label in lines.x.labels)
    axes.set_xticks(
        places[::every], _readable(lines.x.labels[::every]), fontsize=9 if every == 1 else 7,
        **({} if flat else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}),
    )  # fmt: skip
    axes.set(xlabel=lines.x.name, ylabel=lines.y)
    if lines.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:.0e}")
        axes.yaxis.set_minor_formatter("")
    axes.spines[["top", "right"]].set_visible(False)
    if len(lines.series) > 1:
        axes.legend(frameon=False, fontsize=8)


def _bars(axes: Any, bars: Bars) -> None:
    places = range(len(bars.labels))
    drawn = axes.barh(
        places, bars.values, color=[_bar(bars, place) for place in places], height=0.7
    )
    axes.set_yticks(places, _readable(bars.labels), fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel(bars.x, fontsize=9)
    axes.bar_label(drawn, [f"{value:.3g}" for value in bars.values], padding=3, fontsize=8)
    axes.margins(x=0.15, y=0.3 / len(bars.labels))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _bar(bars: Bars, place: int) -> str:
    """Signs have their colours; where all are positive, a marked one stands out."""
    if (bars.values < 0).any():
        return colours.VIOLET if bars.values[place] < 0 else colours.AMBER
    return colours.MARK if place in bars.marked else colours.GREEN
