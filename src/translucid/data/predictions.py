"""Read input rows for a model, and write the same rows with its predictions.

Predictions become new columns of the input table, CoNLL file or JSON lines. The format is detected
from the file name, or else from the first lines. Rows are read one by one, so that standard input
is processed without waiting for end of file.
"""

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.readers.cells import as_list, as_text
from translucid.data.readers.columns import (
    USUAL,
    cell,
    note_columns,
    note_rows,
    open_columns,
    open_rows,
)
from translucid.data.readers.conll import (
    COMMENT,
    CONLLU,
    ConllSentence,
    declared_columns,
    read_sentences,
)
from translucid.data.readers.lines import DEFAULT, LineRule, read_lines
from translucid.data.readers.loading import Loading
from translucid.data.readers.standard_input import standard_input
from translucid.data.readers.tables import (
    LIST_OF_OBJECTS,
    Column,
    Format,
    Table,
    TableRule,
    format_of,
)

ROW = "input"  # the role of the input columns of rows
Question = str | tuple[Any, ...]  # model input: a text, its words, or the cells of a row
Columns = Mapping[str, Any]


@dataclass(frozen=True)
class InputRow:
    """A row of a file. question: the model's input in this row. If it is None, the row has no input
    and is written unchanged."""

    line: int
    question: Question | None
    content: Any
    first: bool = False  # the first row, or sentence with words, after the header

    @property
    def text(self) -> str:
        """The whole row as text, so that rows can be compared."""
        return json.dumps(self.content, ensure_ascii=False, default=str)


@dataclass
class InputRows(ABC):
    """A file of input rows. roles: the roles that the input column may have. The first of them for
    which the table has a column is used."""

    file: str
    roles: Sequence[str]
    columns: Mapping[str, Column | Sequence[Column] | None] = field(default_factory=dict)
    rule: TableRule = field(default_factory=TableRule)
    loading: Loading = field(default_factory=Loading)

    def __post_init__(self) -> None:
        self.loading.file = self.file

    @abstractmethod
    def rows(self) -> Iterator[InputRow]: ...

    @abstractmethod
    def values(self, row: InputRow) -> dict[str, Any]:
        """The columns of a row by name, for JSON."""

    @abstractmethod
    def write(self, row: InputRow, new: Columns) -> str:
        """The row with its new columns as text, in the format of the input file."""


class TextLines(InputRows):
    """A file with one text per line. `write` returns only the new columns, separated by tabs."""

    def rows(self) -> Iterator[InputRow]:
        for line, text in read_lines(
            self.file, self.rule.lines, loading=self.loading, may_be_empty=True
        ):
            yield InputRow(line, text or "", text)

    def values(self, row: InputRow) -> dict[str, Any]:
        return {"text": row.content}

    def write(self, row: InputRow, new: Columns) -> str:
        return "\t".join(map(str, new.values())) + "\n"


@dataclass
class GivenTexts(TextLines):
    """Texts that are not in a file."""

    texts: Sequence[str] = ()

    def rows(self) -> Iterator[InputRow]:
        for line, text in enumerate(self.texts, start=1):
            yield InputRow(line, text, text)


class TableRows(InputRows):
    """The rows of a CSV, TSV, JSON lines or Parquet file. Parquet rows are written as JSON
    lines."""

    table: Table

    def rows(self) -> Iterator[InputRow]:
        self.table, role, places = self._open()
        first = True
        for line, content in self.table.rows:
            if not content:
                yield InputRow(line, None, content)
                continue
            cells = [cell(self.table, place, line, content) for place in places]
            question = self._question(role, line, cells)
            if first and role == ROW:
                note_rows(self.table, places, [], f"line {line} gives {question}", self.loading)
            elif first:
                note_columns(self.table, {role: places[0]}, line, cells, self.loading)
            yield InputRow(line, question, content, first)
            first = False
        if first and self.table.names and self.table.width:
            yield InputRow(1, None, self.table.names)

    def _question(self, role: str, line: int, cells: Sequence[object]) -> Question:
        where = f"{self.file}:{line}: "
        if role == ROW:
            return tuple(cells)
        where += role
        if role == "words":
            return tuple(as_text(word, where) for word in as_list(cells[0], where))
        return as_text(cells[0], where)

    def _open(self) -> tuple[Table, str, list[int | str]]:
        """Open the table. Return it with the first role in `roles` that it has a column for, and
        the columns of this role."""
        if ROW in self.roles:
            columns = self.columns.get(ROW) or ()
            inputs = [columns] if isinstance(columns, int | str) else list(columns)
            table, places, _ = open_rows(
                self.file, inputs or None, None, self.rule, self.loading, answered=False
            )
            return table, ROW, places
        chosen = [role for role in self.roles if self._column(role) is not None]
        if not chosen and len(self.roles) > 1:
            # Only column names show which of several roles a table has.
            header = True if self.rule.header is None else self.rule.header
            rule = replace(self.rule, header=header)
            table, _ = open_columns(self.file, {}, rule, self.loading)
            lowered = [name.lower() for name in table.names]
            for role in self.roles:
                names = [self.loading.expected.get(role), *USUAL[role]]
                place = next((lowered.index(n) for n in names if n in lowered), None)
                if place is not None:
                    return table, role, [table.place(table.names[place], role)]
            raise InputError(
                f"{self.file}: which column holds the {self.roles[-1]}? {table.describe()}; choose "
                f"one with data.{self.roles[-1]}_column"
            )
        role = (chosen or self.roles)[0]
        wanted = {role: self._column(role)}
        table, places = open_columns(self.file, wanted, self.rule, self.loading)
        return table, role, places

    def _column(self, role: str) -> Column | None:
        column = self.columns.get(role)
        return column if isinstance(column, int | str) else None

    def values(self, row: InputRow) -> dict[str, Any]:
        if isinstance(row.content, Mapping):
            return dict(row.content)
        names = self.table.names or range(1, self.table.width + 1)
        return dict(zip(map(str, names), row.content or (), strict=False))

    def write(self, row: InputRow, new: Columns) -> str:
        if self.as_json:
            return self._line_of_json(row, new)
        cells = [*(row.content or ()), *map(_as_cell, new.values())]
        if not (row.first and self.table.names):
            return self._joined(cells)
        names = [*self.table.names, *unused(new, self.table.names)]
        return self._joined(names) + self._joined(cells)

    @property
    def _format(self) -> Format:
        return self.rule.format or format_of(self.file)

    @property
    def as_json(self) -> bool:
        return self._format not in ("csv", "tsv")

    def _line_of_json(self, row: InputRow, new: Columns) -> str:
        if not row.content:
            return "\n"
        values = self.values(row)
        named = dict(zip(unused(new, list(values)), new.values(), strict=True))
        return json.dumps(values | named, ensure_ascii=False, default=str) + "\n"

    def _joined(self, cells: Sequence[object]) -> str:
        if not cells:
            return "\n"
        if self._format == "tsv":
            return "\t".join(" ".join(str(c).split("\t")) for c in cells) + "\n"
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=self.table.delimiter, lineterminator="\n").writerow(cells)
        return buffer.getvalue()


