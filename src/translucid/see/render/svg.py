"""A drawing as SVG: the same drawing is the same bytes, and its texts can be searched."""

from collections.abc import Callable
from itertools import groupby

from translucid.see.render.drawing import SIZE, Box, Cells, Drawing, Line, Text, printable
from translucid.see.render.frame import escape
from translucid.see.render.palette import THEMES

FONT = "Source Sans 3, system-ui, Segoe UI, Noto Sans, DejaVu Sans, sans-serif"
Paint = Callable[[str], str]  # from a name of the palette to what SVG reads


def svg(drawing: Drawing, *, themed: bool = False, style: str = "") -> str:
    """themed: within a frame of ours, whose colours it follows; else dark on a white ground."""
    paint = _variable if themed else THEMES["light"].__getitem__
    ground = "" if themed else '<rect width="100%" height="100%" fill="#ffffff"/>'
    wide, high = _number(drawing.width), _number(drawing.height)
    styled = f' style="{escape(style)}"' if style else ""
    named = "" if themed else ' xmlns="http://www.w3.org/2000/svg"'  # HTML knows what SVG is
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


def _mark(mark: Text | Box | Line | Cells, paint: Paint) -> str:
    match mark:
        case Text():
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


def _text(mark: Text, paint: Paint) -> str:
    place = f'x="{_number(mark.x)}" y="{_number(mark.y)}"'
    if mark.turn:
        moved = f"translate({_number(mark.x)} {_number(mark.y)})"
        place = f'transform="{moved} rotate({_number(-mark.turn)})"'
    size = f' font-size="{_number(mark.size)}"' if mark.size != SIZE else ""
    anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    filled = f'fill="{paint(mark.colour)}"'
    return f"<text {place} {filled}{size}{anchor}>{escape(printable(mark.text))}</text>"


def _cells(mark: Cells, paint: Paint) -> str:
    """A path for each colour, a thick stroke for neighbours of one: of 64 tokens by 64, 40 kB.
    Cells without a colour are hatched."""
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
