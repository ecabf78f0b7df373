"""The sum of the residual and a branch, and its norm, as one GPU kernel.

The plain counterpart is `plain_kernels.add_norm`. This module needs Triton.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from translucid.fast.overlap import overlapped
from translucid.parts.norms import LayerNorm, RMSNorm


@triton.jit
def _add_norm(
    x, branch, gain, shift, out, rows, width, eps,
    PARTS: tl.constexpr, LAYER: tl.constexpr, SHIFTED: tl.constexpr, KEEP_SUM: tl.constexpr,
    BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    if OVERLAPS:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BLOCK)
    inside = n < width
    at = row * width + n
    total = tl.load(x + at, inside, 0.0)
    if PARTS > 0:
        total = total.to(tl.float32)
        for part in tl.static_range(PARTS):
            total += tl.load(branch + part * rows * width + at, inside, 0.0).to(tl.float32)
        total = total.to(x.dtype.element_ty)
        if KEEP_SUM:
            tl.store(x + at, total, inside)
    value = total.to(tl.float32)
    if LAYER:
        value = tl.where(inside, value - tl.sum(value, axis=0) / width, 0.0)
    value = value / tl.sqrt(tl.sum(value * value, axis=0) / width + eps)
    value = value * tl.load(gain + n, inside, 0.0).to(tl.float32)
    if SHIFTED:
        value += tl.load(shift + n, inside, 0.0).to(tl.float32)
    tl.store(out + at, value.to(out.dtype.element_ty), inside)


def add_norm(x: Tensor, branch: Tensor | None, norm: nn.Module, *, keep_sum: bool) -> Tensor:
    """Return norm(x + branch). With `keep_sum`, x is changed in place to the sum. x, branch: (rows,
    width), or branch: its parts (parts, rows, width), as `linear` returns them."""
    assert isinstance(norm, LayerNorm | RMSNorm)
    shift = norm.shift if isinstance(norm, LayerNorm) else None
    out = torch.empty_like(x)
    rows, width = x.shape
    parts = 0 if branch is None else 1 if branch.dim() == 2 else len(branch)
    _add_norm[(rows,)](
        x, x if branch is None else branch, norm.gain, norm.gain if shift is None else shift, out,
        rows, width, norm.eps, PARTS=parts, LAYER=isinstance(norm, LayerNorm),
        SHIFTED=shift is not None, KEEP_SUM=keep_sum,
        BLOCK=triton.next_power_of_2(width), num_warps=4 if width <= 1024 else 8,
        **overlapped(x.device),
    )  # fmt: skip
    return out
