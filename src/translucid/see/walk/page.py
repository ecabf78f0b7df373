"""A walk (step-by-step explanation) as HTML: text, tables and pictures, one card per stage."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from translucid.see.pictures import Axis, Bars, Grid, Heat, Picture
from translucid.see.reading import Reading
from translucid.see.render.frame import escape, folded, page, piece, table
from translucid.see.trace_pictures import numbers
from translucid.see.walk.walk import NOTHING, Stage, Walk, shortened, sized
from translucid.tasks.choices import nth
from translucid.tasks.outputs import Cell, OutputRow

MOST = 64  # maximum rows of a table
CHIPS = 24  # tokens to show before the rest is collapsed
ADDED = "Length of the vector added, relative to the token's own vector:"
CHOSEN = ' class="chosen"'
READ = (
    "This page shows what it computed for this text, in order, from the text to the answer. Use "
    "the name below each title to get the values in Python: model.trace(text)[name]."
)


def as_page(walk: Walk, figures: Mapping[int, Sequence[Picture]]) -> str:
    """The complete page. figures: pictures by stage number, from 0."""
    return page(headline(walk), body(walk, figures), lead=f"{walk.introduction} {READ}")


def headline(walk: Walk) -> str:
    """The text and the answer, both shortened."""
    return f"{shortened(walk.text)} → {shortened(walk.answer or NOTHING)}"


def body(walk: Walk, figures: Mapping[int, Sequence[Picture]]) -> str:
    """The table of contents and all chapters."""
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
    """The card of one stage; sentences in `explained` are not repeated."""
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
    """The values of each token side by side, for stages with few values per token."""
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
    """Tables of a stage's rows, and of what it adds to each token."""
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
    """The rank of an answer, if it differs from its position in the row."""
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


FIRST = 32  # number of vector values to show
TOKENS = 32  # maximum tokens along a side with readable labels
TWO_COLUMNS = 16  # with up to this many tokens, tables are placed in two columns
TOGETHER = 12  # maximum tables in one drawing
MEANS = "means over all units"
LEAST = 0.001  # smaller probabilities are not shown


def figures(
    reading: Reading, walk: Walk, gold: Sequence[tuple[int, int]] = ()
) -> dict[int, tuple[Picture, ...]]:
    """Draw the pictures of each stage, by stage number from 0. gold: known (source, target) token
    pairs, framed in cross-attention."""
    drawn = {place: _of(reading, stage, gold) for place, stage in enumerate(walk.stages)}
    for chapter in dict.fromkeys(stage.chapter for stage in walk.stages):
        places = [
            place
            for place, stage in enumerate(walk.stages)
            if stage.chapter == chapter and stage.added
        ]
        if places:
            drawn[places[-1]].append(_stream([walk.stages[place] for place in places]))
    return {place: tuple(pictures) for place, pictures in drawn.items() if pictures}


def _of(reading: Reading, stage: Stage, gold: Sequence[tuple[int, int]]) -> list[Picture]:
    match stage.kind:
        case "links":
            return _links(reading, stage, gold)
        case "gates":
            return [_gates(stage)]
        case "choices":
            return [_choices(stage)]
        case "vectors" if len(stage.rows) > 1:
            return [_vectors(reading, stage)]
        case _:
            return []


def _cut(count: int, where: str = "") -> str:
    return f"{where}the first {TOKENS} of {count} tokens" if count > TOKENS else ""


def _links(reading: Reading, stage: Stage, gold: Sequence[tuple[int, int]]) -> list[Picture]:
    """Attention tables: the chosen head or the mean, then each head."""
    pairs = [pair for pair in gold if max(pair) < TOKENS]
    title = "Attention of each step (row: read → about to be written) to the source"
    if "self_attention" in stage.address:
        pairs, title = [], "Attention of each token (row) to each token (column)"
    queries, keys = stage.shape[-2:]
    framed = "framed: the gold alignment" * bool(pairs)
    note = "; ".join(filter(None, [framed, _cut(queries, "rows: "), _cut(keys, "columns: ")]))
    asked = {row.head for row in stage.rows}
    head = asked.pop() if len(asked) == 1 else None
    whole = reading.figure(
        stage.address, head="mean" if head is None else head, tokens=(0, TOKENS), gold=pairs
    )
    assert isinstance(whole, Heat)
    which = "mean of all heads" if head is None else f"head {head}"
    drawn: list[Picture] = [
        replace(whole, title=title if stage.heads < 2 else f"{title}, {which}", note=note)
    ]
    if head is None and stage.heads > 1:
        grid = reading.figure(stage.address, tokens=(0, TOKENS), gold=pairs)
        assert isinstance(grid, Grid)
        columns = 2 if max(queries, keys) <= TWO_COLUMNS else 1
        for first in range(0, len(grid.heats), TOGETHER):
            heats = grid.heats[first : first + TOGETHER]
            drawn.append(Grid(f"{title}, each head", heats, columns, note))
    return drawn


