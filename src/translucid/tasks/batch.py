"""A batch: the inputs of a network and the targets of its outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IGNORE = -100  # a target without a loss, such as padding; torch ignores it


@dataclass(frozen=True)
class Batch:
    """The inputs of a network, and the targets of its outputs."""

    inputs: dict[str, Tensor]
    targets: Tensor
    count: int  # the number of targets with a loss
    lines: tuple[int, ...] = ()  # the line numbers of the items in their file, for messages
    idle: bool = False  # has no loss; keeps processes in step when one has fewer batches
    first: bool = False  # the first of an epoch, where a carried state is reset

    def to(self, device: torch.device) -> "Batch":
        """Copy to a device; from pinned memory to a GPU without waiting."""
        aside = device.type == "cuda"
        inputs = {name: t.to(device, non_blocking=aside) for name, t in self.inputs.items()}
        return replace(self, inputs=inputs, targets=self.targets.to(device, non_blocking=aside))


class PackedItems(Protocol):
    """Items that share rows of a batch without attending to one another."""

    def collate(
        self, rows: Sequence[NDArray[np.int64]], count: int, lengths: Sequence[int]
    ) -> Batch:
        """Collate the items into `count` rows of these lengths; missing rows are padding."""
