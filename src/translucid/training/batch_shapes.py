"""Batches in few shapes, for what is made once for every shape: a CUDA graph.

Lengths are rounded up, and rows are added that do not count: what is computed stays the same, but
for some padding.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.example import MASKS

SMALLEST = 4  # what a length is rounded up to at least; the more, the fewer shapes
SHORT = 128  # up to this length a mask that hides nothing is kept
FINENESS = 8  # lengths above 8 * SMALLEST are rounded up by less than this fraction of them


def few(lengths: Any, max_length: int) -> NDArray[np.int64]:
    """Lengths rounded up, further where they are long, but never above the longest there is."""
    lengths = np.asarray(lengths, dtype=np.int64)
    powers = 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    steps = np.maximum(powers // FINENESS, SMALLEST)
    return np.minimum(-(-lengths // steps) * steps, np.maximum(lengths, max_length))


def without_needless_masks(batch: Batch) -> Batch:
    """The same batch without masks that hide nothing: attention is a little faster without."""
    inputs = {
        name: t
        for name, t in batch.inputs.items()
        if name not in MASKS.values() or not bool(t.all())
    }
    return replace(batch, inputs=inputs)


def in_few_shapes(
    batch: Batch, budget: int, max_length: int, *, processes: int = 1, causal: bool = False,
    full: bool = False,
) -> Batch:  # fmt: skip
    """The same batch with more padding, and with rows that have no targets. causal: no token is
    read before those it has to say. full: no batch of the run has padding.

    It has as many rows as the budget of tokens holds (of several processes, its part of them), or
    half, a quarter, an eighth of them. Its loss is that of the batch: padding is hidden or stands
    behind all that is read, and targets that are IGNORE do not count.
    """
    inputs = {
        name: _lengthen(t, max_length, False if t.dtype is torch.bool else 0)
        for name, t in batch.inputs.items()
    }
    targets = _lengthen(batch.targets, max_length, IGNORE)
    count = len(targets)
    length = sum(t.shape[1] for t in inputs.values() if t.dtype is not torch.bool)
    rows = -(-(budget // length) // processes)
    while rows // 2 >= count:
        rows //= 2
    # Copies of a row that is there are as harmless as that one.
    chosen = torch.tensor([*range(count), *[0] * (rows - count)])
    targets = targets[chosen]
    targets[count:] = IGNORE
    needless = MASKS.values() if full else ("mask", "target_mask") if causal else ("target_mask",)
    inputs = {name: t[chosen] for name, t in inputs.items() if not _needless(name, t, needless)}
    return replace(batch, inputs=inputs, targets=targets)


def _needless(name: str, tensor: Tensor, behind: Collection[str]) -> bool:
    """Is it a mask without which attention computes the same, by a faster kernel? What the masks
    `behind` hide stands behind all that is read, so no position that counts sees it, or there is
    nothing. Of other short rows masks are kept, so that one kind of batch is compiled once."""
    if tensor.dtype is not torch.bool:
        return False
    return name in behind or (tensor.shape[1] > SHORT and bool(tensor.all()))


def _lengthen(tensor: Tensor, max_length: int, value: int) -> Tensor:
    """(rows, length) with its length rounded up; (rows,) as it is."""
    if tensor.dim() == 1:
        return tensor
    length = tensor.shape[1]
    return F.pad(tensor, (0, int(few(length, max_length)) - length), value=value)
