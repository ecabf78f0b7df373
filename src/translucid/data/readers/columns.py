"""Find the column of each role (text, label, ...). The user chooses a column by number or name.
Otherwise, it is the column that was used in training, or one whose name is recognised."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import quoted
from translucid.data.readers.cells import is_number
from translucid.data.readers.dialect import (
    COMPARED,
    header_over_labels,
    header_over_texts,
    label_place,
    unlike_the_rest,
)
from translucid.data.readers.loading import Columns, Loading
from translucid.data.readers.parquet import open_arrow
from translucid.data.readers.quantities import as_number
from translucid.data.readers.standard_input import at_once
from translucid.data.readers.tables import (
    Column,
    IsHeader,
    Row,
    Table,
    TableRule,
    format_of,
    open_delimited,
    open_jsonl,
)

NAMES = """
    arabic bengali bulgarian catalan chinese croatian czech danish dutch english estonian finnish
    french german greek hebrew hindi hungarian icelandic indonesian irish italian japanese korean
    latin latvian lithuanian malay norwegian persian polish portuguese romanian russian serbian
    slovak slovene slovenian spanish swahili swedish tamil thai turkish ukrainian urdu vietnamese
    welsh
    deutsch englisch französisch spanisch italienisch niederländisch polnisch russisch tschechisch
    français anglais allemand espagnol italien español inglés alemán francés italiano tedesco
    inglese francese português polski nederlands svenska dansk norsk suomi čeština türkçe русский
"""
CODES = """
    ar bg bn ca cs da de el en es et fa fi fr ga he hi hr hu id is it ja ko la lt lv ms nl no pl pt
    ro ru sk sl sr sv sw ta th tr uk ur vi zh
    ara ces chi dan deu dut eng est fas fin fra fre ger gre heb hin hrv hun ind ita jpn kor lat lav
    lit nld nob nor pol por ron rus slk slv spa srp swe tur ukr urd vie zho
"""
KNOWN = frozenset((NAMES + CODES).split())


def is_language(name: str) -> bool:
    """Whether a column name consists of the name or code of a language and at most one more word:
    German, de, de_DE, english_sentence."""
    first, *others = re.split(r"[\s_.-]+", name.strip().lower())
    return first in KNOWN and len(others) <= 1


Following = Callable[[], list[Sequence[object]]]

# For each role, the column names that are recognised if no column is chosen. Earlier names win.
USUAL: dict[str, tuple[str, ...]] = {
    "text": ("text", "sentence", "content", "review", "question"),
    "label": ("label", "labels", "class", "category", "sentiment"),
    "source": ("source", "src", "input", "anchor", "sentence1"),
    "target": ("target", "tgt", "translation", "output", "positive", "sentence2"),
    "score": ("score", "similarity_score", "similarity"),
    "words": ("words", "tokens"),
    "tags": ("tags", "ner_tags", "pos_tags", "labels"),
}


def read_columns(
    path: str | Path,
    wanted: Mapping[str, Column | None],
    rule: TableRule,
    loading: Loading,
    keep_empty: bool = False,
    optional: str | None = None,
) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield the line number and cells of each row. The cells are those of the wanted columns, in
    the order of `wanted` (role -> column), followed by that of the `optional` role if the table has
    such a column.

    Blank lines are counted and skipped; with `keep_empty`, () is yielded for them.
    """
    table, places = open_columns(path, wanted, rule, loading)
    roles = list(wanted)
    if optional is not None and (place := _if_any(table, optional, loading)) is not None:
        roles, places = [*roles, optional], [*places, place]
    shown = False
    for line, row in table.rows:
        if row:
            cells = tuple(cell(table, place, line, row) for place in places)
            if not shown:
                note_columns(table, dict(zip(roles, places, strict=True)), line, cells, loading)
                shown = True
            yield line, cells
        elif keep_empty:
            yield line, ()
        elif row is not None:
            loading.leave_out("empty", line)


