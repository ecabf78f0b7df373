"""A table in which most numbers are 0, such as the n-grams of one order or a bilingual lexicon.

The other numbers are sorted by a key, row * columns + column. So the numbers of a row are adjacent,
and each number is found by binary search.
"""

from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from translucid.core.errors import InputError

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
T = TypeVar("T", bound="SparseTable")


class SparseTable(nn.Module):
    """Numbers between 0 and 1 by row and column. A row index of -1 means that there is no such
    row."""

    keys: Tensor  # (entries,), sorted

    def __init__(self, rows: int, columns: int, entries: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.register_buffer("keys", torch.zeros(entries, dtype=torch.long))
        self.values = nn.Parameter(torch.zeros(entries), requires_grad=False)

    def find(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The index of each number among the stored entries; -1 if the number is 0 and so not
        stored."""
        if not len(self.keys):
            return torch.full_like(rows, -1)
        keys = rows * self.columns + columns
        places = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where((rows >= 0) & (self.keys[places] == keys), places, -1)

    def add(self, rows: Tensor, to: Tensor) -> Tensor:
        """Add the rows of the table with these indices (...) to a dense tensor `to` (..., columns),
        in place."""
        wanted = rows.flatten()
        first, last = (torch.searchsorted(self.keys, (wanted + n) * self.columns) for n in (0, 1))
        counts = last - first
        row = torch.arange(len(wanted), device=rows.device).repeat_interleave(counts)
        offset = (first - (counts.cumsum(0) - counts)).repeat_interleave(counts)
        places = torch.arange(len(row), device=rows.device) + offset
        cells = row * self.columns + self.keys[places] % self.columns
        to.view(-1).index_add_(0, cells, self.values[places])
        return to

    def check(self, name: str) -> None:
        """Raise an error if loaded keys are not sorted or out of range, or if values are not
        between 0 and 1."""
        ordered = bool((self.keys.diff() > 0).all())
        limit = self.rows * self.columns
        if len(self.keys) and not (ordered and self.keys[0] >= 0 and self.keys[-1] < limit):
            raise InputError(
                f"the keys of {name} are not sorted or are out of range, so the file is damaged; "
                "copy the whole folder again"
            )
        check_fractions(self.values, name)

    @torch.no_grad()
    def filled(self: T, keys: Integers, values: Numbers) -> T:
        """Fill this table with these entries, and return it."""
        self.keys.copy_(torch.from_numpy(keys))
        self.values.copy_(torch.from_numpy(values))
        return self


def check_fractions(values: Tensor, name: str) -> None:
    """Raise an error if loaded values are not between 0 and 1."""
    if len(values) and not 0 <= values.min() <= values.max() <= 1:
        raise InputError(
            f"{name} contains values below 0 or above 1, so the file is damaged; copy the whole "
            "folder again"
        )
