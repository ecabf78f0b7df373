"""Files with columns: tab or comma separated values, JSON lines, parquet.

A table is opened with its header known, so that a column can be asked for by number (from 1 on) or
by name, and a missing one is answered with the columns there are.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

from translucid.data.readers.lines import DEFAULT, LineRule, read_lines
from translucid.data.readers.loading import Loading
from translucid.errors import ConfigError, InputError, nearest

Format = Literal["text", "tsv", "csv", "jsonl", "conll", "parquet", "datasets"]
Column = int | str
# What stands on a line: cells by place, or by name; () for a blank line; None for one that was too
# long, which the loading report has counted.
Row = Sequence[object] | Mapping[str, object] | None
Rows = Iterator[tuple[int, Row]]

_SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conll": "conll",
    ".conllu": "conll",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class TableRule:
    """How to read a table; what is None is found out: the format by the file's name."""

    format: Format | None = None
    header: bool | None = None
    delimiter: str = ","  # of CSV
    lines: LineRule = field(default=DEFAULT)


AUTOMATIC = TableRule()


def format_of(path: str | Path, otherwise: Format | None = None) -> Format:
    """By the name's ending, .gz and .xz aside; a folder is one that `datasets` saved."""
    path = Path(path)
    if path.is_dir():
        return "datasets"
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    format_ = _SUFFIXES.get(suffixes[-1].lower() if suffixes else "", otherwise)
    if format_ is None:
        raise ConfigError(
            f"{path}: the name does not tell the format; let it end in one of "
            f"{', '.join(_SUFFIXES)}"
        )
    return format_


@dataclass(frozen=True)
class Table:
    file: str
    names: tuple[str, ...]  # empty when the columns have numbers only
    width: int  # 0 where each row has names of its own (JSON lines)
    rows: Rows
    hint: str = ""

    def place(self, column: Column, role: str) -> int | str:
        """Where a row has this column: an index, or for JSON lines the name itself."""
        if isinstance(column, int):
            if self.width == 0:
                raise ConfigError(
                    f"{self.file}: {role} = {column}: columns of JSON lines have names, not "
                    f"numbers; there are {_listed(self.names)}"
                )
            if not 1 <= column <= self.width:
                raise InputError(
                    f"{self.file}: {role} = {column}: there is no such column; "
                    f"{self.describe()}, counted from 1"
                )
            return column - 1
        if self.names.count(column) > 1:
            raise InputError(
                f"{self.file}: {role} = {column!r}: {self.names.count(column)} columns have this "
                f"name; choose by number: {self.describe()}"
            )
        if column not in self.names:
            close = nearest(column, self.names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(
                f"{self.file}: {role} = {column!r}: there is no such column; "
                f"{self.describe()}{hint}"
            )
        return column if self.width == 0 else self.names.index(column)

    def describe(self) -> str:
        if self.names:
            return f"the columns are {_listed(self.names)}{self.hint}"
        count = "is 1 column" if self.width == 1 else f"are {self.width} columns"
        return f"there {count}{self.hint}"

    def title(self, place: int | str) -> str:
        """How messages call the column."""
        if isinstance(place, str):
            return f"column {place!r}"
        return f"column {place + 1}" + (f" ({self.names[place]!r})" if self.names else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:30])) + (", ..." if len(names) > 30 else "")


def open_delimited(
    path: str | Path,
    rule: TableRule,
    loading: Loading,
    looks_like_header: Callable[[Sequence[object]], bool],
) -> Table:
    """A TSV or CSV table. Every row must have as many cells as the first one."""
    kind = rule.format or format_of(path)
    rows = _tsv_rows(path, rule, loading) if kind == "tsv" else _csv_rows(path, rule, loading)
    before: list[tuple[int, Row]] = []
    for line, first in rows:
        if first:
            break
        before.append((line, first))
    else:
        raise InputError(f"{path}: there is no row in it, only {len(before)} blank lines")
    assert not isinstance(first, Mapping)
    header = looks_like_header(first) if rule.header is None else rule.header
    names = tuple(str(cell).strip() for cell in first) if header else ()
    if not header:
        before.append((line, first))
    elif rule.header is None:
        loading.notes.append(f"line {line} was taken as the header: {_listed(names)}")
    checked = _check_width(path, chain(before, rows), len(first), line)
    hint = ""
    if kind == "csv" and len(first) == 1 and ";" in str(first[0]):
        hint = " (if ';' separates cells, say delimiter = ';')"
    return Table(str(path), names, len(first), checked, hint)


def _check_width(path: str | Path, rows: Rows, width: int, line_of_first: int) -> Rows:
    for line, row in rows:
        if row and len(row) != width:
            raise InputError(
                f"{path}:{line}: {len(row)} cell{'' if len(row) == 1 else 's'}, but line "
                f"{line_of_first} has {width}; every row needs as many, "
                "and a separator inside a cell must be quoted (CSV) or replaced (TSV)"
            )
        yield line, row


def _tsv_rows(path: str | Path, rule: TableRule, loading: Loading) -> Rows:
    for line, text in read_lines(path, rule.lines, loading=loading):
        if text is None:
            yield line, None
        else:
            yield line, text.split("\t") if text.strip(" ") else ()


def _csv_rows(path: str | Path, rule: TableRule, loading: Loading) -> Rows:
    """Quoted cells may hold line ends. A line above the limit is always an error here: without it
    the cell that it belongs to would be wrong."""
    last = 0

    def feed() -> Iterator[str]:
        nonlocal last
        strict = LineRule(rule.lines.max_bytes, "error")
        for number, text in read_lines(path, strict, loading=loading):
            last = number
            yield f"{text}\n"

    reader = csv.reader(feed(), delimiter=rule.delimiter, strict=True)
    while True:
        start = last + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}:{start}: this is not CSV ({error}); quote cells that hold quotes, "
                'separators or line ends, and write a quote inside them twice: "like ""this"""'
            ) from None
        blank = len(row) == 1 and not row[0].strip(" ")
        yield start, () if blank else row


def open_jsonl(path: str | Path, rule: TableRule, loading: Loading) -> Table:
    """One JSON object per line; the first one names the columns, each later one is asked."""
    rows = _jsonl_rows(path, rule, loading)
    before: list[tuple[int, Row]] = []
    names: tuple[str, ...] = ()
    for line, row in rows:
        before.append((line, row))
        if isinstance(row, Mapping):
            names = tuple(row)
            break
    else:
        raise InputError(f"{path}: there is no object in it, only {len(before)} blank lines")
    return Table(str(path), names, 0, chain(before, rows))


def _jsonl_rows(path: str | Path, rule: TableRule, loading: Loading) -> Rows:
    for line, text in read_lines(path, rule.lines, loading=loading):
        if text is None or not text.strip(" "):
            yield line, None if text is None else ()
            continue
        try:
            value = json.loads(text)
        except RecursionError:
            raise InputError(f"{path}:{line}: the JSON is nested too deeply") from None
        except ValueError as error:
            raise InputError(
                f"{path}:{line}: this is not JSON ({error}); one object per line is needed, "
                'such as {"text": "...", "label": "..."}'
            ) from None
        if not isinstance(value, dict) or not value:
            raise InputError(
                f"{path}:{line}: the line is {_brief(text)}, but an object with columns is needed, "
                'such as {"text": "...", "label": "..."}'
            )
        yield line, value


def _brief(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
