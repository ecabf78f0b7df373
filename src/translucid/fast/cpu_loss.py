"""Cross-entropy with label smoothing on a CPU: its gradient is made with it, some rows at a time.

What the plain twin (`tasks.batch.plain_cross_entropy`) keeps and reads again for each of its
operations is here read and written while it is in the cache.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

CHUNK = 2**18  # logits that are read at a time


class SmoothedCrossEntropy(torch.autograd.Function):
    """The sum over all targets that count; logits (targets, classes)."""

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
        even = smoothing / (classes - len(never))  # mass of each class
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
            # p - (1 - smoothing) at the target - an even part everywhere but where never
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
