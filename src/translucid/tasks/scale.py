"""Values at mean 0 and deviation 1: what a network for regression reads, and what it gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from translucid.errors import InputError


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of each column, of the training data; in float64, as they were read."""

    mean: Sequence[float]
    deviation: Sequence[float]

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
        return [
            (value - mean) / deviation
            for value, mean, deviation in zip(row, self.mean, self.deviation, strict=bool(row))
        ]

    def undo(self, values: Tensor) -> Tensor:
        """Back in the units of the data. (..., columns)"""
        mean, deviation = (
            torch.tensor(part, dtype=torch.float64) for part in (self.mean, self.deviation)
        )
        return values.detach().to("cpu", torch.float64) * deviation + mean
