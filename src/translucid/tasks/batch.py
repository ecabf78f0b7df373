"""What a network is called with, what it should have said, and the loss between the two."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from translucid.core.device import has_triton

IGNORE = -100  # a target that does not count (padding, a later subword): what torch leaves out


@dataclass(frozen=True)
class Batch:
    """What the model is called with, and what it should have said."""

    inputs: dict[str, Tensor]
    targets: Tensor
    count: int  # targets that count
    lines: tuple[int, ...] = ()  # where the items stand in their file, for messages
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
        """These items in so many rows of these lengths; rows that are not there are padding."""


def cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, never: Sequence[int] = ()
) -> Tensor:
    """-Σ log p(target), over the targets that are not IGNORE.

    Smoothing spreads that fraction of the target's mass over all classes but those in `never`: a
    word that no model may write, such as padding, gets none.
    """
    logits, targets = logits.flatten(0, -2), targets.flatten()  # (targets, classes), (targets,)
    if _in_one_kernel(logits):
        from translucid.fast import loss_kernel  # on demand: it needs Triton

        return loss_kernel.cross_entropy(
            logits, targets, smoothing=smoothing, never=never, ignore=IGNORE
        )
    if smoothing and _large_on_cpu(logits):
        from translucid.fast.cpu_loss import SmoothedCrossEntropy

        return SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            logits, targets, smoothing, never, IGNORE
        )
    return plain_cross_entropy(logits, targets, smoothing=smoothing, never=never)


def _large_on_cpu(logits: Tensor) -> bool:
    """Where a gradient is wanted of more logits than a cache holds."""
    wanted = logits.requires_grad and logits.device.type == "cpu" and logits.numel() >= 2**20
    return wanted and logits.dtype is torch.float32 and not torch.compiler.is_compiling()


def _in_one_kernel(logits: Tensor) -> bool:
    """Where each logit is read once; kernels for float64 are the plain ones."""
    return (
        logits.is_cuda
        and logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and logits.stride(-1) == 1
        and logits.numel() > 0
        and has_triton()
    )


def plain_cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, never: Sequence[int] = ()
) -> Tensor:
    """The same by torch's own operations; logits (targets, classes)."""
    logits = logits.float()
    if smoothing == 0:
        return F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
    # -log p(class) = log Z - logit(class) for every class. No index by a mask or a list, which
    # would make a GPU wait for the CPU.
    counts = targets != IGNORE
    log_z = logits.logsumexp(dim=-1)
    target_logits = logits.gather(1, targets.clamp(min=0)[:, None])[:, 0]
    allowed = logits.sum(dim=-1)
    for column in never:
        allowed = allowed - logits[:, column]
    hard = log_z - target_logits
    soft = log_z - allowed / (logits.shape[-1] - len(never))
    return (((1 - smoothing) * hard + smoothing * soft) * counts).sum()
