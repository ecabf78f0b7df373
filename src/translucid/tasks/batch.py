"""A batch: the inputs of a network and the targets of its outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IGNORE = -100  # a target that does not count (padding, a later subword): what torch leaves out


@dataclass(frozen=True)
class Batch:
    """The inputs of a model and the targets of its outputs."""

    inputs: dict[str, Tensor]
    targets: Tensor
    count: int  # targets that count
    lines: tuple[int, ...] = ()  # the line numbers of the items in their file, for messages
    idle: bool = False  # its loss does not count: only there to keep step with other processes
    first: bool = False  # of an epoch, where a state that is carried begins anew

    def to(self, device: torch.device) -> "Batch":
        """On a device. A GPU copies from pinned memory while the CPU goes on."""
        aside = device.type == "cuda"
        inputs = {name: t.to(device, non_blocking=aside) for name, t in self.inputs.items()}
        return replace(self, inputs=inputs, targets=self.targets.to(device, non_blocking=aside))


class PackedItems(Protocol):
    """Items of which several share a row of a batch and do not see one another."""

    def collate(
        self, rows: Sequence[NDArray[np.int64]], count: int, lengths: Sequence[int]
    ) -> Batch:
        """Collate the items into `count` rows of these lengths; missing rows are padding."""
