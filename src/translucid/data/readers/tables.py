"""Read tables: CSV, TSV, JSON lines and JSON arrays.

A column is chosen by number (from 1) or by name. If it does not exist, the error message lists the
columns.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from translucid.core.errors import ConfigError, InputError, nearest
from translucid.core.untrusted_files import LARGEST
from translucid.data.readers.dialect import (
    CHARACTERS,
    COMPARED,
    Delimiter,
    find_delimiter,
)
from translucid.data.readers.lines import DEFAULT, LineRule, beginning, read_lines
from translucid.data.readers.loading import Loading
from translucid.data.readers.standard_input import at_once

Decimal = Literal[".", ","]  # the mark before the decimals of a number
ColumnKind = Literal["number", "category", "date", "date-dmy", "date-mdy", "yes/no", "ignore"]
Format = Literal["text", "tsv", "csv", "jsonl", "conll", "parquet", "datasets"]
Column = int | str
# Cells by index or name; () for a blank line; None for a line that was too long, already counted.
Row = Sequence[object] | Mapping[str, object] | None
Rows = Iterator[tuple[int, Row]]
# A function that decides whether a row is a header; None if uncertain. Its second argument reads
# the rows below when it is called.
IsHeader = Callable[[Sequence[object], Callable[[], list[Sequence[object]]]], bool | None]

_SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".conll": "conll",
    ".conllu": "conll",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class TableRule:
    """How to read a table. An option that is None is detected: the format from the file name, the
    others from the content of the file."""

    format: Format | None = None
    header: bool | None = None
    delimiter: Delimiter | None = None  # for CSV
    lines: LineRule = field(default=DEFAULT)


AUTOMATIC = TableRule()
LIST_OF_OBJECTS = re.compile(r"\s*\[\s*\{")  # the beginning of a JSON array of rows
ARRAY_BEGINS = re.compile(r"\s*\[\s*(?!\])")
NEXT_ELEMENT = re.compile(r"\s*,\s*")
ARRAY_ENDS = re.compile(r"\s*(\[\s*)?\]\s*\Z")


def format_of(path: str | Path, otherwise: Format | None = None) -> Format:
    """The format, detected from the file extension without .gz or .xz. A folder has the format of
    `datasets`."""
    path = Path(path)
    if path.is_dir():
        return "datasets"
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    format_ = _SUFFIXES.get(suffixes[-1].lower() if suffixes else "", otherwise)
    if format_ is None:
        raise ConfigError(
            f"{path}: unknown extension; rename the file to one of {', '.join(_SUFFIXES)}, or set "
            "data.format"
        )
    return format_


@dataclass(frozen=True)
class Table:
    file: str
    names: tuple[str, ...]  # column names; empty: the columns have no names
    width: int  # number of columns; 0: rows are JSON objects with their own names
    rows: Rows
    hint: str = ""
    delimiter: str = "\t"  # between the cells of a line

    def place(self, column: Column, role: str) -> int | str:
        """The key of a column in a row: its index, or its name in JSON lines."""
        if isinstance(column, int):
            if self.width == 0:
                raise ConfigError(
                    f"{self.file}: {role} = {column}: columns of JSON lines have names, not "
                    f"numbers; choose one of {_listed(self.names)}"
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

    def has(self, column: Column) -> bool:
        """Whether the table has exactly one column with this number or name."""
        if isinstance(column, int):
            return 1 <= column <= self.width
        return self.names.count(column) == 1

    def column(self, place: int | str) -> Column:
        """The name of a column or, if it has none, its number, counted from 1."""
        if isinstance(place, str):
            return place
        unique = self.names and self.names.count(self.names[place]) == 1 and self.names[place]
        return unique or place + 1

    def describe(self) -> str:
        if self.names:
            return f"the columns are {_listed(self.names)}{self.hint}"
        count = "is 1 column" if self.width == 1 else f"are {self.width} columns"
        return f"there {count}{self.hint}"

    def title(self, place: int | str) -> str:
        """How messages name a column: by number and name."""
        if isinstance(place, str):
            return f"column {place!r}"
        return f"column {place + 1}" + (f" ({self.names[place]!r})" if self.names else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:30])) + (", ..." if len(names) > 30 else "")


def open_delimited(
    path: str | Path,
    rule: TableRule,
    loading: Loading,
    looks_like_header: IsHeader,
) -> Table:
    """Open a TSV or CSV table, whose rows must all have the same number of cells."""
    kind = rule.format or format_of(path)
    delimiter = "\t"
    if kind == "csv":
        delimiter, lines = _csv_lines(path, rule, loading)
        rows = _csv_rows(path, delimiter, lines)
    else:
        if rule.delimiter not in (None, "tab"):
            raise ConfigError(
                f"{path}: data.delimiter = {rule.delimiter!r}: the cells of a TSV are separated by "
                "tabs; name the file .csv, or set data.format = 'csv'"
            )
        rows = _tsv_rows(path, rule, loading)
    before: list[tuple[int, Row]] = []
    for line, first in rows:
        if first:
            break
        before.append((line, first))
    else:
        raise InputError(
            f"{path} contains no rows, only {len(before)} blank line{'s' * (len(before) != 1)}"
        )
    assert first is not None
    assert not isinstance(first, Mapping)
    after: list[tuple[int, Row]] = []

    def following() -> list[Sequence[object]]:
        after.extend(islice(at_once(path, rows), COMPARED))
        return [row for _, row in after if row and not isinstance(row, Mapping)]

    header = looks_like_header(first, following) if rule.header is None else rule.header
    if header is None:
        raise InputError(
            f"{path}:{line}: the row {_listed([str(cell) for cell in first])} may be a header or "
            "data; set data.header=true if it contains the names of the columns, or "
            "data.header=false if it is the first example"
        )
    names = tuple(str(cell).strip() for cell in first) if header else ()
    if not header:
        before.append((line, first))
    elif rule.header is None:
        loading.notes.append(
            f"line {line} is read as the header: {_listed(names)} (if it is data, set "
            "data.header=false)"
        )
    checked = _check_width(path, chain(before, after, rows), len(first), line)
    hint = ""
    others = [name for name, c in CHARACTERS.items() if c != delimiter and c in str(first[0])]
    if kind == "csv" and len(first) == 1 and others:
        hint = f" (if {others[0]!r} separates cells, set data.delimiter={others[0]!r})"
    return Table(str(path), names, len(first), checked, hint, delimiter)


def _check_width(path: str | Path, rows: Rows, width: int, line_of_first: int) -> Rows:
    for line, row in rows:
        if row and len(row) != width:
            raise InputError(
                f"{path}:{line}: this row has {len(row)} cell{'' if len(row) == 1 else 's'}, but "
                f"line {line_of_first} has {width}; every row needs the same number of cells; "
                "quote separators inside cells (CSV) or replace them (TSV)"
            )
        yield line, row


def _tsv_rows(path: str | Path, rule: TableRule, loading: Loading) -> Rows:
    for line, text in read_lines(path, rule.lines, loading=loading):
        if text is None:
            yield line, None
        else:
            yield line, text.split("\t") if text.strip(" ") else ()


def _csv_lines(
    path: str | Path, rule: TableRule, loading: Loading
) -> tuple[str, Iterator[tuple[int, str]]]:
    """The delimiter and the numbered lines of a CSV file. A line above the length limit is always
    an error, since a cell may continue on the next line."""
    strict = replace(rule.lines, too_long="error")
    lines = ((n, text or "") for n, text in read_lines(path, strict, loading=loading))
    if rule.delimiter is not None:
        return CHARACTERS[rule.delimiter], lines
    seen: list[tuple[int, str]] = []
    for number, text in lines:
        seen.append((number, text))
        if text.strip():
            break

    def following() -> Iterator[str]:
        for number, text in at_once(path, lines):
            seen.append((number, text))
            yield text

    delimiter = find_delimiter(seen[-1][1], following()) if seen else ","
    if delimiter != ",":
        name = next(name for name, character in CHARACTERS.items() if character == delimiter)
        loading.notes.append(f"cells are separated by {name!r} (data.delimiter)")
    return delimiter, chain(seen, lines)


def _csv_rows(path: str | Path, delimiter: str, lines: Iterator[tuple[int, str]]) -> Rows:
    """Yield rows with the number of their first line. Quoted cells may contain line ends."""
    last = 0

    def feed() -> Iterator[str]:
        nonlocal last
        for number, text in lines:
            last = number
            yield f"{text}\n"

    reader = csv.reader(feed(), delimiter=delimiter, strict=True)
    # The limit of a cell's size is one of the whole process. It detects a quote that is not closed.
    csv.field_size_limit(max(csv.field_size_limit(), DEFAULT.max_bytes))
    while True:
        start = last + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}:{start}: this is not CSV ({error}); quote cells that contain quotes, "
                'separators or line ends, and write a quote inside them twice: "like ""this"""'
            ) from None
        blank = len(row) == 1 and not row[0].strip(" ")
        yield start, () if blank else row


