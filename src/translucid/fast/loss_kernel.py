"""The cross-entropy of a training step on a GPU: logits are read once forward and once backward, or
once for both where what the loss is multiplied by is known before and a row fits into registers,
and never written as float32.

The plain twin is `tasks.batch.plain_cross_entropy`. Import this module only where Triton is.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # logits of a row at a time
WHOLE = 2**15  # or all of them, where there are no more


@triton.jit
def _loss(
    start, target, log_z, added, ignore, smoothing, allowed, never,
    NEVER: tl.constexpr, SMOOTH: tl.constexpr,
):  # fmt: skip
    """Of one row. added: the sum of its logits, for smoothing."""
    counts = target != ignore
    logit = tl.load(start + tl.where(counts, target, 0)).to(tl.float32)
    loss = log_z - logit
    if SMOOTH:
        for i in range(NEVER):
            added -= tl.load(start + tl.load(never + i)).to(tl.float32)
        loss = (1 - smoothing) * loss + smoothing * (log_z - added / allowed)
    return tl.where(counts, loss, 0.0)


@triton.jit
def _wanted(
    column, target, classes, smoothing, allowed, never, NEVER: tl.constexpr, SMOOTH: tl.constexpr
):
    """What the probabilities of some columns should be."""
    wanted = tl.where(column == target, 1.0, 0.0)
    if SMOOTH:
        spread = tl.where(column < classes, 1.0, 0.0)
        for i in range(NEVER):
            spread = tl.where(column == tl.load(never + i), 0.0, spread)
        wanted = (1 - smoothing) * wanted + smoothing * spread / allowed
    return wanted


@triton.jit
def _row(
    start, target, ignore, classes, smoothing, allowed, never,
    NEVER: tl.constexpr, SMOOTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """log Z of one row by a running maximum, and its loss."""
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
    loss = _loss(start, target, log_z, added, ignore, smoothing, allowed, never, NEVER, SMOOTH)
    return log_z, loss


@triton.jit
def _slope(
    start, column, target, log_z, ignore, classes, smoothing, allowed, never,
    NEVER: tl.constexpr, SMOOTH: tl.constexpr,
):  # fmt: skip
    """The gradient of some logits of a row: p - what p should be."""
    value = tl.load(start + column, column < classes, 0.0).to(tl.float32)
    wanted = _wanted(column, target, classes, smoothing, allowed, never, NEVER, SMOOTH)
    return tl.where(target != ignore, tl.exp(value - log_z) - wanted, 0.0)


@triton.jit
def loss_forward(
    logits, targets, losses, log_zs, row_stride, classes, ignore, smoothing, allowed, never,
    NEVER: tl.constexpr, SMOOTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    log_z, loss = _row(
        logits + row * row_stride, tl.load(targets + row), ignore, classes, smoothing, allowed,
        never, NEVER, SMOOTH, BLOCK,
    )  # fmt: skip
    tl.store(log_zs + row, log_z)
    tl.store(losses + row, loss)


@triton.jit
def loss_backward(
    logits, targets, log_zs, factor, gradient, row_stride, classes, ignore, smoothing, allowed,
    never, NEVER: tl.constexpr, SMOOTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    slope = _slope(
        logits + row * row_stride, column, tl.load(targets + row), tl.load(log_zs + row), ignore,
        classes, smoothing, allowed, never, NEVER, SMOOTH,
    )  # fmt: skip
    slope = (slope * tl.load(factor)).to(gradient.dtype.element_ty)
    tl.store(gradient + row * classes + column, slope, column < classes)


@triton.jit
def loss_and_gradient(
    logits, targets, losses, expected, gradient, row_stride, classes, ignore, smoothing, allowed,
    never, NEVER: tl.constexpr, SMOOTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Both of one row, of which all logits are at hand at once."""
    row = tl.program_id(0).to(tl.int64)
    start, target, factor = logits + row * row_stride, tl.load(targets + row), tl.load(expected)
    column = tl.arange(0, BLOCK)
    inside = column < classes
    value = tl.load(start + column, inside, -float("inf")).to(tl.float32)
    top = tl.max(value, axis=0)
    powers = tl.exp(value - tl.where(top == -float("inf"), 0.0, top))
    total = tl.sum(powers, axis=0)
    added = 0.0
    if SMOOTH:
        added = tl.sum(tl.where(inside, value, 0.0), axis=0)
    loss = _loss(
        start, target, tl.log(total) + top, added, ignore, smoothing, allowed, never, NEVER, SMOOTH
    )
    tl.store(losses + row, loss)
    wanted = _wanted(column, target, classes, smoothing, allowed, never, NEVER, SMOOTH)
    slope = tl.where(target != ignore, powers / total - wanted, 0.0) * factor
    tl.store(gradient + row * classes + column, slope.to(gradient.dtype.element_ty), inside)


