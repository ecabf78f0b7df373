"""Regression: numbers to numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from translucid.data.cells import as_number
from translucid.data.records import Numbers
from translucid.errors import InputError
from translucid.models.base import Network
from translucid.models.mlp import MLPConfig
from translucid.tasks import metrics
from translucid.tasks.base import Batch, Score, Task, TaskName, in_batches
from translucid.tasks.example import Example
from translucid.tasks.outputs import Values
from translucid.tasks.words import Words


@dataclass(frozen=True, slots=True)
class RegressItem:
    inputs: tuple[float, ...]
    targets: tuple[float, ...]
    line: int


class Regress(Task[Numbers, RegressItem]):
    """Half the squared error, as the worked examples have it."""

    name: ClassVar[TaskName] = "regress"
    metric = "r_squared"
    higher_is_better = True

    def encode(self, record: Numbers) -> RegressItem:
        return RegressItem(record.inputs, record.targets, record.line)

    def sizes(self, item: RegressItem) -> tuple[int, ...]:
        return (1,)

    def targets(self, item: RegressItem) -> int:
        return len(item.targets)

    def shorten(self, item: RegressItem, longest: int) -> RegressItem:
        return item  # a row of numbers is whole or useless

    def collate(self, items: Sequence[RegressItem]) -> Batch:
        x = torch.tensor([item.inputs for item in items], dtype=torch.float32)
        y = torch.tensor([item.targets for item in items], dtype=torch.float32)
        return Batch({"x": x}, y, y.numel(), tuple(item.line for item in items))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return 0.5 * (model(**batch.inputs) - batch.targets).square().sum()

    def predict(self, model: nn.Module, items: Sequence[RegressItem]) -> list[list[float]]:
        def act(batch: Batch) -> list[list[float]]:
            return model(**batch.inputs).tolist()

        return in_batches(model, items, self, act)

    def evaluate(self, model: nn.Module, items: Sequence[RegressItem]) -> Score:
        predicted = [y for row in self.predict(model, items) for y in row]
        gold = [y for item in items for y in item.targets]
        squared = sum((p - g) ** 2 for p, g in zip(predicted, gold, strict=True))
        return Score(
            {
                "r_squared": metrics.r_squared(predicted, gold),
                "rmse": (squared / max(len(gold), 1)) ** 0.5,
                "loss": squared / 2 / max(len(gold), 1),
            }
        )

    # ---- what people see ----

    samples = ("0.5",)
    loss_by_evaluating = True

    def example(self, text: str, target: str | None = None) -> Example:
        """Numbers, and those that should come out; separated by commas or spaces."""
        inputs, targets = _numbers(text), _numbers(target or "")
        batch = self.collate([RegressItem(inputs, targets, 0)])
        features = tuple(f"x{number}" for number in range(1, len(inputs) + 1))
        return Example(text, batch, Words(features=features))

    @property
    def outputs(self) -> Values:
        return Values()

    def check_text(self, text: str, network: Network, where: str) -> None:
        self.read_row(text, network, where)

    def read_row(self, text: str, network: Network, where: str) -> list[float]:
        """The numbers of a line, as many as the network takes; `where` begins a message."""
        assert isinstance(network.config, MLPConfig)
        wanted, cells = network.config.inputs, text.replace(",", " ").split()
        if len(cells) != wanted:
            count = f"{len(cells)} number{'' if len(cells) == 1 else 's'}"
            raise InputError(
                f"{where}: {count} in {text!r:.60}, but the model takes {wanted}; give that many, "
                "separated by commas or spaces"
            )
        return [as_number(c, f"{where}: number {i}") for i, c in enumerate(cells, start=1)]


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(cell) for cell in text.replace(",", " ").split())
    except ValueError as error:
        raise InputError(f"{text!r}: give numbers, separated by commas or spaces") from error
