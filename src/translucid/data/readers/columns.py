"""Which column plays which part: told by number or name, or found by the usual names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from translucid.data.readers.loading import Loading
from translucid.data.readers.parquet import open_arrow
from translucid.data.readers.tables import (
    Column,
    Row,
    Table,
    TableRule,
    format_of,
    open_delimited,
    open_jsonl,
)
from translucid.errors import ConfigError, InputError

# Names that are taken for a role when nobody says which column to use, in this order.
USUAL: dict[str, tuple[str, ...]] = {
    "text": ("text", "sentence", "content", "review", "question"),
    "label": ("label", "labels", "class", "category", "sentiment"),
    "source": ("source", "src", "input"),
    "target": ("target", "tgt", "translation", "output"),
    "words": ("words", "tokens"),
    "tags": ("tags", "ner_tags", "pos_tags", "labels"),
}


def read_columns(
    path: str | Path,
    wanted: Mapping[str, Column | None],
    rule: TableRule,
    loading: Loading,
    keep_empty: bool = False,
) -> Iterator[tuple[int, tuple[object, ...]]]:
    """The wanted cells of each row, in the order of `wanted` (role -> column).

    Blank lines are counted and left out, or with `keep_empty` given as ().
    """
    by_name = any(isinstance(column, str) for column in wanted.values())
    table = open_table(path, rule, loading, lambda row: by_name or _has_usual(row, wanted))
    places = _find(table, wanted, loading)
    for line, row in table.rows:
        if row:
            yield line, tuple(cell(table, place, line, row) for place in places)
        elif keep_empty:
            yield line, ()
        elif row is not None:
            loading.leave_out("empty", line)


def open_table(
    path: str | Path,
    rule: TableRule,
    loading: Loading,
    looks_like_header: Callable[[Sequence[object]], bool],
) -> Table:
    kind = rule.format or format_of(path)
    if kind in ("tsv", "csv"):
        return open_delimited(path, rule, loading, looks_like_header)
    if kind == "jsonl":
        return open_jsonl(path, rule, loading)
    if kind in ("parquet", "datasets"):
        return open_arrow(path)
    raise ConfigError(
        f"{path}: the format {kind!r} has no columns to choose from; the formats that have some "
        "are tsv, csv, jsonl, parquet and datasets"
    )


def cell(table: Table, place: int | str, line: int, row: Row) -> object:
    """Objects of JSON lines need not all have the same names."""
    if isinstance(row, Mapping):
        if place not in row:
            there = ", ".join(map(repr, row))
            raise InputError(
                f"{table.file}:{line}: there is no column {place!r} here; the columns are {there}"
            )
        return row[str(place)]
    assert row is not None
    return row[int(place)]


def _has_usual(row: Sequence[object], wanted: Mapping[str, Column | None]) -> bool:
    """A header has a usual name for every role; one alone may be a word of the data."""
    names = {str(name).strip().lower() for name in row}
    return all(names.intersection(USUAL[role]) for role in wanted)


def _find(table: Table, wanted: Mapping[str, Column | None], loading: Loading) -> list[int | str]:
    columns = {role: table.place(c, role) for role, c in wanted.items() if c is not None}
    missing = [role for role in wanted if role not in columns]
    if missing and not table.names:
        free = [place for place in range(table.width) if place not in columns.values()]
        if len(free) == len(missing):  # no names, but no choice either
            columns |= dict(zip(missing, free, strict=True))
    elif missing:
        lowered = [name.lower() for name in table.names]
        for role in missing:
            usual = next((name for name in USUAL[role] if name in lowered), None)
            if usual is not None:
                columns[role] = table.place(table.names[lowered.index(usual)], role)
    unknown = [role for role in missing if role not in columns]
    if unknown:
        raise InputError(
            f"{table.file}: which column holds the {unknown[0]}? {table.describe()}; "
            f"say {unknown[0]} = ..., in a recipe data.{unknown[0]}_column = ..."
        )
    if len(set(columns.values())) < len(columns):
        raise ConfigError(
            f"{table.file}: "
            + " and ".join(f"{role} = {column!r}" for role, column in wanted.items())
            + f" are one column; {table.describe()}"
        )
    if missing:
        chosen = ", ".join(f"{role} = {table.title(columns[role])}" for role in wanted)
        loading.notes.append(f"columns chosen: {chosen}")
    return [columns[role] for role in wanted]
