"""The pictures of a walk's page: from its rows where they say it all, else from the trace."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from translucid.see.of_points import numbers
from translucid.see.picture_data import Axis
from translucid.see.pictures import Bars, Grid, Heat, Picture
from translucid.see.reading import Reading
from translucid.see.walk.data import Stage, Walk
from translucid.tasks.choices import nth
from translucid.tasks.outputs import Cell

FIRST = 32  # values of a vector
MOST = 32  # tokens on a side: so many labels can still be read on a page
TWO_COLUMNS = 16  # tokens of which two tables stand side by side
TOGETHER = 12  # tables of one drawing
MEANS = "means over all units"
LEAST = 0.001  # a probability below is not written


def figures(
    reading: Reading, walk: Walk, gold: Sequence[tuple[int, int]] = ()
) -> dict[int, tuple[Picture, ...]]:
    """What to draw at which stage, counted from 0. gold: known (source, target) pairs of tokens, to
    frame where the source is looked at."""
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
    return f"{where}the first {MOST} of {count} tokens" if count > MOST else ""


def _links(reading: Reading, stage: Stage, gold: Sequence[tuple[int, int]]) -> list[Picture]:
    """One table: of the head that was asked for, or of their mean; then the heads."""
    pairs = [pair for pair in gold if max(pair) < MOST]
    title = "How much each step (row: read → about to be written) takes from the source"
    if "self_attention" in stage.address:
        pairs, title = [], "How much each token (row) takes from each token (column)"
    queries, keys = stage.shape[-2:]
    framed = "framed: the gold alignment" * bool(pairs)
    note = "; ".join(filter(None, [framed, _cut(queries, "rows: "), _cut(keys, "columns: ")]))
    asked = {row.head for row in stage.rows}
    head = asked.pop() if len(asked) == 1 else None
    whole = reading.figure(
        stage.address, head="mean" if head is None else head, tokens=(0, MOST), gold=pairs
    )
    assert isinstance(whole, Heat)
    which = "mean of all heads" if head is None else f"head {head}"
    drawn: list[Picture] = [
        replace(whole, title=title if stage.heads < 2 else f"{title}, {which}", note=note)
    ]
    if head is None and stage.heads > 1:
        grid = reading.figure(stage.address, tokens=(0, MOST), gold=pairs)
        assert isinstance(grid, Grid)
        columns = 2 if max(queries, keys) <= TWO_COLUMNS else 1
        for first in range(0, len(grid.heats), TOGETHER):
            heats = grid.heats[first : first + TOGETHER]
            drawn.append(Grid(f"{title}, each head", heats, columns, note))
    return drawn


def _vectors(reading: Reading, stage: Stage) -> Heat:
    shown = reading[stage.address][0, :MOST, :FIRST]
    count = stage.shape[-1]
    notes = [_cut(len(stage.rows)), f"the first {FIRST} of {count} values" * (count > FIRST)]
    return Heat("The values of each token's vector", numbers(shown),
                Axis("", tuple(row.label for row in stage.rows[:MOST])),
                Axis("", tuple(map(str, range(shown.shape[-1])))),
                note="; ".join(filter(None, notes)), address=stage.address)  # fmt: skip


def _gates(stage: Stage) -> Heat:
    rows = stage.rows[:MOST]
    values = np.array([[cell.value for cell in row.cells] for row in rows]).T
    return Heat("How open the gates are at each token: 0 is closed, 1 is open", values,
                Axis("", tuple(cell.label for cell in rows[0].cells)),
                Axis("", tuple(row.label for row in rows)), "unit",
                texts=tuple(tuple(f"{value:.2f}" for value in line) for line in values),
                note="; ".join(filter(None, [MEANS, _cut(len(stage.rows))])))  # fmt: skip


def _choices(stage: Stage) -> Heat | Bars:
    """At each step the likeliest answers; of a single step, bars."""
    rows = stage.rows[:MOST]
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
        f"At each step the likeliest, best first; {what} is framed", values,
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
    """Beyond the columns of the ranks, a cell tells its own."""
    text = f"{cell.label} {cell.value:.1%}{' (wanted)' if cell.wanted else ''}"
    return text if cell.rank <= ranked else f"{nth(cell.rank)}: {text}"


def _stream(stages: Sequence[Stage]) -> Heat:
    """What each part adds to each token."""
    labels = tuple(cell.label for cell in stages[0].added[:MOST])
    values = np.array([[cell.value for cell in stage.added[:MOST]] for stage in stages]).T
    parts = tuple(stage.title.partition(" ")[2] for stage in stages)
    title = "How long what each part adds to each token is; 1 is as long as its own vector"
    return Heat(title, values,
                Axis("", labels), Axis("", parts), "positive",
                note=_cut(len(stages[0].added)))  # fmt: skip
