"""Cross-entropy with label smoothing on a CPU, together with its gradient, in batches of rows.

The logits of a batch of rows fit in the processor's cache. The plain counterpart,
`tasks.loss.plain_cross_entropy`, reads all logits from memory for each of its operations.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

CHUNK = 2**18  # logits processed at a time


class SmoothedCrossEntropy(torch.autograd.Function):
    """The sum of the losses of all targets that are not ignored. logits: (targets, classes)."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        targets: Tensor,
        smoothing: float,
        never: Sequence[int],
        ignore: int,
    ) -> Tensor:
        classes = logits.shape[-1]
        gradient, total = torch.empty_like(logits), logits.new_zeros((), dtype=torch.float64)
        even = smoothing / (classes - len(never))  # probability that smoothing gives each class
        columns = torch.tensor(list(never), dtype=torch.int64)
        rows = max(CHUNK // classes, 1)
        parts = (tensor.split(rows) for tensor in (logits, targets, gradient))
        for some_logits, some_targets, part in zip(*parts, strict=True):
            torch.log_softmax(some_logits, dim=-1, out=part)
            counts = some_targets != ignore
            chosen = some_targets.clamp(min=0)[:, None]
            allowed = part.sum(dim=-1) - part[:, columns].sum(dim=-1)
            hard = part.gather(1, chosen)[:, 0]
            lost = -((1 - smoothing) * hard + even * allowed)
            total += (lost * counts).sum(dtype=torch.float64)
            # p, minus `even` except for the classes in `never`, minus 1 - smoothing at the target
            part.exp_().sub_(even)
            part[:, columns] += even
            part.scatter_add_(1, chosen, part.new_full(chosen.shape, smoothing - 1))
            if not bool(counts.all()):
                part.mul_(counts[:, None])
        ctx.save_for_backward(gradient)
        return total.to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream[0], None, None, None, None
