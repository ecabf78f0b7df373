"""Values at mean 0 and deviation 1: what a network for regression reads, and what it gives."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError


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
