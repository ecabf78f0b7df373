"""How to interpret the outputs of a network: the interface, and numeric outputs.

Figures, tables and pages that show answers use the `Outputs` of a task and need not know the task.
Shapes are those of one example, without the batch: (outputs,), or (length, outputs) if there is an
answer at each position.
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
    """Mean and standard deviation of each column of the training data, in float64."""

    mean: Sequence[float]
    deviation: Sequence[float]

    def __post_init__(self) -> None:
        numbers = [*self.mean, *self.deviation]
        if len(self.mean) != len(self.deviation) or not all(map(_is_number, numbers)):
            raise TypeError("mean and deviation must have the same number of values")
        if not all(value > 0 for value in self.deviation):
            raise TypeError(f"standard deviations must be above 0, not {min(self.deviation)}")

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]], columns: str) -> Self:
        """Compute the mean and deviation of each column; constant columns are only centred.
        columns: the word for a column in messages, such as input."""
        values = np.array(rows, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = values.mean(axis=0), values.std(axis=0)
        # Rounding can give a constant column a deviation that is not quite 0.
        constant = values.min(axis=0) == values.max(axis=0)
        mean[constant], deviation[constant] = values[0, constant], 1.0
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            place = int(np.argmin(np.isfinite(mean) & np.isfinite(deviation)))
            raise InputError(
                f"data.standardise: {columns} {place + 1} is too large to be standardised; use a "
                "different unit, or set data.standardise = false"
            )
        return cls(mean.tolist(), deviation.tolist())

    def apply(self, row: Sequence[float]) -> list[float]:
        """Standardise a row: (x - mean) / deviation; an empty row stays empty."""
        self._check(len(row) or len(self.mean))
        parts = zip(row, self.mean, self.deviation, strict=bool(row))
        return [(value - mean) / deviation for value, mean, deviation in parts]

    def undo(self, values: Tensor) -> Tensor:
        """Convert standardised values (..., columns) back to the units of the data."""
        self._check(values.shape[-1])
        mean, deviation = (
            torch.tensor(part, dtype=torch.float64) for part in (self.mean, self.deviation)
        )
        return values.detach().to("cpu", torch.float64) * deviation + mean

    def _check(self, columns: int) -> None:
        if columns != len(self.mean):
            raise InputError(
                f"got {columns} numbers, but the model was trained on rows of {len(self.mean)}; "
                f"pass {len(self.mean)}"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


@dataclass(frozen=True)
class Answer:
    """One output of a model: its position, its number and its name."""

    place: int | None  # None if there is one answer for the whole text
    choice: int
    name: str


@dataclass(frozen=True)
class Cell:
    """One value in a table of outputs, with its label."""

    label: str
    value: float
    chosen: bool = False  # by the model, or part of the given text
    wanted: bool = False  # the target, if given
    rank: int = 0  # rank of a probability among all, from 1; 0: not ranked


@dataclass(frozen=True)
class OutputRow:
    """The values for one token or step."""

    label: str
    cells: tuple[Cell, ...]
    head: int | None = None  # attention head; None: the mean over all heads
    remark: str = ""


@dataclass(frozen=True)
class Ending:
    """The last stage of an explanation: the outputs."""

    kind: Literal["choices", "values"]
    title: str
    sentence: str  # an explanation for newcomers
    rows: tuple[OutputRow, ...]
    happened: str = ""  # describes the most notable number
    came: bool = False  # `chosen` marks the next token of a given text
    note: str = ""  # for the end of the explanation


@dataclass(frozen=True)
class Caption:
    """The labels of a figure of the most probable outputs."""

    one: str
    many: str
    title: str
    axis: str  # the name of the positions
    note: str = ""


class Outputs(ABC):
    """The meaning of a network's outputs: numbers (`Values`), a label for the text (`OneLabel`), a
    tag for each word (`Tags`), or the next token at each position (`NextTokens`)."""

    kind: ClassVar[str]  # for the studio
    at_positions: ClassVar[bool] = False  # an answer at each position, or one for the whole text
    probabilities: ClassVar[bool] = True  # the softmax of the outputs is a distribution
    caption: ClassVar[Caption]  # of figures of the most probable outputs
    labels: tuple[str, ...] = ()  # the names of all outputs, if they are fixed
    tokenizer: Tokenizer | None = None  # of generated text

    @property
    def meaning(self) -> Any:
        """A value that is equal for two models if their outputs have the same meaning. None if
        outputs cannot be compared."""
        return self.labels or None

    @abstractmethod
    def name(self, number: int, before: int | None = None) -> str:
        """The name of an output. before: id of the previous token, if the output may continue its
        word."""

    @abstractmethod
    def plain(self, outputs: Tensor) -> Any:
        """The model's prediction as plain Python lists, strings and numbers."""

    # ---- targets ----

    @property
    @abstractmethod
    def lacking(self) -> str:
        """The end of the error message about an example without a target: what the user can do."""

    @abstractmethod
    def counts(self, targets: Tensor) -> Tensor:
        """A mask that is 1 or True for targets that count in the loss, and 0 or False elsewhere."""

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of every target of a batch, (targets,); 0 for targets that do not count."""

    @abstractmethod
    def summed_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of the losses, as in training but without label smoothing."""

    # ---- answers to explain ----

    @abstractmethod
    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        """One of the answers. of: its name or position; default: the one that `explain` shows."""

    @abstractmethod
    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        """All answers, in the order of the text."""

    @abstractmethod
    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        """Return the last sections of `explain`, which show the outputs; and the answer as text.
        top: number of answers to show."""


class Values(Outputs):
    """Numeric outputs, for a row of features or for a text.

    scale: for standardised outputs, converts them to the units of the data.
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
        return "pass the expected output values as target"

    def counts(self, targets: Tensor) -> Tensor:
        return torch.ones_like(targets)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted, made = targets.shape[-1], outputs.shape[-1]
        if wanted != made:
            raise InputError(
                f"the model gives {made} number{'s' * (made > 1)}, but the target has {wanted}; "
                f"pass a target with {made}"
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
                "The weighted sum of the last layer is the standardised answer. Multiplied by the "
                "standard deviation of the training data, plus the mean, it is in the units of "
                "the data."
            )
        last = Ending("values", "the outputs", sentence, tuple(rows))
        return [last], " ".join(f"{value:.6g}" for value in values)


def floats(value: Tensor) -> list[Any]:
    """Convert a tensor to lists of Python numbers; infinities become NaN."""
    wide = value.detach().to("cpu", torch.float64)
    values: list[Any] = wide.masked_fill(~wide.isfinite(), torch.nan).tolist()
    return values


def place_of(of: int | str, names: Sequence[str], message: str) -> int:
    """The index of the name `of`; if `of` is an index, check that it is valid. message: what
    precedes the list of names in errors."""
    listed = f"{message} {', '.join(names)}"
    if isinstance(of, str):
        places = [place for place, name in enumerate(names) if name == of]
        if len(places) == 1:
            return places[0]
        if places:
            raise InputError(
                f"of = {of!r} occurs {len(places)} times; pass its position: "
                f"{', '.join(map(str, places))}"
            )
        raise InputError(f"of = {of!r}: {listed}")
    if not -len(names) <= of < len(names):
        raise InputError(f"of = {of}: {listed}; the index must be between 0 and {len(names) - 1}")
    return of % len(names)
