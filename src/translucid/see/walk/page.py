"""A walk as one HTML file that loads nothing: words, tables and pictures."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from translucid.see.pictures import Grid, Picture
from translucid.see.walk.data import NOTHING, Stage, Walk, shortened, sized
from translucid.tasks.choices import nth
from translucid.tasks.outputs import Cell, Row

MOST = 64  # rows of a table
CHIPS = 24  # tokens in a row, before they are folded
ADDED = "How long what is added is; 1 is as long as the token's own vector:"


def as_page(walk: Walk, figures: Mapping[int, Sequence[Picture]]) -> str:
    """The whole page. figures: what is drawn at which stage, counted from 0."""
    answer = walk.answer or NOTHING
    title = f"{shortened(walk.text)} → {shortened(answer)}"
    whole = f"{walk.text.strip()} → {answer}"
    numbered = list(enumerate(walk.stages))
    chapters = [(name, list(part)) for name, part in groupby(numbered, lambda n: n[1].chapter)]
    contents = "".join(_contents(name, part) for name, part in chapters)
    told: set[str] = set()
    body = "\n".join(
        f"<h2>{_escape(name)}</h2>"
        + "\n".join(_stage(n, stage, figures.get(n, ()), told) for n, stage in part)
        for name, part in chapters
    )
    notes = "".join(f"<p class=note>{_escape(note)}</p>" for note in walk.notes)
    return (
        _HEAD.replace("TITLE", _escape(title))
        + f"<h1>{_escape(title)}</h1>"
        + _folded("The whole text", f"<p>{_escape(whole)}</p>" * (whole != title))
        + f"<p>{_escape(walk.introduction)} {_escape(READ)}</p>{notes}"
        + f"<nav aria-label='Contents'>{contents}</nav><main>\n{body}\n</main></body></html>\n"
    )


READ = (
    "Below is what it computed for this text, in its order, from the text to the answer. Beside "
    "each title stands where the numbers are: in Python, model.trace(text)[name]."
)


def _escape(text: str) -> str:
    return html.escape(text)


def _contents(chapter: str, part: Sequence[tuple[int, Stage]]) -> str:
    items = "".join(f"<li><a href='#s{n}'>{_escape(stage.title)}</a></li>" for n, stage in part)
    return f"<section><b>{_escape(chapter)}</b><ol start={part[0][0] + 1}>{items}</ol></section>"


def _stage(place: int, stage: Stage, figures: Sequence[Picture], told: set[str]) -> str:
    """One stop; what a part is, is `told` once."""
    shape = sized(stage.shape, stage.axes)
    where = f"<code>{_escape(stage.address)}</code> ({shape})" if stage.address else ""
    chips = _chips(stage)
    parts = [
        f"<article id='s{place}'><h3>{place + 1}. {_escape(stage.title)}</h3>",
        f"<p class=note>{where}</p>" if where else "",
        _once(stage.sentence, "<p>{}</p>", told),
        _once(stage.meaning, "<p class=note>Here: {}.</p>", told),
        chips,
        f"<p class=found>{_escape(stage.happened)}</p>" if stage.happened else "",
        *(
            _drawn(f"f{place}-{n}-", figure)
            for n, figure in enumerate(figures)
            if not isinstance(figure, Grid)
        ),
        _folded(
            "Each head by itself",
            "".join(
                _drawn(f"f{place}-{n}-", figure)
                for n, figure in enumerate(figures)
                if isinstance(figure, Grid)
            ),
        ),
        "" if chips else _folded("The numbers", "".join(_table(stage))),
        _folded("Everything in this part", _points(stage)),
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def _once(text: str, frame: str, told: set[str]) -> str:
    if not text or text in told:
        return ""
    told.add(text)
    return frame.format(_escape(text))


def _chips(stage: Stage) -> str:
    """One number for each token, in a row as the tokens stand in the text."""
    if stage.kind not in ("tokens", "values", "sizes") or not (stage.rows or stage.added):
        return ""
    rows = stage.rows or tuple(Row(cell.label, (cell,)) for cell in stage.added)
    chips = [
        f"<span><b>{_escape(row.label)}</b> "
        + " ".join(_chip_number(cell, stage.kind) for cell in row.cells)
        + (f" <small>{_escape(row.remark)}</small>" if row.remark else "")
        + "</span>"
        for row in rows[:MOST]
    ]
    above = "" if stage.rows else f"<p class=note>{ADDED}</p>"
    first, others = chips[:CHIPS], chips[CHIPS:]
    folded = f"<p class=chips>{' '.join(others)}</p>{_left_out(len(rows))}" if others else ""
    more = _folded(f"{len(rows) - CHIPS} more", folded)
    return f"{above}<p class=chips>{' '.join(first)}</p>{more}"


def _chip_number(cell: Cell, kind: str) -> str:
    number = f"{cell.value:.0f}" if kind == "tokens" else f"{cell.value:.6g}"
    if kind == "sizes":
        number = f"{cell.value:.2f}"
    return f"{number} <small>wanted</small>" if cell.wanted else number


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{title}</summary>{inside}</details>" if inside else ""


def _drawn(prefix: str, picture: Picture) -> str:
    """A picture within the page: its own names for its parts, and a name for those who listen."""
    drawn = picture.svg()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' xmlns(:\w+)?="[^"]*"', "", drawn)  # HTML knows them
    drawn = re.sub(r'\bid="', f'id="{prefix}', drawn)
    drawn = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", drawn)
    said = _escape(picture.title)
    drawn = drawn.replace("<svg", f'<svg role="img" aria-label="{said}"', 1)
    return f"<figure>{drawn}</figure>"


def _table(stage: Stage) -> Iterator[str]:
    """The rows of a stage, and what it adds."""
    if stage.rows:
        lines = "".join(_line(row) for row in stage.rows[:MOST])
        yield f"<table>{lines}</table>"
        yield _left_out(len(stage.rows))
    if stage.added:
        yield f"<p>{ADDED}</p>"
        lines = "".join(
            _line(Row(cell.label, (Cell("", cell.value),))) for cell in stage.added[:MOST]
        )
        yield f"<table>{lines}</table>"
        yield _left_out(len(stage.added))


def _left_out(count: int) -> str:
    return f"<p class=note>The first {MOST} of {count} are shown.</p>" * (count > MOST)


def _line(row: Row) -> str:
    head = "" if row.head is None else f" <small>head {row.head}</small>"
    remark = f" <small>{_escape(row.remark)}</small>" if row.remark else ""
    cells = "".join(
        f"<td{' class=chosen' if cell.chosen else ''}>"
        f"{_ranked(cell, place)}{_escape(cell.label)} {_in_table(cell)}"
        f"{' <small>wanted</small>' if cell.wanted else ''}</td>"
        for place, cell in enumerate(row.cells, start=1)
    )
    return f"<tr><th scope=row>{_escape(row.label)}{head}{remark}</th>{cells}</tr>"


def _ranked(cell: Cell, place: int) -> str:
    """The rank of an answer that does not stand in its place."""
    return f"<small>{nth(cell.rank)}:</small> " if cell.rank > place else ""


def _in_table(cell: Cell) -> str:
    return f"{cell.value:.1%}" if cell.rank else f"{cell.value:.4g}"


def _points(stage: Stage) -> str:
    rows = "".join(
        f"<tr><td><code>{_escape(point.address)}</code></td>"
        f"<td>{' × '.join(map(str, point.shape)) or 'one number'}</td>"
        f"<td>{_escape(point.meaning)}</td></tr>"
        for point in stage.points
    )
    return f"<table>{rows}</table>" if rows else ""


_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>TITLE</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --ink: #11201d; --pale: #5f6f6a; --edge: #d5deda; --page: #fff;
  --glass: #016f5f; --soft: #eef4f2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4ece9; --pale: #9db0aa; --edge: #32413c;
  --page: #121a18; --glass: #63c7b3; --soft: #1b2724; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--page); overflow-wrap: anywhere; }
h1, h2, h3 { font-weight: 600; line-height: 1.25; }
h2 { margin-top: 2.6rem; padding-bottom: .3rem; border-bottom: 2px solid var(--glass); }
h3 { margin: 2rem 0 .2rem; }
p { margin: .4rem 0; max-width: 56rem; }
a { color: var(--glass); }
nav { columns: 15rem; column-gap: 1.5rem; background: var(--soft); border-radius: .5rem;
  padding: 1rem 1.2rem; margin: 1.4rem 0; }
nav b { display: block; break-after: avoid; } nav li { break-inside: avoid; }
nav ol { margin: .2rem 0 .6rem; padding-left: 1.8rem; }
figure { margin: 1rem 0; width: fit-content; max-width: 100%; box-sizing: border-box;
  overflow-x: auto; background: #fff; border: 1px solid var(--edge);
  border-radius: .5rem; padding: .6rem; }
svg { display: block; max-width: 100%; height: auto; }
details { margin: .5rem 0; overflow-x: auto; } summary { cursor: pointer; color: var(--glass); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
td, th { padding: .15rem 1rem .15rem 0; text-align: left; font-weight: 400;
  border-bottom: 1px solid var(--edge); vertical-align: top; }
th { font-weight: 600; } .chosen { font-weight: 600; color: var(--glass); }
.note, small { color: var(--pale); font-size: .85rem; }
.chips span { display: inline-block; background: var(--soft); border-radius: .4rem;
  padding: .1rem .5rem; margin: .15rem .1rem; font-variant-numeric: tabular-nums; }
.found { border-left: 3px solid var(--glass); padding-left: .7rem; }
</style></head><body>
"""