def open_columns(
    path: str | Path, wanted: Mapping[str, Column | None], rule: TableRule, loading: Loading
) -> tuple[Table, list[int | str]]:
    """Open a table and find the wanted columns; return the table, and the columns in the order of
    `wanted`."""
    by_name = any(isinstance(column, str) for column in wanted.values())
    expected = {role: loading.expected.get(role) for role in wanted}

    def is_header(row: Sequence[object], following: Following) -> bool | None:
        names = {str(name).strip() for name in row}
        if by_name or names.issuperset(expected.values()) or _has_usual(row, wanted):
            return True
        if _of_languages([str(name) for name in row], list(wanted)):
            return bool(following())  # a single row is data
        below = following()
        if any(isinstance(column, int) for column in expected.values()):  # training had no header
            return unlike_the_rest(row, below)
        chosen = wanted.get("label")
        if "label" in wanted and (isinstance(chosen, int) or len(row) == 2):
            place = chosen - 1 if isinstance(chosen, int) else label_place(below)
            return header_over_labels(row, below, place)
        return header_over_texts(row, below) if "source" in wanted else unlike_the_rest(row, below)

    table = open_table(path, rule, loading, is_header)
    columns = _known(table, wanted, loading)
    missing = [role for role in wanted if role not in columns]
    if missing and table.width == len(wanted) == 2:
        table, rest = _of_two(table, missing, columns.values(), rule, loading)
        columns |= rest
    return table, _in_order(table, wanted, columns)


def _of_two(
    table: Table,
    missing: Sequence[str],
    taken: Collection[int | str],
    rule: TableRule,
    loading: Loading,
) -> tuple[Table, dict[str, int | str]]:
    """Find the columns of the missing roles in a table with two columns. If only one role is
    missing, its column is the one that has no role yet. Otherwise, source and target are the first
    and the second column, and text and label are found by comparing cells. Return the table and the
    columns by role."""
    free: list[int | str] = [place for place in (0, 1) if place not in taken]
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
        loading.notes.append(
            f"two columns whose names are not recognized: {why} (set {keys} to choose others)"
        )
    return table, dict(zip(missing, free, strict=True))


def _if_any(table: Table, role: str, loading: Loading) -> int | str | None:
    """The index or name of the column with an optional role: the column that was used in training,
    or one whose name is recognised; None if there is none."""
    before = loading.expected.get(role)
    if isinstance(before, int | str) and table.has(before):
        return table.place(before, role)
    names = [name for name in table.names if name.lower() in USUAL[role]]
    return table.place(names[0], role) if names else None


def note_columns(
    table: Table,
    places: Mapping[str, int | str],
    line: int,
    cells: Sequence[object],
    loading: Loading,
) -> None:
    """Add a note that lists the columns that are used, with the first row as an example."""
    taken = ", ".join(f"{role} = {table.title(place)}" for role, place in places.items())
    gives = ", ".join(f"{role} = {value!r:.60}" for role, value in zip(places, cells, strict=True))
    loading.notes.append(f"columns: {taken}; line {line} gives {gives}")
    loading.columns |= {role: table.column(place) for role, place in places.items()}


def open_table(
    path: str | Path,
    rule: TableRule,
    loading: Loading,
    looks_like_header: IsHeader,
) -> Table:
    kind = rule.format or format_of(path)
    if kind in ("tsv", "csv"):
        return open_delimited(path, rule, loading, looks_like_header)
    if kind == "jsonl":
        return open_jsonl(path, rule, loading)
    if kind in ("parquet", "datasets"):
        return open_arrow(path)
    raise ConfigError(
        f"{path}: the format {kind!r} has no columns; formats with columns are tsv, csv, jsonl, "
        "parquet and datasets"
    )


