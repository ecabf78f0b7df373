"""How well a model does, what it does better than, and by which number the best one is chosen."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """How well a model does: named numbers, and notes such as a metric's signature."""

    numbers: dict[str, float]
    notes: tuple[str, ...] = ()

    def line(self) -> str:
        return "  ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())


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
