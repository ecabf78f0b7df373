"""Base class for tasks that read the rows of a table.

The columns learned from the training data (`data/features.py`) turn the cells of a row into the
numbers that the network reads.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.data.column_kinds import Choices, learn
from translucid.data.features import Columns
from translucid.data.readers.loading import Columns as ByRole
from translucid.data.records import TableRow
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.base import Task
from translucid.tasks.example import Example
from translucid.tasks.options import DataConfig, Resources, TokenizerConfig
from translucid.tasks.words import Words


@dataclass(frozen=True, slots=True)
class RowItem:
    """A row as a network reads it."""

    features: tuple[float, ...]
    targets: tuple[float, ...] = ()  # numbers, or the place of a label; empty: to be predicted
    line: int = 0
    remarks: tuple[str, ...] = ()  # what is unlike the training data


class RowTask(Task[TableRow, RowItem]):
    """A task whose inputs are the cells of a row."""

    columns: Columns

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.samples = (columns.example(),)

    @classmethod
    def learn_tokenizers(cls, records: Any, options: TokenizerConfig) -> dict[str, Tokenizer]:
        return {}

    @classmethod
    def measure(cls, train: Sequence[TableRow], data: DataConfig) -> dict[str, Any]:
        """The columns, with the kind of each. Rows made by a program have no header."""
        header = train[0].header
        ids = range(1, len(train[0].inputs) + 1) if header is None else header.columns
        choices = Choices(
            data.column_kinds or {}, data.decimal, data.standardise, bool(data.input_columns)
        )
        places = [_place(row) for row in train]
        columns = learn(tuple(ids), [row.inputs for row in train], places, choices)
        return {"columns": columns.as_json()}

    @classmethod
    def network_sizes(cls, resources: Resources, train: Sequence[TableRow]) -> dict[str, Any]:
        return {"inputs": len(Columns.read(resources.statistics["columns"]).names)}

    # ---- items and batches ----

    def targets_of(self, record: TableRow) -> tuple[float, ...]:
        """The targets of a record: numbers, or the place of its label."""
        raise NotImplementedError

    def encode(self, record: TableRow) -> RowItem:
        header = None if record.header is None else record.header.columns
        features = self.columns.encode(record.inputs, _place(record), header)
        return RowItem(tuple(features), self.targets_of(record), record.line)

    def held_out_items(self, records: Sequence[TableRow], row: int) -> list[RowItem]:
        return [replace(self.encode(one), remarks=self._remarks_of(one)) for one in records]

    def _remarks_of(self, record: TableRow) -> tuple[str, ...]:
        """Describe how a record differs from the training data."""
        header = None if record.header is None else record.header.columns
        cells = self.columns.cells_of(record.inputs, header, _place(record))
        return tuple(self.columns.remarks(cells))

    def targets(self, item: RowItem) -> int:
        return len(item.targets)

    def features(self, items: Sequence[RowItem]) -> Tensor:
        """The features of several items: (items, features)."""
        return torch.tensor([item.features for item in items], dtype=torch.float32)

    def check_item(self, item: RowItem, where: str, network: nn.Module) -> None:
        wanted = getattr(network.config, "inputs", None)
        if len(item.features) != wanted:
            raise InputError(
                f"{where}: {len(item.features)} features, but the network reads {wanted}; copy the "
                "whole model again"
            )

    # ---- rows to predict ----

    def row_of(self, question: Any, where: str) -> list[Any]:
        """The cells that are read, from a line of text (CSV, or a JSON object), a dict by column
        name, or a list of cells."""
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
        if hasattr(question, "tolist"):  # numpy and torch
            question = question.tolist()
        if not isinstance(question, list | tuple):
            raise InputError(
                f"{where}: {question!r:.60} is not a row; pass a list of cells, or a dict with the "
                f"columns {', '.join(map(str, self.columns.ids))}"
            )
        return self.columns.cells_of(question, None, where)

    def row_item(self, row: Any, where: str) -> RowItem:
        """Convert a row to an item: a line, a list of cells, or a dict by column name."""
        cells = self.row_of(row, where)
        return RowItem(tuple(self.columns.encode(cells, where, self.columns.ids)))

    def read_line(self, line: str, where: str, network: nn.Module) -> RowItem:
        return self.row_item(line, where)

    def check_question(self, question: Any, where: str, network: nn.Module) -> None:
        self.check_item(self.row_item(question, where), where, network)

    def line_form(self, network: nn.Module) -> str:
        names = ", ".join(map(str, self.columns.ids))
        return f"one row per line, with the cells {names}, such as {self.samples[0]}"

    def answer_json(self, line: str, answer: Any) -> dict[str, Any]:
        return {"inputs": self.columns.named(self.row_of(line, "the text"))}

    @property
    def notes_inputs(self) -> bool:
        return True

    def remarks(self, question: Any) -> list[str]:
        return self.columns.remarks(self.row_of(question, "the row"))

    def columns_read(self, columns: Mapping[str, ByRole]) -> dict[str, ByRole]:
        return {**columns, "input": self.columns.ids}

    def text_of(self, record: TableRow) -> str:
        header = None if record.header is None else record.header.columns
        return self.columns.line(record.inputs, header)

    def text_of_row(self, row: Any) -> str:
        return self.columns.line(self.row_of(row, "the row"), self.columns.ids)

    def reading_report(self) -> list[str]:
        return self.columns.report()

    # ---- tracing and the studio ----

    def row_example(self, text: str, targets: tuple[float, ...], outputs: Sequence[str]) -> Example:
        """Make an example from a row as text. outputs: the names of the network's outputs."""
        cells = self.row_of(text, "the text")
        item = replace(self.row_item(cells, "the text"), targets=targets)
        words = Words(features=self.columns.described(cells), outputs=tuple(outputs))
        return Example(text, self.collate([item]), words, note=self.columns.note)

    # ---- sizes ----

    def sizes(self, item: Any) -> tuple[int, ...]:
        return (1,)

    def shorten(self, item: Any, max_length: int) -> Any:
        return item  # half a row has no meaning


def _place(record: TableRow) -> str:
    """The file and line of a record, for messages."""
    return f"{'row' if record.header is None else record.header.file}:{record.line}"