def _vectors(reading: Reading, stage: Stage) -> Heat:
    shown = reading[stage.address][0, :TOKENS, :FIRST]
    count = stage.shape[-1]
    notes = [_cut(len(stage.rows)), f"the first {FIRST} of {count} values" * (count > FIRST)]
    return Heat("The values of each token's vector", numbers(shown),
                Axis("", tuple(row.label for row in stage.rows[:TOKENS])),
                Axis("", tuple(map(str, range(shown.shape[-1])))),
                note="; ".join(filter(None, notes)), address=stage.address)  # fmt: skip


def _gates(stage: Stage) -> Heat:
    rows = stage.rows[:TOKENS]
    values = np.array([[cell.value for cell in row.cells] for row in rows]).T
    return Heat("How open the gates are at each token: 0 is closed, 1 is open", values,
                Axis("", tuple(cell.label for cell in rows[0].cells)),
                Axis("", tuple(row.label for row in rows)), "unit",
                texts=tuple(tuple(f"{value:.2f}" for value in line) for line in values),
                note="; ".join(filter(None, [MEANS, _cut(len(stage.rows))])))  # fmt: skip


def _choices(stage: Stage) -> Heat | Bars:
    """The likeliest answers at each step; bars for a single step."""
    rows = stage.rows[:TOKENS]
    if len(rows) == 1:
        cells = rows[0].cells
        marked = tuple(place for place, cell in enumerate(cells) if cell.chosen)
        percent = np.round([100 * cell.value for cell in cells], 1)
        return Bars("The likeliest answers", "probability in %", tuple(c.label for c in cells),
                    percent, marked=marked)  # fmt: skip
    shown = [sorted(filter(_counts, row.cells), key=lambda cell: cell.rank) for row in rows]
    ranked = max(c.rank for line in shown for c in line if c.rank == 1 or not _marked(c))
    further = max(sum(cell.rank > ranked for cell in line) for line in shown)
    values = np.full((len(rows), ranked + further), np.nan)
    texts = [["" for _ in range(ranked + further)] for _ in rows]
    frames = []
    for number, line in enumerate(shown):
        late = ranked
        for cell in line:
            column = cell.rank - 1
            if cell.rank > ranked:
                column, late = late, late + 1
            values[number, column] = cell.value
            texts[number][column] = _choice(cell, ranked)
            if cell.chosen:
                frames.append((number, column))
    where = "in the text" if stage.came else "further down"
    what = "what came next" if stage.came else "what was chosen"
    return Heat(
        f"The likeliest answers at each step, best first; {what} is framed", values,
        Axis("after" if stage.came else "at", tuple(row.label for row in rows)),
        Axis("", (*(f"{rank}." for rank in range(1, ranked + 1)), *[where] * further)), "unit",
        frames=tuple(frames), texts=tuple(map(tuple, texts)), note=_cut(len(stage.rows)),
        address=stage.address,
    )  # fmt: skip


def _counts(cell: Cell) -> bool:
    return cell.rank == 1 or _marked(cell) or cell.value >= LEAST


def _marked(cell: Cell) -> bool:
    return cell.chosen or cell.wanted


def _choice(cell: Cell, ranked: int) -> str:
    """The text of a cell, with its rank if that is beyond the last column."""
    text = f"{cell.label} {cell.value:.1%}{' (wanted)' if cell.wanted else ''}"
    return text if cell.rank <= ranked else f"{nth(cell.rank)}: {text}"


def _stream(stages: Sequence[Stage]) -> Heat:
    """A table of the length of what each part adds to each token."""
    labels = tuple(cell.label for cell in stages[0].added[:TOKENS])
    values = np.array([[cell.value for cell in stage.added[:TOKENS]] for stage in stages]).T
    parts = tuple(stage.title.partition(" ")[2] for stage in stages)
    title = "Length of what each part adds to each token, relative to the token's own vector"
    return Heat(title, values,
                Axis("", labels), Axis("", parts), "positive",
                note=_cut(len(stages[0].added)))  # fmt: skip


@dataclass(frozen=True, repr=False)
class Explanation:
    """The output of `translucid explain`, to print or to display in a notebook."""

    reading: Reading
    walk: Walk

    def __str__(self) -> str:
        return str(self.walk)

    __repr__ = __str__  # so that the Python prompt shows the text too

    def html(self) -> str:
        """A complete HTML page with pictures."""
        return as_page(self.walk, figures(self.reading, self.walk))

    def as_dict(self) -> dict[str, Any]:
        """The explanation as a dictionary for JSON."""
        return self.walk.as_dict()

    def _repr_html_(self) -> str:
        return piece(body(self.walk, figures(self.reading, self.walk)))