def cell(table: Table, place: int | str, line: int, row: Row) -> object:
    """The value of a column in a row. A row that is a JSON object may lack the column, which raises
    an error."""
    if isinstance(row, Mapping):
        if place not in row:
            there = ", ".join(map(repr, row))
            raise InputError(
                f"{table.file}:{line}: this line has no column {place!r}; its columns are {there}"
            )
        return row[str(place)]
    assert row is not None
    return row[int(place)]


def _has_usual(row: Sequence[object], wanted: Mapping[str, Column | None]) -> bool:
    """Whether a row contains a recognised column name for every role. If it contains names for only
    some roles, the result is False, since the row may be data."""
    names = {str(name).strip().lower() for name in row}
    return all(names.intersection(USUAL[role]) for role in wanted)


def _of_languages(names: Sequence[str], roles: Sequence[str]) -> bool:
    """Whether the source and target columns have the names of two languages."""
    pair = len(names) == 2 and names[0].strip().lower() != names[1].strip().lower()
    return list(roles) == ["source", "target"] and pair and all(map(is_language, names))


def _known(
    table: Table, wanted: Mapping[str, Column | None], loading: Loading
) -> dict[str, int | str]:
    """By role, the columns that the user chose, that were used in training, or whose names are
    recognised."""
    columns = {role: table.place(c, role) for role, c in wanted.items() if c is not None}
    missing = [role for role in wanted if role not in columns]
    for role in missing:
        before = loading.expected.get(role)
        if isinstance(before, int | str) and table.has(before):
            columns[role] = table.place(before, role)
    missing = [role for role in missing if role not in columns]
    if missing and (not table.names or table.width == 1):
        free = [place for place in range(table.width) if place not in columns.values()]
        if len(free) == len(missing) and missing != ["label", "text"]:  # no choice
            columns |= dict(zip(missing, free, strict=True))
    elif _of_languages(table.names, missing):
        named = zip(missing, table.names, strict=True)
        columns |= {role: table.place(name, role) for role, name in named}
    elif missing:
        lowered = [name.lower() for name in table.names]
        for role in missing:
            usual = next((name for name in USUAL[role] if name in lowered), None)
            if usual is not None:
                columns[role] = table.place(table.names[lowered.index(usual)], role)
    return columns


def _in_order(
    table: Table, wanted: Mapping[str, Column | None], columns: Mapping[str, int | str]
) -> list[int | str]:
    """The columns in the order of the wanted roles; raises an error if a column cannot be found."""
    unknown = [role for role in wanted if role not in columns]
    if unknown and 0 < table.width < len(wanted):
        between = {"\t": "a tab"}.get(table.delimiter, repr(table.delimiter))
        raise InputError(
            f"{table.file}: {table.describe()}, but each line needs {' and '.join(wanted)}, with "
            f"{between} between them"
        )
    if unknown:
        example = _such_as(table, unknown, columns)
        if not example:
            raise InputError(
                f"{table.file}: {table.describe()}, but a column for the {unknown[0]} is needed "
                f"too; add it to the file, and set data.{unknown[0]}_column to its name"
            )
        raise InputError(
            f"{table.file}: which column holds the {unknown[0]}? {table.describe()}; add the "
            f"column to the command, for example {example}"
            + ("; if line 1 is data, set data.header=false" if table.width and table.names else "")
        )
    if len(set(columns.values())) < len(columns):
        raise ConfigError(
            f"{table.file}: "
            + " and ".join(f"{role} = {column!r}" for role, column in wanted.items())
            + f" are the same column, but each role needs its own; {table.describe()}"
        )
    return [columns[role] for role in wanted]


def _such_as(table: Table, unknown: Sequence[str], columns: Mapping[str, int | str]) -> str:
    """Settings that choose a column for each unknown role, as an example for a message. Only
    columns that have no role yet are chosen."""
    places: Sequence[int | str] = range(table.width) if table.width else table.names
    free = [table.column(place) for place in places if place not in columns.values()]
    return " ".join(
        f"data.{role}_column={quoted(str(column))}"
        for role, column in zip(unknown, free, strict=False)
    )


