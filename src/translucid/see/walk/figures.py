"""The pictures of a walk's page: from its rows where they say it all, else from the trace."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from translucid.see.of_points import MOST, numbers
from translucid.see.pictures import Axis, Bars, Heat, Lines, Picture
from translucid.see.reading import Reading
from translucid.see.walk.data import Stage, Walk

FIRST = 32  # numbers of a vector


def figures(reading: Reading, walk: Walk) -> dict[int, tuple[Picture, ...]]:
    """What to draw at which stage, counted from 0."""
    found = {place: _of(reading, stage) for place, stage in enumerate(walk.stages)}
    for chapter in dict.fromkeys(stage.chapter for stage in walk.stages):
        places = [
            place
            for place, stage in enumerate(walk.stages)
            if stage.chapter == chapter and stage.added
        ]
        if places:
            found[places[-1]].append(_stream([walk.stages[place] for place in places]))
    return {place: tuple(pictures) for place, pictures in found.items() if pictures}


def _of(reading: Reading, stage: Stage) -> list[Picture]:
    match stage.kind:
        case "links":
            heads = {row.head for row in stage.rows}
            head = heads.pop() if len(heads) == 1 else None
            title = "How much each token (row) takes from each token (column)"
            title += "" if stage.heads < 2 else ", each head" if head is None else f", head {head}"
            picture = reading.figure(stage.address, head=head)
            return [replace(picture, title=title)]
        case "gates":
            return [_gates(stage)]
        case "choices":
            return [_choices(stage)]
        case "vectors" if len(stage.rows) > 1:
            return [_vectors(reading, stage)]
        case _:
            return []


def _cut(count: int) -> str:
    return f"the first {MOST} of {count} tokens" if count > MOST else ""


def _vectors(reading: Reading, stage: Stage) -> Heat:
    shown = reading[stage.address][0, :MOST, :FIRST]
    count = stage.shape[-1]
    notes = [_cut(len(stage.rows)), f"the first {FIRST} of {count} numbers" * (count > FIRST)]
    return Heat("The numbers of each token", numbers(shown),
                Axis("", tuple(row.label for row in stage.rows[:MOST])),
                Axis("", tuple(map(str, range(shown.shape[-1])))),
                note="; ".join(filter(None, notes)), address=stage.address)  # fmt: skip


def _gates(stage: Stage) -> Lines:
    rows = stage.rows[:MOST]
    series = {
        cell.label: np.array([row.cells[place].value for row in rows])
        for place, cell in enumerate(rows[0].cells)
    }
    return Lines("How open the gates are at each token", Axis("", tuple(r.label for r in rows)),
                 "mean over all units", series, note=_cut(len(stage.rows)))  # fmt: skip


def _choices(stage: Stage) -> Heat | Bars:
    """At each step the likeliest answers; of a single step, bars."""
    rows = stage.rows[:MOST]
    if len(rows) == 1:
        cells = rows[0].cells
        marked = tuple(place for place, cell in enumerate(cells) if cell.chosen)
        return Bars("The likeliest answers", "probability", tuple(c.label for c in cells),
                    np.array([c.value for c in cells]), marked=marked)  # fmt: skip
    most = max(len(row.cells) for row in rows)
    values = np.full((len(rows), most), np.nan)
    texts = [["" for _ in range(most)] for _ in rows]
    for line, row in enumerate(rows):
        for column, cell in enumerate(row.cells):
            values[line, column] = cell.value
            texts[line][column] = f"{cell.label} {cell.value:.2f}"
    chosen = tuple((line, column) for line, row in enumerate(rows)
                   for column, cell in enumerate(row.cells) if cell.chosen)  # fmt: skip
    return Heat(
        "At each step the likeliest, best first; what was chosen is framed", values,
        Axis("after", tuple(row.label for row in rows)),
        Axis("", tuple(f"{n + 1}." for n in range(most))), "unit", frames=chosen,
        texts=tuple(map(tuple, texts)), note=_cut(len(stage.rows)), address=stage.address,
    )  # fmt: skip


def _stream(stages: Sequence[Stage]) -> Heat:
    """What each part adds to each token."""
    labels = tuple(cell.label for cell in stages[0].added[:MOST])
    values = np.array([[cell.value for cell in stage.added[:MOST]] for stage in stages]).T
    parts = tuple(stage.title.partition(" ")[2] for stage in stages)
    return Heat("How much each part adds to each token, as a share of its vector", values,
                Axis("", labels), Axis("", parts), "positive",
                note=_cut(len(stages[0].added)))  # fmt: skip