class ConllSentences(InputRows):
    """The sentences of a CoNLL file, written with predicted tags as a new column. CoNLL-U allows
    exactly ten columns, so such a file is written as CoNLL-U Plus, whose first line names the
    columns."""

    def rows(self) -> Iterator[InputRow]:
        column, first = self.columns.get("words"), True
        for sentence in read_sentences(
            self.file,
            words=column if isinstance(column, int | str) else None,
            tagged=False,
            rule=self.rule.lines,
            loading=self.loading,
        ):
            yield InputRow(sentence.line, sentence.words or None, sentence, first)
            first = first and not sentence.words

    def values(self, row: InputRow) -> dict[str, Any]:
        return {"words": list(row.question or ())}

    def write(self, row: InputRow, new: Columns) -> str:
        sentence: ConllSentence = row.content
        lines = list(sentence.lines)
        columns = list(new.values())
        names = [f"TRANSLUCID:{name.upper()}" for name in new]
        words = {place: number for number, place in enumerate(sentence.places)}
        for place, line in enumerate(sentence.lines):
            if line.startswith(COMMENT):
                if declared_columns(line):
                    lines[place] = " ".join([line, *names])
                continue
            separator = "\t" if "\t" in line or len(line.split()) == 1 else " "
            cells = [str(c[words[place]]) if place in words else "_" for c in columns]
            lines[place] = separator.join([line, *cells])
        if sentence.layout.name == "CoNLL-U" and row.first and columns:
            lines.insert(0, " ".join(["# global.columns =", *map(str.upper, CONLLU), *names]))
        return "".join(line + "\n" for line in [*lines, ""])


def unused(new: Collection[str], names: Collection[str]) -> list[str]:
    """Names for new columns. A number is appended to a name if the file already has a column of
    that name."""
    chosen: list[str] = []
    for name in new:
        number, free = 2, name
        while free in names:
            free, number = f"{name}_{number}", number + 1
        chosen.append(free)
    return chosen


def _as_cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


PEEKED = 50  # lines read to detect the format

SOURCES: dict[Format, type[InputRows]] = {
    "text": TextLines,
    "conll": ConllSentences,
    "tsv": TableRows,
    "csv": TableRows,
    "jsonl": TableRows,
    "parquet": TableRows,
    "datasets": TableRows,
}


def format_for(
    file: str, roles: Sequence[str], labels: Collection[str] = (), rule: LineRule = DEFAULT
) -> Format:
    """Detect the format from the file name, or else from the first lines. Lines that begin with a
    JSON object or an array of objects are JSON. For a model that reads words, lines with columns
    are CoNLL if one of the columns contains known tags."""
    by_name = None if file == "-" else format_of(file, "text")
    if by_name not in (None, "text"):
        return by_name
    lines = _beginning(file, rule)
    first = next((line for line in lines if line.strip()), "")
    if (first.startswith("{") and _is_object(first)) or LIST_OF_OBJECTS.match("\n".join(lines)):
        return "jsonl"
    if "words" in roles and _has_columns(lines, labels):
        return "conll"
    return "text"


def _beginning(file: str, rule: LineRule) -> list[str]:
    if file == "-":
        lines = standard_input().peek().decode(rule.encoding, "replace").split("\n")
        return [line.removesuffix("\r") for line in lines[:PEEKED]]
    if not Path(file).is_file():  # a pipe cannot be read twice
        return []
    return [line or "" for _, line in islice(read_lines(file, rule, may_be_empty=True), PEEKED)]


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _has_columns(lines: Sequence[str], labels: Collection[str]) -> bool:
    """Whether the lines of the first sentence have columns, and one column contains only known
    tags."""
    rows: list[list[str]] = []
    for line in lines:
        if not line.strip():
            if rows:
                break
            continue
        if line.startswith(COMMENT) and "=" in line:
            return True
        rows.append(line.split("\t") if "\t" in line else line.split())
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths == {1}:
        return False
    return any("\t" in line for line in lines) or any(
        set(column) <= set(labels) for column in zip(*rows, strict=True)
    )
