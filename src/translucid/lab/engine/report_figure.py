"""A picture on the page of the lab: SVG that follows the page's colours, and its numbers as a
table."""

import re
from collections.abc import Iterator

import numpy as np

from translucid.see import colours
from translucid.see.html import escape, table
from translucid.see.pictures import Bars, Grid, Heat, Lines, Picture

LETTERS = 1.3  # rem, at most: the size of a picture's letters
_TAG = re.compile(r"<[^>]*>")  # in text and in values > is written &gt;
_ID = re.compile(r' id="([^"]*)"')
_REFERENCE = re.compile(r"(?:href=\"#|url\(#)([^\")]+)")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
# The colours that lines and bars are drawn with, by the names that the page has for both themes.
_NAMED = {
    "#ffffff": "--pane",
    "#000000": "--ink",
    colours.INK: "--ink",
    colours.PALE: "--ink2",
    colours.EDGE: "--line",
    **{colour: f"--series{place}" for place, colour in enumerate(colours.LINES)},
}


def figure(picture: Picture, prefix: str) -> str:
    """As a part of the page. Tables of colours keep their own ground: the numbers in their cells
    were given colours to be read on it."""
    follows = isinstance(picture, Lines | Bars)
    svg = inline(picture.svg(), prefix, follows=follows)
    told = f'role="img" aria-label="{escape(picture.title)}" style="max-width: {_widest(svg)}rem"'
    svg = svg.replace("<svg ", f"<svg {told} ", 1)
    return f'<figure class="{"drawn" if follows else "paper"}">{svg}</figure>'


def _widest(svg: str) -> float:
    """Large letters for the last row of the room, but no larger than the claim above them."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    assert found is not None
    return round(float(found[1]) * LETTERS / 9, 1)  # 9: the size of most letters in a picture


def inline(svg: str, prefix: str, *, follows: bool) -> str:
    """Without what a file needs and a page does not; with names that no other picture has."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    wanted = set(_REFERENCE.findall(svg))

    def rewritten(found: re.Match[str]) -> str:
        tag = found.group()
        if tag.startswith("<svg"):
            tag = re.sub(r' (?:width|height)="[^"]*"', "", tag)
        tag = _ID.sub(
            lambda name: f' id="{prefix}-{name[1]}"' if name[1] in wanted else "", tag
        )  # fmt: skip
        tag = _REFERENCE.sub(lambda name: name[0].replace("#", f"#{prefix}-", 1), tag)
        if follows and tag.startswith(("<path", "<use", "<text", "<rect", "<g")):
            tag = _COLOUR.sub(_by_name, tag)
        return tag

    return _TAG.sub(rewritten, svg)


def _by_name(found: re.Match[str]) -> str:
    name = _NAMED.get(found.group().lower())
    return f"var({name})" if name else found.group()


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
            found = zip(picture.labels, picture.values, strict=True)
            yield _table(["", picture.x], [[label, number(value)] for label, value in found])
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