Places = list[int | str]


def open_rows(
    path: str | Path,
    inputs: Sequence[Column] | None,
    targets: Sequence[Column] | None,
    rule: TableRule,
    loading: Loading,
    *,
    role: str = "output",
    ignored: Sequence[Column] = (),
    answered: bool = True,
) -> tuple[Table, Places, Places]:
    """Open a table and find its input and target columns. role: what the targets are, output or
    label. ignored: columns that are not inputs. answered: whether the table must have targets; if
    not, only the inputs are found.

    By default, the inputs and targets are the columns used in training. If the table lacks them,
    the target is the column with a usual name, such as label, or else the last column, and all
    others are inputs.
    """
    named = any(isinstance(column, str) for column in [*(inputs or ()), *(targets or ()), *ignored])

    def is_header(row: Sequence[object], following: Following) -> bool:
        if named or role == "output":
            return named or not any(map(_is_quantity, row))
        expected = {c for r in ("input", role) for c in _tuple(loading.expected.get(r, ()))}
        names = {str(cell).strip() for cell in row}
        if expected and all(isinstance(column, str) for column in expected):
            return bool(names & expected)
        return not any(map(_is_quantity, row)) and len(names) == len(row)

    table = open_table(path, rule, loading, is_header)
    inputs = inputs or _expected(table, loading, "input")
    if not answered:
        return table, [table.place(c, "inputs") for c in inputs or _columns(table)], []
    targets = targets or _expected(table, loading, role) or _usual_or_last(table, role)
    places_y = [table.place(column, "targets") for column in targets]
    left_out = {*places_y, *(table.place(column, "data.ignore_columns") for column in ignored)}
    if inputs and left_out & {table.place(column, "inputs") for column in inputs}:
        both = next(c for c in inputs if table.place(c, "inputs") in left_out)
        raise ConfigError(
            f"{path}: the column {both!r} is in data.input_columns, but is also the {role} or in "
            "data.ignore_columns; use it in only one of these"
        )
    chosen = inputs or [c for c in _columns(table) if table.place(c, "inputs") not in left_out]
    places_x = [table.place(column, "inputs") for column in chosen]
    if not places_x:
        raise InputError(
            f"{path}: all columns are targets, so none is left for the inputs; {table.describe()}; "
            "add input columns, or choose fewer targets"
        )
    return table, places_x, places_y


def _is_quantity(cell: object) -> bool:
    """Whether a cell contains a number in any notation, such as 3,5 or 12 %."""
    return is_number(cell) or as_number(str(cell).strip())


def _usual_or_last(table: Table, role: str) -> list[Column]:
    """The target column of a table: the one with a usual name, or else the last."""
    usual = [name for name in table.names if name.lower() in USUAL.get(role, ())]
    if len(usual) == 1:
        return [*usual]
    return _columns(table)[-1:]


def _tuple(columns: Columns) -> tuple[int | str, ...]:
    return columns if isinstance(columns, tuple) else (columns,)


def note_rows(
    table: Table,
    inputs: Places,
    targets: Places,
    gives: str,
    loading: Loading,
    role: str = "output",
) -> None:
    """Note the columns that are used, with the first row as an example."""
    roles = {"input": inputs, role: targets}
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
    """The columns that were used in training; empty if none are known, or if a table without a
    header lacks one of them. If a table with a header lacks one, an error is raised."""
    columns = loading.expected.get(role, ())
    known: list[Column] = list(columns) if isinstance(columns, tuple) else [columns]
    lacking = [column for column in known if not table.has(column)]
    if any(isinstance(column, str) for column in lacking) and table.names:
        raise InputError(
            f"{table.file}: the model was trained on the columns {', '.join(map(repr, known))}, "
            f"but {table.describe()}; choose the columns with data.{role}_columns"
        )
    return [] if lacking else known
