"""A drawing as PNG or PDF, by matplotlib, which loads here and late: it takes a while."""

import io
import warnings
from typing import Any

import numpy as np

from translucid.see.render.drawing import Box, Cells, Drawing, Line, Text, printable
from translucid.see.render.palette import THEMES

INCH = 96  # pixels
POINT = 72 / INCH
SET: dict[Any, Any] = {
    "font.family": "sans-serif",
    "text.parse_math": False,  # a word with two dollar signs is no formula
}
_COLOURS = THEMES["light"]


def written(drawing: Drawing, ending: str, dpi: int) -> bytes:
    """ending: what matplotlib writes, such as png or pdf. The same drawing is the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    dated = {"pdf": {"CreationDate": None}}.get(ending)
    with rc_context(SET), warnings.catch_warnings():
        # A sign that the font lacks, such as a dog, is drawn as a box; an SVG has the sign itself.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        sheet = Figure(figsize=(drawing.width / INCH, drawing.height / INCH))
        axes = sheet.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
        axes.set_axis_off()
        for mark in drawing.marks:
            _put(axes, mark)
        sheet.savefig(buffer, format=ending, metadata=dated, dpi=dpi)
    return buffer.getvalue()


def _put(axes: Any, mark: Text | Box | Line | Cells) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    match mark:
        case Text():
            sides = {"start": "left", "middle": "center", "end": "right"}
            axes.text(
                mark.x, mark.y, printable(mark.text), fontsize=mark.size * POINT,
                color=_COLOURS[mark.colour], ha=sides[mark.anchor], va="baseline",
                rotation=mark.turn, rotation_mode="anchor",
            )  # fmt: skip
        case Box():
            axes.add_patch(Rectangle(
                (mark.x, mark.y), mark.width, mark.height, linewidth=2 * POINT,
                facecolor=_COLOURS[mark.fill] if mark.fill else "none",
                edgecolor=_COLOURS[mark.stroke] if mark.stroke else "none",
            ))  # fmt: skip
        case Line():
            dashes: Any = (0, [length * POINT for length in mark.dashes]) if mark.dashes else "-"
            x, y = zip(*mark.points, strict=True)
            axes.add_line(Line2D(x, y, color=_COLOURS[mark.colour], linewidth=mark.width * POINT,
                                 linestyle=dashes))  # fmt: skip
        case Cells():
            rows, columns = len(mark.colours), len(mark.colours[0])
            values = np.array([[_bytes(name) for name in line] for line in mark.colours], np.uint8)
            right, below = mark.x + columns * mark.width, mark.y + rows * mark.height
            axes.imshow(values, extent=(mark.x, right, below, mark.y), interpolation="nearest",
                        aspect="auto")  # fmt: skip
            _hatch(axes, mark)


def _hatch(axes: Any, mark: Cells) -> None:
    """A stroke through every cell without a colour."""
    for row, line in enumerate(mark.colours):
        for column, name in enumerate(line):
            if not name:
                x, y = mark.x + column * mark.width, mark.y + row * mark.height
                ends = (x, x + mark.width), (y + mark.height, y)
                axes.plot(*ends, color=_COLOURS["line"], linewidth=POINT)


def _bytes(name: str) -> tuple[int, ...]:
    """Red, green, blue and how opaque."""
    if not name:
        return (255, 255, 255, 0)
    return (*(int(_COLOURS[name][i : i + 2], 16) for i in (1, 3, 5)), 255)
