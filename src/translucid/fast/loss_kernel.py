"""Cross-entropy on a GPU. Logits are read once forward and once backward, and are never stored as
float32.

The plain counterpart is `tasks.loss.plain_cross_entropy`. This module needs Triton.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # logits of a row that are processed at a time


@triton.jit
def loss_forward(
    logits, targets, losses, log_zs, row_stride, classes, ignore, smoothing, allowed, never,
    NEVER: tl.constexpr, SMOOTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the loss of one row. log Z is computed with a running maximum, to avoid overflow."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * row_stride
    top = -float("inf")
    total = 0.0
    added = 0.0
    for first in range(0, classes, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < classes
        value = tl.load(start + column, inside, -float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(value, axis=0))
        safe = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(top - safe) + tl.sum(tl.exp(value - safe), axis=0)
        top = higher
        if SMOOTH:
            added += tl.sum(tl.where(inside, value, 0.0), axis=0)
    log_z = tl.log(total) + top
    tl.store(log_zs + row, log_z)
    target = tl.load(targets + row)
    counts = target != ignore
    logit = tl.load(start + tl.where(counts, target, 0)).to(tl.float32)
    loss = log_z - logit
    if SMOOTH:
        for i in range(NEVER):
            added -= tl.load(start + tl.load(never + i)).to(tl.float32)
        loss = (1 - smoothing) * loss + smoothing * (log_z - added / allowed)
    tl.store(losses + row, tl.where(counts, loss, 0.0))


@triton.jit
def loss_backward(
    logits, targets, log_zs, factor, gradient, row_stride, classes, ignore, smoothing, allowed,
    never, NEVER: tl.constexpr, SMOOTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the gradient for a block of a row's logits: factor (p - target probability)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < classes
    target = tl.load(targets + row)
    value = tl.load(logits + row * row_stride + column, inside, 0.0).to(tl.float32)
    wanted = tl.where(column == target, 1.0, 0.0)
    if SMOOTH:
        spread = tl.full([BLOCK], 1.0, tl.float32)
        for i in range(NEVER):
            spread = tl.where(column == tl.load(never + i), 0.0, spread)
        wanted = (1 - smoothing) * wanted + smoothing * spread / allowed
    value = tl.exp(value - tl.load(log_zs + row)) - wanted
    value = tl.where(target != ignore, value * tl.load(factor), 0.0)
    tl.store(gradient + row * classes + column, value.to(gradient.dtype.element_ty), inside)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, smoothing: float, never: Tensor, ignore: int
    ) -> Tensor:
        rows, classes = logits.shape
        losses = logits.new_empty(rows, dtype=torch.float32)
        log_zs = torch.empty_like(losses)
        ctx.options = (classes, ignore, smoothing, classes - len(never), never)
        ctx.marks = {"NEVER": len(never), "SMOOTH": smoothing > 0, "BLOCK": BLOCK, "num_warps": 8}
        loss_forward[(rows,)](
            logits, targets, losses, log_zs, logits.stride(0), *ctx.options, **ctx.marks
        )
        ctx.save_for_backward(logits, targets, log_zs)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, *factors: Tensor) -> Any:
        logits, targets, log_zs = ctx.saved_tensors
        rows, classes = logits.shape
        gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
        loss_backward[(rows, triton.cdiv(classes, BLOCK))](
            logits, targets, log_zs, factors[0].float(), gradient, logits.stride(0),
            *ctx.options, **ctx.marks,
        )  # fmt: skip
        return gradient, None, None, None, None


def cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float, never: Sequence[int], ignore: int
) -> Tensor:
    """The cross-entropy, summed over the targets that are not `ignore`. logits: (targets, classes),
    each row contiguous in memory."""
    columns = _on(tuple(never), logits.device)
    loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits, targets, smoothing, columns, ignore
    )
    return loss


_COLUMNS: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}


def _on(columns: tuple[int, ...], device: torch.device) -> Tensor:
    """The column indices as a tensor on the device, cached, since a copy in every step would
    synchronise the GPU."""
    if (columns, device) not in _COLUMNS:
        _COLUMNS[columns, device] = torch.tensor(columns, dtype=torch.long, device=device)
    return _COLUMNS[columns, device]