def open_jsonl(path: str | Path, rule: TableRule, loading: Loading) -> Table:
    """Open a file with one JSON object per line, or with a JSON array of objects. The keys of the
    first object are the names of the columns."""
    rows = _jsonl_rows(path, rule, loading)
    before: list[tuple[int, Row]] = []
    names: tuple[str, ...] = ()
    for line, row in rows:
        before.append((line, row))
        if isinstance(row, Mapping):
            names = tuple(row)
            break
    else:
        raise InputError(f"{path} contains no JSON objects; at least one is needed")
    return Table(str(path), names, 0, chain(before, rows))


def _jsonl_rows(path: str | Path, rule: TableRule, loading: Loading) -> Rows:
    if beginning(path, rule.lines).lstrip("\ufeff \t\r\n").startswith("["):
        yield from _array_rows(path, rule.lines, loading)
        return
    for line, text in read_lines(path, rule.lines, loading=loading):
        if text is None or not text.strip(" "):
            yield line, None if text is None else ()
            continue
        with _reporting(path, line):
            yield line, _as_row(json.loads(text), path, line)


def _array_rows(path: str | Path, rule: LineRule, loading: Loading) -> Rows:
    """Yield the objects of a JSON array, each with the number of its first line. Since an array is
    often a single line, the length of lines is not limited."""
    unlimited = replace(rule, max_bytes=LARGEST)
    text = "\n".join(line or "" for _, line in read_lines(path, unlimited, loading=loading))
    decoder, end, between = json.JSONDecoder(), 0, ARRAY_BEGINS
    line = 1
    while (match := between.match(text, end)) is not None:
        line += text.count("\n", end, match.end())
        with _reporting(path, line):
            value, end = decoder.raw_decode(text, match.end())
        yield line, _as_row(value, path, line)
        line += text.count("\n", match.end(), end)
        between = NEXT_ELEMENT
    if ARRAY_ENDS.match(text, end) is None:
        raise InputError(
            f"{path}:{line}: found {text[end : end + 40]!r} after an object of the array; expected "
            "a comma and the next object, or ] at the end of the file"
        )


@contextmanager
def _reporting(path: str | Path, line: int) -> Iterator[None]:
    """Convert errors of the JSON parser in the block to InputErrors. line: the line in which the
    JSON begins."""
    try:
        yield
    except RecursionError:
        raise InputError(f"{path}:{line}: the JSON is nested too deeply") from None
    except ValueError as error:
        raise InputError(
            f"{path}:{line}: this is not JSON ({error}); one object per line is needed, "
            'such as {"text": "...", "label": "..."}, or an array of objects'
        ) from None


def _as_row(value: object, path: str | Path, line: int) -> Mapping[str, object]:
    if not isinstance(value, dict) or not value:
        raise InputError(
            f"{path}:{line}: found {json.dumps(value, ensure_ascii=False):.40}, but a JSON object "
            'with columns is needed, such as {"text": "...", "label": "..."}'
        )
    return value
