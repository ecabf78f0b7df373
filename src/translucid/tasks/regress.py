"""Regression: predict numbers from the rows of a table.

Unless data.standardise is false, the network's inputs and outputs are standardised to mean 0 and
deviation 1 of the training data. Inputs and predictions are in the units of the data.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError, RowError
from translucid.data.features import Columns
from translucid.data.readers.loading import Columns as ByRole
from translucid.data.readers.loading import Loading
from translucid.data.records import Header, TableRow
from translucid.tasks import metrics
from translucid.tasks.base import Score, Traits
from translucid.tasks.batch import Batch
from translucid.tasks.example import Example
from translucid.tasks.in_batches import in_batches
from translucid.tasks.input_notes import in_short
from translucid.tasks.options import DataConfig, Resources
from translucid.tasks.outputs import Scale, Values
from translucid.tasks.registry import task
from translucid.tasks.row_task import RowItem, RowTask
from translucid.tasks.score import Baseline, one_answer
from translucid.tasks.significance import Sums, of_lines, ratio

LOSS_NOTE = "loss: half the squared error of standardised outputs"


@task
class Regress(RowTask):
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
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[TableRow]:
        from translucid.data.readers import read  # most uses of a model read no files

        return read.read_numbers(
            files[0], inputs=data.input_columns or None, targets=data.output_columns or None,
            ignored=data.ignore_columns or (), decimal=data.decimal, rule=data.rule,
            loading=loading,
        )  # fmt: skip

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[TableRow]:
        for line in range(1, count + 1):
            x = 2 * random.Random(f"{split} {line}").random() - 1
            yield TableRow((x,), (math.sin(math.pi * x),), line, Header("data.toyland", ("x",)))

    @classmethod
    def check_held_out(
        cls, train: Sequence[TableRow], held_out: Sequence[TableRow], file: str
    ) -> None:
        """Raise an error if held-out rows have a different number of columns than the training
        data."""
        wanted = len(train[0].inputs), len(train[0].outputs)
        for record in held_out:
            columns = len(record.inputs), len(record.outputs)
            if columns != wanted:
                raise InputError(
                    f"{file}:{record.line}: {columns[0]} inputs and {columns[1]} outputs, but the "
                    f"training data has {wanted[0]} and {wanted[1]}; use the same columns"
                )

    @classmethod
    def smallest_sizes(cls) -> dict[str, Any]:
        return {"inputs": 1, "outputs": 1}

    @classmethod
    def network_sizes(cls, resources: Resources, train: Sequence[TableRow]) -> dict[str, Any]:
        return super().network_sizes(resources, train) | {"outputs": len(train[0].outputs)}

    @classmethod
    def measure(cls, train: Sequence[TableRow], data: DataConfig) -> dict[str, Any]:
        read = super().measure(train, data)
        if data.standardise:
            read["targets"] = asdict(Scale.of([_targets(record) for record in train], "output"))
        return read

    @classmethod
    def restore_statistics(
        cls, statistics: dict[str, Any], inputs: int, columns: Mapping[str, ByRole]
    ) -> dict[str, Any]:
        """Numbers were once stored with their scale only, or with nothing."""
        if "columns" in statistics:
            return statistics
        names, scale = columns.get("input"), statistics.get("inputs")
        if not isinstance(names, tuple) or len(names) != inputs:
            names = tuple(f"x{number}" for number in range(1, inputs + 1))
        stored = () if scale is None else asdict(Scale(**scale)).values()
        if any(len(values) != inputs for values in stored):
            raise TypeError(f"the model has {inputs} inputs, but not as many means and deviations")
        kept = {key: value for key, value in statistics.items() if key != "inputs"}
        return {"columns": Columns.numbers(names, *stored).as_json(), **kept}

    @classmethod
    def make(cls, resources: Resources) -> Self:
        read = resources.statistics
        targets = Scale(**read["targets"]) if "targets" in read else None
        return cls(Columns.read(read["columns"]), targets)

    def __init__(self, columns: Columns, targets: Scale | None = None) -> None:
        super().__init__(columns)
        self.target_scale = targets

    def answer_text(self, answer: list[float]) -> str:
        return " ".join(f"{number:.6g}" for number in answer)

    def answer_json(self, line: str, answer: list[float]) -> dict[str, Any]:
        return super().answer_json(line, answer) | {"outputs": answer}

    def check_item(self, item: RowItem, where: str, network: nn.Module) -> None:
        super().check_item(item, where, network)
        gives = getattr(network.config, "outputs", 1)
        if item.targets and len(item.targets) != gives:
            raise InputError(
                f"{where}: {len(item.targets)} outputs, but the model gives {gives}; choose the "
                "columns with data.output_columns"
            )

    def predict_columns(
        self, model: nn.Module, questions: Sequence[Any], *, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """The predictions as table columns, numbered if there are several."""
        if probabilities:
            raise ConfigError(
                "--probabilities: a regression model predicts numbers; omit the option"
            )
        items = [self.row_item(row, f"row {n}") for n, row in enumerate(questions, start=1)]
        return [
            {f"predicted_{n}" if len(row) > 1 else "predicted": y for n, y in enumerate(row, 1)}
            for row in self.predict(model, items)
        ]

    def targets_of(self, record: TableRow) -> tuple[float, ...]:
        return _targets(record)

    def collate(self, items: Sequence[RowItem]) -> Batch:
        targets = [item.targets for item in items]
        scaled = [self.target_scale.apply(row) for row in targets] if self.target_scale else targets
        y = torch.tensor(scaled, dtype=torch.float32)
        lines = tuple(item.line for item in items)
        return Batch({"x": self.features(items)}, y, y.numel(), lines)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return 0.5 * (model(**batch.inputs) - batch.targets).square().sum()

    def predict(self, model: nn.Module, items: Sequence[RowItem]) -> list[list[float]]:
        answers = self._answers(model, items)
        for row in _overflowed(answers):
            raise RowError(
                row,
                "the model's output is not finite for this row, because its numbers overflow; use "
                "smaller numbers",
            )
        return answers

    def followed(self, model: nn.Module, text: str, target: str | None) -> list[float]:
        """The prediction, even if it is not finite because training diverges."""
        return self._answers(model, [self.row_item(text, "text")])[0]

    def _answers(self, model: nn.Module, items: Sequence[RowItem]) -> list[list[float]]:
        def act(batch: Batch) -> list[list[float]]:
            outputs = model(**batch.inputs)  # (batch,) for a perceptron
            return self.outputs.plain(outputs if outputs.dim() > 1 else outputs[:, None])

        return in_batches(model, items, self, act)

    def evaluate(self, model: nn.Module, items: Sequence[RowItem]) -> Score:
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
        self, predicted: Sequence[Sequence[float]], items: Sequence[RowItem]
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

    def baseline(self, train: Sequence[RowItem], held_out: Sequence[RowItem]) -> Baseline:
        columns = zip(*(item.targets for item in train), strict=True)
        mean = [math.fsum(column) / len(train) for column in columns]
        return Baseline("the training mean", self._score([mean] * len(held_out), held_out))

    def _score(self, predicted: Sequence[Sequence[float]], items: Sequence[RowItem]) -> Score:
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

    def example(self, text: str, target: str | None = None) -> Example:
        """Make an example from a row as text and target numbers, separated by commas or spaces."""
        return self.row_example(text, _numbers(target or ""), ())

    @property
    def outputs(self) -> Values:
        return Values(self.target_scale)


def _targets(record: TableRow) -> tuple[float, ...]:
    return tuple(map(float, record.outputs))


def _overflowed(answers: Sequence[Sequence[float]]) -> list[int]:
    """The indices of the rows that have an output that is not finite."""
    return [row for row, answer in enumerate(answers) if not all(map(math.isfinite, answer))]


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(cell) for cell in text.replace(",", " ").split())
    except ValueError as error:
        raise InputError(
            f"{text!r} is not a list of numbers; separate numbers by commas or spaces"
        ) from error
