"""A drawing: marks on a sheet (texts, boxes, lines, coloured cells), written as SVG, PNG or PDF.

Coordinates are in pixels from the upper left corner. Colours are palette names. Output is
deterministic: the same drawing gives the same bytes. Text in an SVG is searchable.
"""

import io
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap
from typing import Any, Literal

import numpy as np

from translucid.see.render.frame import escape
from translucid.see.render.palette import THEMES

SIZE = 12.0  # font size: 9 points, readable on a projector
Anchor = Literal["start", "middle", "end"]
Points = Sequence[tuple[float, float]]
Paint = Callable[[str], str]  # from a palette name to an SVG colour
FONT = "Source Sans 3, system-ui, Segoe UI, Noto Sans, DejaVu Sans, sans-serif"
INCH = 96  # pixels
POINT = 72 / INCH
SETTINGS: dict[Any, Any] = {  # for matplotlib
    "font.family": "sans-serif",
    "text.parse_math": False,  # text between dollar signs is not a formula
}
_LIGHT = THEMES["light"]


@dataclass(frozen=True)
class TextMark:
    """One line of text."""

    x: float
    y: float  # baseline
    text: str
    size: float = SIZE
    colour: str = "ink"
    anchor: Anchor = "start"
    turn: float = 0.0  # rotation in degrees, counterclockwise


@dataclass(frozen=True)
class Box:
    """A rectangle, filled or framed."""

    x: float
    y: float
    width: float
    height: float
    fill: str = ""  # empty: not filled
    stroke: str = ""


@dataclass(frozen=True)
class Line:
    """A line through several points."""

    points: Points
    colour: str = "line"
    width: float = 1.0
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Cells:
    """A table of coloured cells; cells without a colour are hatched."""

    x: float
    y: float
    width: float  # width of a cell
    height: float
    colours: Sequence[Sequence[str]]


Mark = TextMark | Box | Line | Cells


@dataclass
class Drawing:
    """A sheet with its marks: texts, boxes, lines and tables of cells."""

    title: str
    width: float = 0.0
    height: float = 0.0
    marks: list[Mark] = field(default_factory=list)

    def add(self, *marks: Mark) -> None:
        self.marks += marks

    def paragraph(
        self, x: float, y: float, text: str, width: float, size: float = SIZE, colour: str = "ink"
    ) -> float:
        """Add a wrapped text from y down; return the y below it."""
        for line in lines(text, width, size):
            y += 1.3 * size
            self.add(TextMark(x, y - 0.35 * size, line, size, colour))
        return y


def lines(text: str, width: float, size: float = SIZE) -> list[str]:
    """Break a text into lines between words."""
    columns = max(8, int(width / (0.58 * size)))
    return wrap(printable(text), columns)


def printable(text: str) -> str:
    """Replace unprintable characters, which XML does not allow, with ␣."""
    return "".join(sign if sign.isprintable() else "␣" for sign in text)


def text_width(text: str, size: float = SIZE) -> float:
    """The approximate width of a text in a wide font, so that it fits in other fonts too."""
    return size * sum(map(_width, text))


def _width(sign: str) -> float:
    if unicodedata.combining(sign):
        return 0.0
    if unicodedata.east_asian_width(sign) in "WF":
        return 1.0
    if sign in "iljItf.,:;'|!()[] ":
        return 0.38
    return 0.9 if sign in "mwMW@%" else 0.7 if sign.isupper() else 0.62


# ---- SVG ----


def svg(drawing: Drawing, *, themed: bool = False, style: str = "") -> str:
    """The drawing as SVG. themed: use the colours of the surrounding page instead of the light
    theme on a white background."""
    paint = _variable if themed else THEMES["light"].__getitem__
    ground = "" if themed else '<rect width="100%" height="100%" fill="#ffffff"/>'
    wide, high = _number(drawing.width), _number(drawing.height)
    styled = f' style="{escape(style)}"' if style else ""
    named = "" if themed else ' xmlns="http://www.w3.org/2000/svg"'  # not needed inside HTML
    return (
        f'<svg{named} role="img" '
        f'aria-label="{escape(printable(drawing.title))}" '
        f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"{styled} '
        f'preserveAspectRatio="xMinYMin" font-family="{FONT}" font-size="{_number(SIZE)}">{ground}'
        + "".join(_mark(mark, paint) for mark in drawing.marks)
        + "</svg>"
    )


def _variable(name: str) -> str:
    return f"var(--{name})"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _mark(mark: Mark, paint: Paint) -> str:
    match mark:
        case TextMark():
            return _text(mark, paint)
        case Box():
            fill = paint(mark.fill) if mark.fill else "none"
            framed = f' stroke="{paint(mark.stroke)}" stroke-width="2"' if mark.stroke else ""
            return (
                f'<rect x="{_number(mark.x)}" y="{_number(mark.y)}" '
                f'width="{_number(mark.width)}" height="{_number(mark.height)}" '
                f'fill="{fill}"{framed}/>'
            )
        case Line():
            points = " ".join(f"{_number(x)},{_number(y)}" for x, y in mark.points)
            dashes = " ".join(map(_number, mark.dashes))
            dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
            return (
                f'<polyline points="{points}" fill="none" stroke="{paint(mark.colour)}" '
                f'stroke-width="{_number(mark.width)}" stroke-linejoin="round"{dashed}/>'
            )
        case Cells():
            return _cells(mark, paint)


