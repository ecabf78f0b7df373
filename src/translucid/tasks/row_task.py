"""Base class for tasks that read the rows of a table.

The columns learned from the training data (`data/features.py`) turn the cells of a row into the
numbers that the network reads.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from translucid.core.errors import InputError
from translucid.data.column_kinds import Choices, learn
from translucid.data.features import Columns
from translucid.data.readers.loading import Columns as ByRole
from translucid.data.records import LabelledRow, Numbers
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.base import Item, Record, Task
from translucid.tasks.options import DataConfig, TokenizerConfig

READ_NOTE = (
    "Numbers and dates are standardised: minus the mean of the training data, divided by its "
    "standard deviation. Categories are 1 or 0."
)
AnyRow = LabelledRow | Numbers


class RowTask(Task[Record, Item]):
    """A task whose inputs are the cells of a row."""

    columns: Columns | None = None  # None: all columns are numbers, without names

    @classmethod
    def learn_tokenizers(cls, records: Any, options: TokenizerConfig) -> dict[str, Tokenizer]:
        return {}

    @classmethod
    def learn_columns(cls, train: Sequence[AnyRow], data: DataConfig) -> Columns:
        """Find the kind of each column. Rows made by a program have no header."""
        header = train[0].header
        ids = range(1, len(train[0].inputs) + 1) if header is None else header.columns
        choices = Choices(data.column_kinds or {}, data.decimal, data.standardise)
        return learn(tuple(ids), [row.inputs for row in train], list(map(_place, train)), choices)

    def features_of(self, record: AnyRow) -> tuple[float, ...]:
        """The features of a record."""
        assert self.columns is not None
        header = None if record.header is None else record.header.columns
        return tuple(self.columns.encode(record.inputs, _place(record), header))

    def remarks_of(self, record: AnyRow) -> tuple[str, ...]:
        """Describe how a record differs from the training data."""
        if self.columns is None:
            return ()
        header = None if record.header is None else record.header.columns
        cells = self.columns.cells_of(record.inputs, header, _place(record))
        return tuple(self.columns.remarks(cells))

    def row_of(self, question: Any, where: str) -> list[Any]:
        """The cells that are read, from a line of text (CSV, or a JSON object), a dict by column
        name, or a list of cells."""
        assert self.columns is not None
        if isinstance(question, str) and question.lstrip().startswith("{"):
            try:
                question = json.loads(question)
            except ValueError as error:
                raise InputError(f"{where}: {question!r:.60} is not JSON ({error})") from None
        if isinstance(question, str):
            question = self.columns.parse(question, where)
        if isinstance(question, Mapping):
            named = {str(name): value for name, value in question.items()}
            ids = [str(column) for column in self.columns.ids]
            if lacking := [name for name in ids if name not in named]:
                raise InputError(
                    f"{where}: the column {lacking[0]!r} is missing; this model reads "
                    f"{', '.join(ids)}; pass None if the value is missing"
                )
            return [named[name] for name in ids]
        if not isinstance(question, list | tuple):
            raise InputError(
                f"{where}: {question!r:.60} is not a row; pass a list of cells, or a dict with the "
                f"columns {', '.join(map(str, self.columns.ids))}"
            )
        return self.columns.cells_of(question, None, where)

    # ---- predictions ----

    def line_form(self, network: nn.Module) -> str:
        assert self.columns is not None
        return f"one row per line, with the cells {', '.join(map(str, self.columns.ids))}"

    def answer_json(self, line: str, answer: Any) -> dict[str, Any]:
        assert self.columns is not None
        row = self.row_of(line, "the text")
        return {"inputs": dict(zip(map(str, self.columns.ids), row, strict=True))}

    @property
    def notes_inputs(self) -> bool:
        return self.columns is not None

    def remarks(self, question: Any) -> list[str]:
        if self.columns is None:
            return []
        return self.columns.remarks(self.row_of(question, "the row"))

    def columns_read(self, columns: Mapping[str, ByRole]) -> dict[str, ByRole]:
        if self.columns is None:
            return dict(columns)
        return {**columns, "input": self.columns.ids}

    def text_of(self, record: Any) -> str:
        if self.columns is None or record.header is None:
            return super().text_of(record)
        return self.columns.line(record.inputs, record.header.columns)

    def text_of_row(self, row: Any) -> str:
        if self.columns is None:
            return super().text_of_row(row)
        return self.columns.line(self.row_of(row, "the row"), self.columns.ids)

    def reading_report(self) -> list[str]:
        return [] if self.columns is None else self.columns.report()

    # ---- sizes ----

    def sizes(self, item: Any) -> tuple[int, ...]:
        return (1,)

    def shorten(self, item: Any, max_length: int) -> Any:
        return item  # half a row has no meaning


def where_of(record: AnyRow, place: int) -> str:
    """The file, line and column of a cell, for messages."""
    column = place + 1 if record.header is None else record.header.columns[place]
    return f"{_place(record)}: column {column!r}"


def _place(record: AnyRow) -> str:
    """The file and line of a record, for messages."""
    return f"{'row' if record.header is None else record.header.file}:{record.line}"
