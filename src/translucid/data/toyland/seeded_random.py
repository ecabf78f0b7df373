"""A random generator that gives the same choices on every machine.

Only `random()` is drawn from the standard generator: Python promises that its sequence never
changes for a given seed, which it does not promise for `choice` or `sample`.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    def __init__(self, key: str) -> None:
        self._random = Random(key).random

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def flip(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """Weights need not sum to one."""
        left = self._random() * sum(weight for weight, _ in options)
        for weight, option in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][1]
