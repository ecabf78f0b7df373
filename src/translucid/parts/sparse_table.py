"""A table in which most numbers are 0, such as the n-grams of one order or a bilingual lexicon.

The other numbers are sorted by a key, row * columns + column. So those of a row are adjacent, and
each is found by binary search.
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
    """Numbers between 0 and 1 by row and column. Row -1 means that there is none."""

    keys: Tensor  # (entries,), sorted

    def __init__(self, rows: int, columns: int, entries: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.register_buffer("keys", torch.zeros(entries, dtype=torch.long))
        self.values = nn.Parameter(torch.zeros(entries), requires_grad=False)

    def find(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The place of each entry among the keys; -1 if it is 0."""
        if not len(self.keys):
            return torch.full_like(rows, -1)
        keys = rows * self.columns + columns
        places = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where((rows >= 0) & (self.keys[places] == keys), places, -1)

    def add(self, rows: Tensor, to: Tensor) -> Tensor:
        """Add whole rows of the table to a dense tensor (..., columns), in place. rows: (...)"""
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
        """Raise an error if loaded entries are not sorted or out of range."""
        ordered = bool((self.keys.diff() > 0).all())
        limit = self.rows * self.columns
        if len(self.keys) and not (ordered and self.keys[0] >= 0 and self.keys[-1] < limit):
            raise InputError(
                f"the entries of {name} are not sorted, or out of range; copy the whole folder "
                "again"
            )
        check_fractions(self.values, name)

    @torch.no_grad()
    def filled(self: T, keys: Integers, values: Numbers) -> T:
        """This table, with these entries."""
        self.keys.copy_(torch.from_numpy(keys))
        self.values.copy_(torch.from_numpy(values))
        return self


def check_fractions(values: Tensor, name: str) -> None:
    """Raise an error if loaded values are not between 0 and 1."""
    if len(values) and not 0 <= values.min() <= values.max() <= 1:
        raise InputError(f"{name} has values below 0 or above 1; copy the whole folder again")
