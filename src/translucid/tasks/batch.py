"""A batch: the inputs of a network and the targets of its outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IGNORE = -100  # target of positions without a loss, such as padding; the same as in torch


@dataclass(frozen=True)
class Batch:
    """The inputs of a network, and the targets of its outputs."""

    inputs: dict[str, Tensor]
    targets: Tensor
    count: int  # the number of targets with a loss
    lines: tuple[int, ...] = ()  # the line numbers of the items in their file, for messages
    idle: bool = False  # without a loss; keeps processes in step if one has fewer batches
    first: bool = False  # the first of an epoch, where a carried state is reset

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to a device; asynchronously from pinned memory to a GPU."""
        aside = device.type == "cuda"
        inputs = {name: t.to(device, non_blocking=aside) for name, t in self.inputs.items()}
        return replace(self, inputs=inputs, targets=self.targets.to(device, non_blocking=aside))


class PackedItems(Protocol):
    """Items packed into shared rows of a batch. Items in the same row do not attend to one
    another."""

    def collate(
        self, rows: Sequence[NDArray[np.int64]], count: int, lengths: Sequence[int]
    ) -> Batch:
        """Collate into a batch of `count` rows. rows: the indices of the items in each row; if
        there are fewer than `count` rows, the others are padding. lengths: the padded length of
        each side (source, target)."""
