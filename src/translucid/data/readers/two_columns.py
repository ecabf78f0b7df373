"""Two columns whose names say nothing: which is which, as far as that can be told."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain, islice

from translucid.data.readers.dialect import LOOKED_AT
from translucid.data.readers.loading import Loading
from translucid.data.readers.standard_input import at_once
from translucid.data.readers.tables import Table, TableRule

Place = int | str


def of_two(
    table: Table,
    missing: Sequence[str],
    taken: Collection[Place],
    rule: TableRule,
    loading: Loading,
) -> tuple[Table, dict[str, Place]]:
    """The table, and where it has what is missing: in the column that is left; or, where the user
    says that line 1 is a header, in both."""
    free: list[Place] = [place for place in (0, 1) if place not in taken]
    if len(missing) == len(free) == 1:
        return table, {missing[0]: free[0]}
    if list(missing) == ["source", "target"] and rule.header:
        why = "first the source, then the target"
    elif list(missing) == ["label", "text"] and rule.header:
        table, free = _labels_first(table)
        why = "the one whose cells repeat is the label"
    else:
        return table, {}
    if not free:
        return table, {}
    keys = " and ".join(f"data.{role}_column" for role in missing)
    loading.notes.append(f"two columns whose names are not known: {why} ({keys} say it otherwise)")
    return table, dict(zip(missing, free, strict=True))


def _labels_first(table: Table) -> tuple[Table, list[Place]]:
    """The places of labels and of texts; none where cells of both columns repeat, or of neither."""
    rows = list(islice(at_once(table.file, table.rows), LOOKED_AT))
    columns = zip(*(row for _, row in rows if row), strict=True)
    repeats = [2 * len({*column}) <= len(column) for column in columns]
    table = replace(table, rows=chain(rows, table.rows))
    return table, [0, 1] if repeats == [True, False] else [1, 0] if repeats == [False, True] else []