def _text(mark: TextMark, paint: Paint) -> str:
    place = f'x="{_number(mark.x)}" y="{_number(mark.y)}"'
    if mark.turn:
        moved = f"translate({_number(mark.x)} {_number(mark.y)})"
        place = f'transform="{moved} rotate({_number(-mark.turn)})"'
    size = f' font-size="{_number(mark.size)}"' if mark.size != SIZE else ""
    anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    filled = f'fill="{paint(mark.colour)}"'
    return f"<text {place} {filled}{size}{anchor}>{escape(printable(mark.text))}</text>"


def _cells(mark: Cells, paint: Paint) -> str:
    """SVG for a table of cells; cells without a colour are hatched. Each colour is one path, and
    adjacent cells are one thick stroke, so that 64 by 64 cells need only 40 kB."""
    paths: dict[str, str] = {}
    for row, line in enumerate(mark.colours):
        column = 0
        for name, group in groupby(line):
            places = range(column, column := column + len(list(group)))
            strokes = [f"M{places.start} {row}h{len(places)}"]
            if not name:
                strokes = [f"M{place} {row}.5l1-1" for place in places]
            paths[name] = paths.get(name, "") + "".join(strokes)
    hatched = paths.pop("", "")
    moved = f"translate({_number(mark.x)} {_number(mark.y + mark.height / 2)})"
    scaled = f"scale({_number(mark.width)} {_number(mark.height)})"
    drawn = "".join(f'<path stroke="{paint(name)}" d="{d}"/>' for name, d in paths.items())
    whole = f'<g transform="{moved} {scaled}"><g shape-rendering="crispEdges">{drawn}</g>'
    if hatched:
        whole += (
            f'<path stroke="{paint("line")}" vector-effect="non-scaling-stroke" d="{hatched}"/>'
        )
    return f"{whole}</g>"


# ---- PNG and PDF, with matplotlib, which is slow to load ----


def matplotlib_bytes(drawing: Drawing, ending: str, dpi: int) -> bytes:
    """The drawing as PNG or PDF; the same drawing gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    dated = {"pdf": {"CreationDate": None}}.get(ending)
    with rc_context(SETTINGS), warnings.catch_warnings():
        # A character that the font lacks, such as an emoji, is drawn as a box.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        sheet = Figure(figsize=(drawing.width / INCH, drawing.height / INCH))
        axes = sheet.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
        axes.set_axis_off()
        for mark in drawing.marks:
            _put(axes, mark)
        sheet.savefig(buffer, format=ending, metadata=dated, dpi=dpi)
    return buffer.getvalue()


def _put(axes: Any, mark: Mark) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    match mark:
        case TextMark():
            sides = {"start": "left", "middle": "center", "end": "right"}
            axes.text(
                mark.x, mark.y, printable(mark.text), fontsize=mark.size * POINT,
                color=_LIGHT[mark.colour], ha=sides[mark.anchor], va="baseline",
                rotation=mark.turn, rotation_mode="anchor",
            )  # fmt: skip
        case Box():
            axes.add_patch(Rectangle(
                (mark.x, mark.y), mark.width, mark.height, linewidth=2 * POINT,
                facecolor=_LIGHT[mark.fill] if mark.fill else "none",
                edgecolor=_LIGHT[mark.stroke] if mark.stroke else "none",
            ))  # fmt: skip
        case Line():
            dashes: Any = (0, [length * POINT for length in mark.dashes]) if mark.dashes else "-"
            x, y = zip(*mark.points, strict=True)
            axes.add_line(Line2D(x, y, color=_LIGHT[mark.colour], linewidth=mark.width * POINT,
                                 linestyle=dashes))  # fmt: skip
        case Cells():
            rows, columns = len(mark.colours), len(mark.colours[0])
            values = np.array([[_bytes(name) for name in line] for line in mark.colours], np.uint8)
            right, below = mark.x + columns * mark.width, mark.y + rows * mark.height
            axes.imshow(values, extent=(mark.x, right, below, mark.y), interpolation="nearest",
                        aspect="auto")  # fmt: skip
            _hatch(axes, mark)


def _hatch(axes: Any, mark: Cells) -> None:
    """Draw a stroke through every cell without a colour."""
    for row, line in enumerate(mark.colours):
        for column, name in enumerate(line):
            if not name:
                x, y = mark.x + column * mark.width, mark.y + row * mark.height
                ends = (x, x + mark.width), (y + mark.height, y)
                axes.plot(*ends, color=_LIGHT["line"], linewidth=POINT)


def _bytes(name: str) -> tuple[int, ...]:
    """The red, green, blue and alpha values of a colour."""
    if not name:
        return (255, 255, 255, 0)
    return (*(int(_LIGHT[name][i : i + 2], 16) for i in (1, 3, 5)), 255)
