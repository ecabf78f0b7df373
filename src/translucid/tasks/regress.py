"""Regression: predict numbers from numbers.

Unless data.standardise is false, the network's inputs and outputs are standardised to mean 0 and
deviation 1 of the training data. Inputs and predictions are in the units of the data.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError, RowError
from translucid.data.features import Columns
from translucid.data.readers.cells import as_number, is_plain_number
from translucid.data.readers.loading import Loading
from translucid.data.records import Numbers
from translucid.models.linear import LinearNumbers
from translucid.models.mlp import MLP, Perceptron
from translucid.tasks import metrics
from translucid.tasks.base import Score, Traits
from translucid.tasks.batch import Batch
from translucid.tasks.example import Example
from translucid.tasks.in_batches import in_batches
from translucid.tasks.input_notes import in_short
from translucid.tasks.options import DataConfig, Resources
from translucid.tasks.outputs import Scale, Values
from translucid.tasks.registry import task
from translucid.tasks.row_task import READ_NOTE, RowTask, where_of
from translucid.tasks.score import Baseline, one_answer
from translucid.tasks.significance import Sums, of_lines, ratio
from translucid.tasks.words import Words

LARGEST = torch.finfo(torch.float32).max
LOSS_NOTE = "loss: half the squared error of standardised outputs"
SCALE_NOTE = (
    "They are standardised: minus the mean of the training data, divided by its standard "
    "deviation, so that all inputs have the same scale."
)


@dataclass(frozen=True, slots=True)
class RegressItem:
    inputs: tuple[float, ...]  # numbers, or the features of a row of mixed columns
    targets: tuple[float, ...]
    line: int
    remarks: tuple[str, ...] = ()  # what is unlike the training data


@task
class Regress(RowTask[Numbers, RegressItem]):
    """Regression, trained on half the squared error and scored by R²."""

    name = "regress"
    metric = "r_squared"
    higher_is_better = True
    models = ("mlp", "linear")
    shape = head = ""
    traits = Traits(
        row_columns=(),
        asks_about=("input",),
        baseline={"model": {"kind": "linear"}},
        cross_validated=True,
        suggested={
            "training": {
                "steps": 3000,
                "learning_rate": 3e-3,
                "batch_tokens": 256,
                "evaluate_every": 100,
                "patience": 8,
            }
        },
        data_keys=(
            "input_columns",
            "output_columns",
            "ignore_columns",
            "column_kinds",
            "decimal",
        ),
        decoding_keys=(),
        task_keys=(),
        loss_by_evaluating=True,
    )

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Numbers]:
        from translucid.data.readers import read  # most uses of a model read no files

        return read.read_numbers(
            files[0], inputs=data.input_columns or None, targets=data.output_columns or None,
            ignored=data.ignore_columns or (), mixed=True, rule=data.rule, loading=loading,
        )  # fmt: skip

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[Numbers]:
        for line in range(1, count + 1):
            x = 2 * random.Random(f"{split} {line}").random() - 1
            yield Numbers((x,), (math.sin(math.pi * x),), line)

    @classmethod
    def check_held_out(
        cls, train: Sequence[Numbers], held_out: Sequence[Numbers], file: str
    ) -> None:
        """Raise an error if held-out rows have a different number of columns than the training
        data."""
        wanted = len(train[0].inputs), len(train[0].targets)
        for record in held_out:
            columns = len(record.inputs), len(record.targets)
            if columns != wanted:
                raise InputError(
                    f"{file}:{record.line}: {columns[0]} inputs and {columns[1]} outputs, but the "
                    f"training data has {wanted[0]} and {wanted[1]}; use the same columns"
                )

    @classmethod
    def smallest_sizes(cls) -> dict[str, Any]:
        return {"inputs": 1, "outputs": 1}

    @classmethod
    def network_sizes(cls, resources: Resources, train: Sequence[Numbers]) -> dict[str, Any]:
        inputs = len(train[0].inputs)
        if "columns" in resources.statistics:
            inputs = len(Columns.read(resources.statistics["columns"]).names)
        return {"inputs": inputs, "outputs": len(train[0].targets)}

    @classmethod
    def measure(cls, train: Sequence[Numbers], data: DataConfig) -> dict[str, Any]:
        """The statistics to store with the model: the means and deviations of the numbers. For a
        table with cells that are not numbers, the columns replace the statistics of the inputs."""
        mixed = not all(is_plain_number(cell) for record in train for cell in record.inputs)
        read: dict[str, Any] = {}
        if mixed or data.column_kinds:
            read["columns"] = cls.learn_columns(train, data).as_json()
        elif data.standardise:
            read["inputs"] = asdict(Scale.of([_numbers_of(record) for record in train], "input"))
        if data.standardise:
            read["targets"] = asdict(Scale.of([record.targets for record in train], "output"))
        return read

    @classmethod
    def make(cls, resources: Resources) -> Self:
        read = dict(resources.statistics)
        columns = Columns.read(read.pop("columns")) if "columns" in read else None
        return cls(**{side: Scale(**scale) for side, scale in read.items()}, columns=columns)

    def __init__(
        self,
        inputs: Scale | None = None,
        targets: Scale | None = None,
        columns: Columns | None = None,
    ) -> None:
        self.input_scale, self.target_scale, self.columns = inputs, targets, columns
        if columns is not None:
            self.samples = (columns.example(),)

    def line_form(self, network: nn.Module) -> str:
        if self.columns is not None:
            return super().line_form(network)
        wanted, _ = _columns(network)
        example = " ".join(map(str, range(wanted)))
        return f"{wanted} number{'s' * (wanted > 1)} per line, such as {example}"

    def read_line(self, line: str, where: str, network: nn.Module) -> RegressItem:
        """Parse numbers separated by commas or spaces, or the cells of a row."""
        if self.columns is not None:
            return self.row_item(line, (), where)
        (wanted, _), cells = _columns(network), line.replace(",", " ").split()
        if len(cells) != wanted:
            raise InputError(
                f"{where}: this model takes {wanted} number{'s' * (wanted > 1)}, but the input "
                f"{line!r:.60} has {len(cells)}; separate numbers by commas or spaces"
            )
        row = [as_number(cell, f"{where}: number {i}") for i, cell in enumerate(cells, start=1)]
        self._check_size(row, where)
        return RegressItem(tuple(row), (), 0)

    def row_item(self, row: Any, named: Any, where: str) -> RegressItem:
        """Convert a Python row to an item: cells in order, or a dict by column name."""
        if self.columns is not None:
            cells = self.row_of(row, where)
            return RegressItem(tuple(self.columns.encode(cells, where, self.columns.ids)), (), 0)
        try:
            values = [row[name] for name in named] if isinstance(row, Mapping) else row
            numbers = tuple(float(value) for value in values)
        except (KeyError, TypeError, ValueError):
            names = ", ".join(map(str, named if isinstance(named, list | tuple) else ()))
            raise InputError(
                f"{where}: {row!r:.80} is not a row of numbers; pass a list of rows, each a list "
                "of numbers or a dict with the column names of the training data "
                f"({names or 'it had none'})"
            ) from None
        self._check_size(numbers, where)
        return RegressItem(numbers, (), 0)

    def _check_size(self, numbers: Sequence[float], where: str) -> None:
        """Raise an error for finite numbers that overflow in the model's 32-bit arithmetic."""
        scale = self.input_scale
        known = scale is not None and len(scale.mean) == len(numbers)  # otherwise rejected later
        scaled = scale.apply(numbers) if scale is not None and known else numbers
        for number, as_read in zip(numbers, scaled, strict=True):
            if math.isfinite(number) and max(abs(number), abs(as_read)) > LARGEST:
                raise InputError(
                    f"{where}: {number:g} overflows: the model computes with 32-bit numbers, at "
                    f"most {LARGEST:.2g} in size; use a smaller number"
                )

    def answer_text(self, answer: list[float]) -> str:
        return " ".join(f"{number:.6g}" for number in answer)

    def answer_json(self, line: str, answer: list[float]) -> dict[str, Any]:
        if self.columns is not None:
            return super().answer_json(line, answer) | {"outputs": answer}
        inputs = [float(cell) for cell in line.replace(",", " ").split()]
        return {"inputs": inputs, "outputs": answer}

    def check_item(self, item: RegressItem, where: str, network: nn.Module) -> None:
        """Raise an error if a row has a different number of columns than the training data."""
        takes, gives = _columns(network)
        columns = len(item.inputs), len(item.targets) or gives
        if columns != (takes, gives):
            raise InputError(
                f"{where}: {columns[0]} inputs and {columns[1]} outputs, but the model takes "
                f"{takes} and gives {gives}; choose the columns with "
                "data.input_columns and data.output_columns"
            )

    def check_question(self, question: Any, where: str, network: nn.Module) -> None:
        if isinstance(question, str):
            self.check_line(question, where, network)
        elif self.columns is not None:
            self.check_item(self.row_item(question, (), where), where, network)
        else:
            self.check_item(RegressItem(tuple(question), (), 0), where, network)

    def predict_columns(
        self, model: nn.Module, questions: Sequence[Any], *, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """The predictions as table columns, numbered if there are several. questions: lines, or
        rows of numbers."""
        if probabilities:
            raise ConfigError(
                "--probabilities: a regression model predicts numbers; omit the option"
            )
        items = [
            self.read_line(question, f"text {n}", model)
            if isinstance(question, str)
            else self.row_item(question, (), f"row {n}")
            for n, question in enumerate(questions, start=1)
        ]
        return [
            {f"predicted_{n}" if len(row) > 1 else "predicted": y for n, y in enumerate(row, 1)}
            for row in self.predict(model, items)
        ]

    def encode(self, record: Numbers) -> RegressItem:
        if self.columns is not None:
            return RegressItem(self.features_of(record), record.targets, record.line)
        return RegressItem(_numbers_of(record), record.targets, record.line)

    def held_out_items(self, records: Sequence[Numbers], row: int) -> list[RegressItem]:
        return [replace(self.encode(one), remarks=self.remarks_of(one)) for one in records]

    def targets(self, item: RegressItem) -> int:
        return len(item.targets)

    def collate(self, items: Sequence[RegressItem]) -> Batch:
        x = _tensor([item.inputs for item in items], self.input_scale)
        y = _tensor([item.targets for item in items], self.target_scale)
        return Batch({"x": x}, y, y.numel(), tuple(item.line for item in items))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return 0.5 * (model(**batch.inputs) - batch.targets).square().sum()

    def predict(self, model: nn.Module, items: Sequence[RegressItem]) -> list[list[float]]:
        answers = self._answers(model, items)
        for row in _overflowed(answers):
            inputs = " ".join(f"{number:g}" for number in items[row].inputs)
            raise RowError(
                row,
                f"for the input {inputs:.60}, the model's output is not finite, because its "
                "numbers overflow; use smaller numbers",
            )
        return answers

    def followed(self, model: nn.Module, text: str, target: str | None) -> list[float]:
        """The prediction, even if it is not finite because training diverges."""
        return self._answers(model, [self.read_line(text, "text", model)])[0]

    def _answers(self, model: nn.Module, items: Sequence[RegressItem]) -> list[list[float]]:
        def act(batch: Batch) -> list[list[float]]:
            outputs = model(**batch.inputs)  # (batch,) for a perceptron
            return self.outputs.plain(outputs if outputs.dim() > 1 else outputs[:, None])

        return in_batches(model, items, self, act)

    def evaluate(self, model: nn.Module, items: Sequence[RegressItem]) -> Score:
        answers = self._answers(model, items)
        lost = len(_overflowed(answers))
        lines = [self.answer_text(answer) for answer in answers]
        return replace(
            self._score(answers, items), predictions=lines, sums=lambda: self._sums(answers, items),
            warnings=(
                *one_answer(lines, [item.targets for item in items], "row"),
                *in_short([item.remarks for item in items]),
                *([f"{lost:,} of {len(items):,} rows: the output is not finite"] if lost else ()),
            ),
        )  # fmt: skip

    def _sums(
        self, predicted: Sequence[Sequence[float]], items: Sequence[RegressItem]
    ) -> dict[str, Sums]:
        lines, units = [item.line for item in items], self._units
        errors, learned = [], []
        for row, item in zip(predicted, items, strict=True):
            off = [p - g for p, g in zip(row, item.targets, strict=True)]
            wanted = item.targets
            squares = sum(error**2 for error in off)
            errors.append((squares, float(len(off)), sum(wanted), sum(y**2 for y in wanted)))
            scaled = sum((e / units[i % len(units)]) ** 2 for i, e in enumerate(off))
            learned.append((scaled / 2, float(len(off))))
        return {
            "r_squared": of_lines(lines, errors, metrics.r_squared_of_sums),
            "rmse": of_lines(lines, errors, lambda sums: ratio(sums) ** 0.5),
            "loss": of_lines(lines, learned, ratio),
        }

    @property
    def units(self) -> Mapping[str, tuple[str, object]]:
        scale = self.target_scale
        own = None if scale is None else (*scale.mean, *scale.deviation)
        return {"loss": ("in standard deviations of the model's own training data", own)}

    @property
    def _units(self) -> Sequence[float]:
        return [1.0] if self.target_scale is None else self.target_scale.deviation

    def baseline(self, train: Sequence[RegressItem], held_out: Sequence[RegressItem]) -> Baseline:
        columns = zip(*(item.targets for item in train), strict=True)
        mean = [math.fsum(column) / len(train) for column in columns]
        return Baseline("the training mean", self._score([mean] * len(held_out), held_out))

    def _score(self, predicted: Sequence[Sequence[float]], items: Sequence[RegressItem]) -> Score:
        """R² and RMSE in the units of the data; the loss as in training."""
        made = [y for row in predicted for y in row]
        gold = [y for item in items for y in item.targets]
        errors = [p - g for p, g in zip(made, gold, strict=True)]
        units = self._units
        count = max(len(gold), 1)
        squared = sum(error**2 for error in errors)
        learned = sum((error / units[i % len(units)]) ** 2 for i, error in enumerate(errors))
        numbers = {
            "r_squared": metrics.r_squared(made, gold),
            "rmse": (squared / count) ** 0.5,
            "loss": learned / 2 / count,
        }
        return Score(numbers, () if self.target_scale is None else (LOSS_NOTE,))

    # ---- tracing and the studio ----

    samples = ("0.5",)

    def example(self, text: str, target: str | None = None) -> Example:
        """Make an example from input numbers and target numbers, separated by commas or spaces."""
        if self.columns is not None:
            return self._row_example(text, target)
        inputs, targets = _numbers(text), _numbers(target or "")
        batch = self.collate([RegressItem(inputs, targets, 0)])
        mark = "" if self.input_scale is None else " (standardised)"
        features = tuple(f"x{number}{mark}" for number in range(1, len(inputs) + 1))
        return Example(text, batch, Words(features=features), note=mark and SCALE_NOTE)

    def _row_example(self, text: str, target: str | None) -> Example:
        assert self.columns is not None
        cells = self.row_of(text, "the text")
        item = replace(self.row_item(cells, (), "the text"), targets=_numbers(target or ""))
        words = Words(features=self.columns.described(cells))
        return Example(text, self.collate([item]), words, note=READ_NOTE)

    @property
    def outputs(self) -> Values:
        return Values(self.target_scale)


def _numbers_of(record: Numbers) -> tuple[float, ...]:
    """The inputs of a record that has only numbers; raise an error for a cell that is not a
    number."""
    cells = enumerate(record.inputs)
    return tuple(as_number(cell, where_of(record, place)) for place, cell in cells)


def _columns(network: nn.Module) -> tuple[int, int]:
    """The number of inputs and of outputs of a network."""
    if isinstance(network, Perceptron):
        return network.config.inputs, 1
    assert isinstance(network, MLP | LinearNumbers)
    inputs = network.config.inputs
    assert inputs is not None, "a network for numbers"
    return inputs, network.config.outputs


def _overflowed(answers: Sequence[Sequence[float]]) -> list[int]:
    """The indices of the rows that have an output that is not finite."""
    return [row for row, answer in enumerate(answers) if not all(map(math.isfinite, answer))]


def _tensor(rows: Sequence[Sequence[float]], scale: Scale | None) -> Tensor:
    read = rows if scale is None else [scale.apply(row) for row in rows]
    return torch.tensor(read, dtype=torch.float32)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(cell) for cell in text.replace(",", " ").split())
    except ValueError as error:
        raise InputError(
            f"{text!r} is not a list of numbers; separate numbers by commas or spaces"
        ) from error
