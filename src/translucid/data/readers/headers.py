"""Columns whose names do not say what they hold: which of two holds the label, and whether line 1
is a header.

Both are decided by comparing cells. What cannot be decided is left to the user.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain, islice

from translucid.data.readers.cells import is_number
from translucid.data.readers.dialect import COMPARED, is_name, unlike_the_rest
from translucid.data.readers.loading import Loading
from translucid.data.readers.standard_input import at_once
from translucid.data.readers.tables import Table, TableRule

Place = int | str
Rows = Sequence[Sequence[object]]
UNSEEN_PROBABILITY = (
    0.1  # that the label of the first row occurs in no other, if that row were data
)
FEW = 0.05  # of the rows are as short as the first one, which may then be a header


def of_two(
    table: Table,
    missing: Sequence[str],
    taken: Collection[Place],
    rule: TableRule,
    loading: Loading,
) -> tuple[Table, dict[str, Place]]:
    """The table, and where it has what is missing: in the column that is left; or, of two that are
    left, by their cells."""
    free: list[Place] = [place for place in (0, 1) if place not in taken]
    if len(missing) == len(free) == 1:
        return table, {missing[0]: free[0]}
    if list(missing) == ["source", "target"] and (rule.header or not table.names):
        why = "the first is the source, the second the target"
    elif list(missing) == ["label", "text"]:
        rows = list(islice(at_once(table.file, table.rows), COMPARED))
        table = replace(table, rows=chain(rows, table.rows))
        label = label_place([row for _, row in rows if isinstance(row, Sequence) and row])
        if label is None:
            return table, {}
        free = [label, 1 - label]
        why = "the label is the one whose values repeat"
    else:
        return table, {}
    if table.names or missing[0] == "label":
        keys = " and ".join(f"data.{role}_column" for role in missing)
        loading.notes.append(f"two columns with no usual names: {why} (set {keys} to change it)")
    return table, dict(zip(missing, free, strict=True))


def label_place(rows: Rows) -> int | None:
    """Which of two columns holds labels: the one whose values repeat while those of the other do
    not, or the one with at most half as many values; or else the one with single words beside
    texts, or with numbers; None: in doubt."""
    columns = [[str(cell).strip() for cell in column] for column in zip(*rows, strict=False)]
    if len(columns) != 2:
        return None
    different = [len(set(column)) for column in columns]
    if len(rows) == 1:  # nothing to compare, nor to learn
        return 0
    often = [2 * count <= len(rows) for count in different]
    fewer = [2 * a <= b for a, b in (different, different[::-1])]
    words = [all(len(cell.split()) <= 1 and _may_be_a_name(cell) for cell in c) for c in columns]
    numbers = [all(map(is_number, column)) for column in columns]
    ever = [count < len(rows) for count in different]
    for signs in (often, fewer, words, numbers, ever):
        if signs.count(True) == 1:
            return signs.index(True)
    return None


def header_over_labels(first: Sequence[object], below: Rows, place: int | None) -> bool | None:
    """Whether a row is the header of a column of labels, at `place`; None: in doubt.

    A header's cell occurs nowhere below it, while labels repeat. How likely the label of a row of
    data would occur only once is estimated by how many of the others do (Good and Turing).
    """
    rows = [row for row in below if len(row) == len(first)]
    if unlike_the_rest(first, rows):
        return True
    cells = [str(cell).strip() for cell in first]
    if not rows or not all(map(_may_be_a_name, cells)) or any(map(is_number, cells)):
        return False
    columns = [[str(cell).strip() for cell in column] for column in zip(*rows, strict=True)]
    if any(cell in column for cell, column in zip(cells, columns, strict=True)):
        return False
    if place is not None:
        if not 0 <= place < len(columns) or all(map(is_number, columns[place])):
            return True  # a column that does not exist is refused with those that do
        once = sum(count == 1 for count in Counter(columns[place]).values())
        if (once + 1) / (len(rows) + 1) <= UNSEEN_PROBABILITY:
            return True
    return None if all(map(is_name, cells)) else False


def header_over_texts(first: Sequence[object], below: Rows) -> bool | None:
    """Whether a row is the header of columns of texts; None: in doubt, since it holds short names
    and only a few of the rows below are as short."""
    rows = [row for row in below if len(row) == len(first)]
    if unlike_the_rest(first, rows):
        return True
    cells = [str(cell).strip() for cell in first]
    if not rows or len(set(cells)) < len(cells) or not all(map(is_name, cells)):
        return False
    length = max(len(cell.split()) for cell in cells)
    short = sum(all(len(str(cell).split()) <= length + 1 for cell in row) for row in rows)
    return None if short < FEW * len(rows) else False


def _may_be_a_name(cell: str) -> bool:
    """A text is longer, or ends as sentences do."""
    return len(cell.split()) <= 3 and not cell.endswith((".", "!", "?", "…", "。"))
