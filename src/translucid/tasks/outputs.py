"""What a network's last values mean to people: the contract, and numbers by themselves.

Every picture, table and page that shows what a model says asks the `Outputs` of its task, never
which task that is. Shapes: of the one text of an example, without the batch: (outputs,), or
(length, outputs) where there is an answer at each position.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.example import Example


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of each column, of the training data; in float64, as they were read."""

    mean: Sequence[float]
    deviation: Sequence[float]

    def __post_init__(self) -> None:
        numbers = [*self.mean, *self.deviation]
        if len(self.mean) != len(self.deviation) or not all(map(_is_number, numbers)):
            raise TypeError("mean and deviation are as many numbers")
        if not all(value > 0 for value in self.deviation):
            raise TypeError("a deviation is above 0")

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]], columns: str) -> Self:
        """Measured; a constant column is only centred. columns: what they are, for a message."""
        values = np.array(rows, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = values.mean(axis=0), values.std(axis=0)
        # By its ends: rounding can give a constant column a deviation that is not quite 0.
        constant = values.min(axis=0) == values.max(axis=0)
        mean[constant], deviation[constant] = values[0, constant], 1.0
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            place = int(np.argmin(np.isfinite(mean) & np.isfinite(deviation)))
            raise InputError(
                f"data.standardise: {columns} {place + 1} is too large to be measured; give it in "
                "another unit, or set data.standardise = false"
            )
        return cls(mean.tolist(), deviation.tolist())

    def apply(self, row: Sequence[float]) -> list[float]:
        """(x - mean) / deviation; of a row that is not there, nothing."""
        self._check(len(row) or len(self.mean))
        parts = zip(row, self.mean, self.deviation, strict=bool(row))
        return [(value - mean) / deviation for value, mean, deviation in parts]

    def undo(self, values: Tensor) -> Tensor:
        """Back in the units of the data. (..., columns)"""
        self._check(values.shape[-1])
        mean, deviation = (
            torch.tensor(part, dtype=torch.float64) for part in (self.mean, self.deviation)
        )
        return values.detach().to("cpu", torch.float64) * deviation + mean

    def _check(self, columns: int) -> None:
        if columns != len(self.mean):
            raise InputError(
                f"{columns} numbers, but the model has the mean and deviation of {len(self.mean)}; "
                "give as many as it was trained on"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


@dataclass(frozen=True)
class Answer:
    """One number that a model gives: where, which, and what people call it."""

    place: int | None  # None where there is one answer for the whole text
    choice: int
    name: str


@dataclass(frozen=True)
class Cell:
    """One number and what it belongs to."""

    label: str
    value: float
    chosen: bool = False  # by the model, or what it was given to read
    wanted: bool = False  # what it should have said, where that was given
    rank: int = 0  # of a probability among all, from 1; 0: there is none


@dataclass(frozen=True)
class OutputRow:
    """What there is to say about one token, or about one step."""

    label: str
    cells: tuple[Cell, ...]
    head: int | None = None  # of attention; None: the mean over all heads
    remark: str = ""


@dataclass(frozen=True)
class Ending:
    """A last stage of a walk: what comes out."""

    kind: Literal["choices", "values"]
    title: str
    sentence: str  # for someone who meets it for the first time
    rows: tuple[OutputRow, ...]
    happened: str = ""  # the most remarkable of the numbers, in words
    came: bool = False  # what is marked came next in a text, it was not chosen here
    note: str = ""  # for the end of the walk


@dataclass(frozen=True)
class Caption:
    """What stands around a picture of the likeliest choices."""

    one: str
    many: str
    title: str
    axis: str  # what stands at each position
    note: str = ""


class Outputs(ABC):
    """What the last values of a network stand for. Numbers by themselves are `Values`, a label for
    the text `OneLabel`, a tag at each position `Tags`, the next token at each `NextTokens`."""

    kind: ClassVar[str]  # for the page
    at_positions: ClassVar[bool] = False  # an answer at each position, or one for the whole text
    probabilities: ClassVar[bool] = True  # the softmax makes a distribution of them
    caption: ClassVar[Caption]  # where likely choices are shown
    labels: tuple[str, ...] = ()  # of all outputs, where they have names that do not change
    tokenizer: Tokenizer | None = None  # of what the model writes, if it writes

    @property
    def meaning(self) -> Any:
        """What makes output i the same in two models; None: nothing does."""
        return self.labels or None

    @abstractmethod
    def name(self, number: int, before: int | None = None) -> str:
        """What one output stands for. before: the token read last, which a piece may go on with."""

    @abstractmethod
    def plain(self, outputs: Tensor) -> Any:
        """What the model says, as lists, words and numbers."""

    # ---- what it should have said ----

    @property
    @abstractmethod
    def lacking(self) -> str:
        """What to do where there is no target to compare with."""

    @abstractmethod
    def counts(self, targets: Tensor) -> Tensor:
        """Which targets count, as 0 and 1 or as booleans."""

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of every target of a batch by itself, 0 where there is none. (targets,)"""

    @abstractmethod
    def summed_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of those, as training has it but without smoothing."""

    # ---- what can be explained ----

    @abstractmethod
    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        """The answer that is asked for, by name or place; by default the one that matters most."""

    @abstractmethod
    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        """All, in the order of the text."""

    @abstractmethod
    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        """The last stages of a walk, and the answer in words. top: likely answers to show."""


class Values(Outputs):
    """Numbers that the network gives, for a row of features or for a text.

    scale: where the network gives standardised values, what brings them back to the units of the
    data.
    """

    kind = "values"
    probabilities = False

    def __init__(self, scale: Scale | None = None) -> None:
        self.scale = scale

    def name(self, number: int, before: int | None = None) -> str:
        return str(number)

    def plain(self, outputs: Tensor) -> Any:
        return (outputs if self.scale is None else self.scale.undo(outputs)).tolist()

    @property
    def lacking(self) -> str:
        return "give the values that should come out as target"

    def counts(self, targets: Tensor) -> Tensor:
        return torch.ones_like(targets)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted, made = targets.shape[-1], outputs.shape[-1]
        if wanted != made:
            raise InputError(
                f"the model gives {made} number{'s' * (made > 1)}, but the target has {wanted}; "
                "give as many"
            )
        return 0.5 * (outputs - targets).square().flatten()

    def summed_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.losses(outputs, targets).sum()

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        mark = "" if self.scale is None else " (standardised)"
        names = [f"output {number}{mark}" for number in range(1, len(outputs) + 1)]
        choice = 0 if of is None else place_of(of, names, "the answers are")
        return Answer(None, choice, names[choice])

    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        return [self.answer(example, outputs, choice) for choice in range(len(outputs))]

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        values = floats(
            outputs.reshape(-1) if self.scale is None else self.scale.undo(outputs.reshape(-1))
        )
        targets = example.batch.targets[0]
        wanted = (self.scale.undo(targets) if self.scale and len(targets) else targets).tolist()
        rows = [
            OutputRow(f"y{number}" if len(values) > 1 else "y", (Cell("", value, chosen=True),))
            for number, value in enumerate(values, start=1)
        ]
        if len(wanted) == len(values):
            rows = [
                OutputRow(row.label, (*row.cells, Cell("wanted", goal, wanted=True)))
                for row, goal in zip(rows, wanted, strict=True)
            ]
        sentence = "The weighted sum of the last layer is the answer."
        if self.scale is not None:
            sentence = (
                "The weighted sum of the last layer is the answer at mean 0 and deviation 1; times "
                "the deviation of the training data, plus its mean, it is in the data's own units."
            )
        last = Ending("values", "the outputs", sentence, tuple(rows))
        return [last], " ".join(f"{value:.6g}" for value in values)


def floats(value: Tensor) -> list[Any]:
    """Numbers, or lists of them, for Python; what is infinite is not shown."""
    wide = value.detach().to("cpu", torch.float64)
    values: list[Any] = wide.masked_fill(~wide.isfinite(), torch.nan).tolist()
    return values


def place_of(of: int | str, names: Sequence[str], message: str) -> int:
    """The place of what was asked for, by name or number."""
    listed = f"{message} {', '.join(names)}"
    if isinstance(of, str):
        places = [place for place, name in enumerate(names) if name == of]
        if len(places) == 1:
            return places[0]
        if places:
            raise InputError(
                f"of = {of!r}: it is there {len(places)} times; give its place: "
                f"{', '.join(map(str, places))}"
            )
        raise InputError(f"of = {of!r}: {listed}")
    if not -len(names) <= of < len(names):
        raise InputError(f"of = {of}: {listed}; give 0 to {len(names) - 1}")
    return of % len(names)
