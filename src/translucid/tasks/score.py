"""How well a model does, what it does better than, and by which number the best one is chosen."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from translucid.tasks.resampling import Sums


@dataclass(frozen=True)
class Score:
    """How well a model does: named numbers, and notes such as a metric's signature."""

    numbers: dict[str, float]
    notes: tuple[str, ...] = ()
    # The very answers that were scored, a line of text for each example; none where a task gives
    # none.
    predictions: Sequence[str] = field(default=(), compare=False, repr=False)
    # Those of the numbers that are functions of sums over examples, by name. Computed when asked
    # for, with the network as it was scored.
    sums: Callable[[], Mapping[str, Sums]] = field(default=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """What goes into a pickle: all but the way back to the network."""
        return vars(self) | {"sums": dict}

    def line(self) -> str:
        return "  ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())

    def predictions_text(self) -> str:
        """The predictions as a file: as many lines as examples, whatever stands in an answer."""
        return "".join(" ".join(line.splitlines()) + "\n" for line in self.predictions)


@dataclass(frozen=True)
class Criterion:
    """Which of two scores is better: by a metric, and where that is equal, by the loss."""

    metric: str
    higher_is_better: bool = True

    def rank(self, numbers: Mapping[str, float]) -> tuple[float, float]:
        """The greater the better, as tuples are compared; what is no number is worse than all."""
        sign = 1.0 if self.higher_is_better else -1.0
        pair = sign * numbers[self.metric], -numbers.get("loss", 0.0)
        value, loss = (-math.inf if math.isnan(number) else number for number in pair)
        return value, loss


@dataclass(frozen=True)
class Baseline:
    """What needs no training: the score that a model must beat to have learned anything."""

    name: str  # what it does, such as "always the majority class"
    score: Score

    def better(self, numbers: Mapping[str, float], criterion: Criterion) -> bool:
        """Whether a model with these numbers is."""
        return criterion.rank(numbers)[0] > criterion.rank(self.score.numbers)[0]

    def line(self, part: str, numbers: Mapping[str, float], criterion: Criterion) -> str:
        """A model compared with it on a part of the data, in words."""
        metric = criterion.metric
        model, own = (f"{values[metric]:.4g}" for values in (numbers, self.score.numbers))
        if self.better(numbers, criterion):
            return f"{part}: {metric} {model}; baseline ({self.name}) {own}"
        return (
            f"! {part}: {metric} {model} is NOT BETTER THAN THE BASELINE ({self.name}), {own}: "
            "it is of no use yet; look at the curve of the loss, train longer or with "
            "another training.learning_rate, and look for mistakes with --self-test"
        )
