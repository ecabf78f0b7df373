"""Which columns of a table of numbers are inputs and which are targets."""

from collections.abc import Sequence
from pathlib import Path

from translucid.core.errors import InputError
from translucid.data.readers.cells import is_number
from translucid.data.readers.columns import open_table
from translucid.data.readers.loading import Loading
from translucid.data.readers.tables import Column, Table, TableRule

Places = list[int | str]


def open_numbers(
    path: str | Path,
    inputs: Sequence[Column] | None,
    targets: Sequence[Column] | None,
    rule: TableRule,
    loading: Loading,
    *,
    answered: bool = True,
) -> tuple[Table, Places, Places]:
    """The table, and where its rows have inputs and targets; none of those where it need not be
    `answered`. Not chosen, they are those of the training data of a model, if the table has them;
    else the last column is the target, and all others are inputs."""
    named = any(isinstance(column, str) for column in [*(inputs or ()), *(targets or ())])
    table = open_table(
        path, rule, loading, lambda row, _: named or not any(is_number(c) for c in row)
    )
    inputs = inputs or _expected(table, loading, "input")
    if not answered:
        if not inputs:
            inputs = _columns(table)
        return table, [table.place(column, "inputs") for column in inputs], []
    targets = targets or _expected(table, loading, "output") or _columns(table)[-1:]
    places_y = [table.place(column, "targets") for column in targets]
    chosen = inputs or [c for c in _columns(table) if table.place(c, "inputs") not in places_y]
    places_x = [table.place(column, "inputs") for column in chosen]
    if not places_x:
        raise InputError(f"{path}: no column is left for the inputs; {table.describe()}")
    return table, places_x, places_y


def note_numbers(
    table: Table, inputs: Places, targets: Places, gives: str, loading: Loading
) -> None:
    """Which columns were taken, always, with the first row as an example."""
    roles = {"input": inputs, "output": targets}
    taken = (
        f"{role}s = {', '.join(table.title(place) for place in places)}"
        for role, places in roles.items()
        if places
    )
    loading.notes.append(f"columns: {'; '.join(taken)}; {gives}")
    loading.columns |= {
        role: tuple(table.column(place) for place in places)
        for role, places in roles.items()
        if places
    }


def _columns(table: Table) -> list[Column]:
    return list(table.names) if table.width == 0 else list(range(1, table.width + 1))


def _expected(table: Table, loading: Loading, role: str) -> list[Column]:
    """The columns that a model's training data had; by number, if this table has as many."""
    columns = loading.expected.get(role, ())
    known: list[Column] = list(columns) if isinstance(columns, tuple) else [columns]
    lacking = [column for column in known if not table.has(column)]
    if any(isinstance(column, str) for column in lacking) and table.names:
        raise InputError(
            f"{table.file}: the model was trained on the columns {', '.join(map(repr, known))}, "
            f"but {table.describe()}; choose the columns with data.{role}_columns"
        )
    return [] if lacking else known
