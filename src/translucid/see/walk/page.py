"""A walk as HTML: words, tables and pictures, one card for each stage."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from translucid.see.pictures import Grid, Picture
from translucid.see.render.frame import escape, folded, page, table
from translucid.see.walk.data import NOTHING, Stage, Walk, shortened, sized
from translucid.tasks.choices import nth
from translucid.tasks.outputs import Cell, OutputRow

MOST = 64  # rows of a table
CHIPS = 24  # tokens in a row, before they are folded
ADDED = "How long what is added is; 1 is as long as the token's own vector:"
CHOSEN = ' class="chosen"'
READ = (
    "Below is what it computed for this text, in its order, from the text to the answer. Beside "
    "each title stands where the values are: in Python, model.trace(text)[name]."
)


def as_page(walk: Walk, figures: Mapping[int, Sequence[Picture]]) -> str:
    """The whole page. figures: what is drawn at which stage, counted from 0."""
    return page(headline(walk), body(walk, figures), lead=f"{walk.introduction} {READ}")


def headline(walk: Walk) -> str:
    """From what to what, without the middle of long texts."""
    return f"{shortened(walk.text)} → {shortened(walk.answer or NOTHING)}"


def body(walk: Walk, figures: Mapping[int, Sequence[Picture]]) -> str:
    """Contents, then chapter after chapter."""
    whole = f"{walk.text.strip()} → {walk.answer or NOTHING}"
    numbered = list(enumerate(walk.stages))
    chapters = [(name, list(part)) for name, part in groupby(numbered, lambda n: n[1].chapter)]
    contents = "".join(_contents(name, part) for name, part in chapters)
    explained: set[str] = set()
    return "\n".join(
        [
            folded("The whole text", f"<p>{escape(whole)}</p>" * (whole != headline(walk))),
            f'<p class="happened">{escape(walk.warning)}</p>' if walk.warning else "",
            *(f'<p class="pale">{escape(note)}</p>' for note in walk.notes),
            f'<nav class="contents" aria-label="Contents">{contents}</nav>',
            *(
                f'<h2 class="chapter">{escape(name)}</h2>'
                + "\n".join(_stage(n, stage, figures.get(n, ()), explained) for n, stage in part)
                for name, part in chapters
            ),
        ]
    )


def _contents(chapter: str, part: Sequence[tuple[int, Stage]]) -> str:
    items = "".join(f'<li><a href="#s{n}">{escape(stage.title)}</a></li>' for n, stage in part)
    return f'<section><b>{escape(chapter)}</b><ol start="{part[0][0] + 1}">{items}</ol></section>'


def _stage(place: int, stage: Stage, figures: Sequence[Picture], explained: set[str]) -> str:
    """One stop; what a part is, is `explained` once."""
    shape = sized(stage.shape, stage.axes)
    where = f"<code>{escape(stage.address)}</code> ({shape})" if stage.address else ""
    chips = _chips(stage)
    whole = [figure.figure() for figure in figures if not isinstance(figure, Grid)]
    heads = [figure.figure() for figure in figures if isinstance(figure, Grid)]
    parts = [
        f'<article class="card" id="s{place}"><h3>{place + 1}. {escape(stage.title)}</h3>',
        f'<p class="pale">{where}</p>' if where else "",
        _once(stage.sentence, "<p>{}</p>", explained),
        _once(stage.meaning, '<p class="pale">Here: {}.</p>', explained),
        chips,
        *(f"<p>{escape(line)}</p>" for line in stage.worked),
        f'<p class="happened">{escape(stage.happened)}</p>' if stage.happened else "",
        *whole,
        folded("Each head by itself", "".join(heads)),
        "" if chips else folded("The values", "".join(_tables(stage))),
        folded("Everything in this part", _points(stage)),
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def _once(text: str, frame: str, explained: set[str]) -> str:
    if not text or text in explained:
        return ""
    explained.add(text)
    return frame.format(escape(text))


def _chips(stage: Stage) -> str:
    """One number for each token, in a row as the tokens stand in the text."""
    if stage.kind not in ("tokens", "values", "sizes") or not (stage.rows or stage.added):
        return ""
    rows = stage.rows or tuple(OutputRow(cell.label, (cell,)) for cell in stage.added)
    chips = [
        f"<span><b>{escape(row.label)}</b> "
        + " ".join(_chip_number(cell, stage.kind) for cell in row.cells)
        + (f" <small>{escape(row.remark)}</small>" if row.remark else "")
        + "</span>"
        for row in rows[:MOST]
    ]
    above = "" if stage.rows else f'<p class="pale">{ADDED}</p>'
    first, others = (f'<p class="chips">{" ".join(part)}</p>' * bool(part)
                     for part in (chips[:CHIPS], chips[CHIPS:]))  # fmt: skip
    more = others + _left_out(len(rows))
    return f"{above}{first}{folded(f'{len(rows) - CHIPS} more', more)}"


def _chip_number(cell: Cell, kind: str) -> str:
    number = f"{cell.value:.0f}" if kind == "tokens" else f"{cell.value:.6g}"
    if kind == "sizes":
        number = f"{cell.value:.2f}"
    return f"{number} <small>wanted</small>" if cell.wanted else number


def _tables(stage: Stage) -> Iterator[str]:
    """The rows of a stage, and what it adds."""
    yield _table(stage.rows)
    if stage.added:
        yield f"<p>{ADDED}</p>"
        yield _table([OutputRow(cell.label, (Cell("", cell.value),)) for cell in stage.added])


def _table(rows: Sequence[OutputRow]) -> str:
    lines = "".join(map(_line, rows[:MOST]))
    whole = f'<div class="wide"><table>{lines}</table></div>'
    return f"{whole}{_left_out(len(rows))}" if rows else ""


def _left_out(count: int) -> str:
    return f'<p class="pale">The first {MOST} of {count} are shown.</p>' * (count > MOST)


def _line(row: OutputRow) -> str:
    head = "" if row.head is None else f" <small>head {row.head}</small>"
    remark = f" <small>{escape(row.remark)}</small>" if row.remark else ""
    cells = "".join(
        f"<td{CHOSEN * cell.chosen}>"
        f"{_ranked(cell, place)}{escape(cell.label)} {_in_table(cell)}"
        f"{' <small>wanted</small>' if cell.wanted else ''}</td>"
        for place, cell in enumerate(row.cells, start=1)
    )
    return f'<tr><th scope="row">{escape(row.label)}{head}{remark}</th>{cells}</tr>'


def _ranked(cell: Cell, place: int) -> str:
    """The rank of an answer that does not stand in its place."""
    return f"<small>{nth(cell.rank)}:</small> " if cell.rank > place else ""


def _in_table(cell: Cell) -> str:
    return f"{cell.value:.1%}" if cell.rank else f"{cell.value:.4g}"


def _points(stage: Stage) -> str:
    rows = [
        (
            f"<code>{escape(point.address)}</code>",
            " × ".join(map(str, point.shape)) or "one number",
            escape(point.meaning),
        )
        for point in stage.points
    ]
    return table((), rows) if rows else ""