@triton.jit
def rescale(gradient, factor, expected, count, BLOCK: tl.constexpr):
    """From the expected factor to the true one: nothing is read where they are the same."""
    true, was = tl.load(factor), tl.load(expected)
    if true != was:
        place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(gradient + place, place < count, 0.0).to(tl.float32) * (true / was)
        tl.store(gradient + place, value.to(gradient.dtype.element_ty), place < count)


_EXPECTED: ContextVar[Tensor | None] = ContextVar("expected", default=None)


@contextmanager
def expecting(scale: Tensor) -> Iterator[None]:
    """Within the block losses are made with their gradient, since they will be multiplied by
    `scale` (a float32 on the GPU, not 0) and nothing else. If not, the gradient is rescaled."""
    before = _EXPECTED.set(scale)
    try:
        yield
    finally:
        _EXPECTED.reset(before)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, smoothing: float, never: Tensor, ignore: int
    ) -> Tensor:
        rows, classes = logits.shape
        losses = logits.new_empty(rows, dtype=torch.float32)
        ctx.options = (classes, ignore, smoothing, classes - len(never), never)
        ctx.marks = {"NEVER": len(never), "SMOOTH": smoothing > 0, "BLOCK": BLOCK, "num_warps": 8}
        expected, stride = _EXPECTED.get(), logits.stride(0)
        if expected is not None and ctx.needs_input_grad[0] and classes <= WHOLE:
            ctx.gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
            block = triton.next_power_of_2(classes)
            at_once = ctx.marks | {"BLOCK": block, "num_warps": min(max(block // 1024, 4), 32)}
            loss_and_gradient[(rows,)](
                logits, targets, losses, expected, ctx.gradient, stride, *ctx.options, **at_once
            )
            ctx.save_for_backward(expected)
        else:
            ctx.gradient, log_zs = None, torch.empty_like(losses)
            loss_forward[(rows,)](
                logits, targets, losses, log_zs, stride, *ctx.options, **ctx.marks
            )
            ctx.save_for_backward(logits, targets, log_zs)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, *factors: Tensor) -> Any:
        factor = factors[0].float()
        if ctx.gradient is not None:
            gradient, (expected,), block = ctx.gradient, ctx.saved_tensors, 4 * BLOCK
            grid = (triton.cdiv(gradient.numel(), block),)
            rescale[grid](gradient, factor, expected, gradient.numel(), BLOCK=block, num_warps=8)
            return gradient, None, None, None, None
        logits, targets, log_zs = ctx.saved_tensors
        rows, classes = logits.shape
        gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
        loss_backward[(rows, triton.cdiv(classes, BLOCK))](
            logits, targets, log_zs, factor, gradient, logits.stride(0), *ctx.options, **ctx.marks
        )
        return gradient, None, None, None, None


def cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float, never: Sequence[int], ignore: int
) -> Tensor:
    """-Σ log p(target); logits (targets, classes) with their numbers side by side in each row."""
    columns = _on(tuple(never), logits.device)
    loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits, targets, smoothing, columns, ignore
    )
    return loss


_COLUMNS: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}


def _on(columns: tuple[int, ...], device: torch.device) -> Tensor:
    """On the device, copied once: a copy in every step would make the CPU wait."""
    if (columns, device) not in _COLUMNS:
        _COLUMNS[columns, device] = torch.tensor(columns, dtype=torch.long, device=device)
    return _COLUMNS[columns, device]
