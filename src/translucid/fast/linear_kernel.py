"""Linear layers of a decoding step with what comes before and after them, as GPU kernels.

The plain counterparts are in `plain_kernels`. This module needs Triton.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from translucid.fast import plain_kernels
from translucid.fast.linear_tiles import activated, linear_tiles, tiled
from translucid.fast.norm_kernel import add_norm
from translucid.fast.overlap import FEW, overlapped
from translucid.parts.activations import ACTIVATIONS, ActivationName
from translucid.parts.feedforward import FeedForward, GatedFeedForward
from translucid.parts.norms import LayerNorm, RMSNorm

PROGRAMS = 528  # of a linear layer with many outputs


@triton.jit
def _few_rows(
    x, gain, shift, kept, weight, bias, residual, out, columns, inputs, eps,
    NORM: tl.constexpr, SHIFTED: tl.constexpr, KEEP: tl.constexpr, HAS_BIAS: tl.constexpr,
    ADDS: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr, MANY: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    """A linear layer for a few rows, with what comes before and after it. Each weight is read once,
    by one program, and before the values that it multiplies. LONG: the inputs are more than BLOCK,
    which excludes a norm. MANY: there are more columns than programs read at once."""
    if OVERLAPS:
        gdc_launch_dependents()
    program, programs = tl.program_id(0), tl.num_programs(0)
    n = program * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, BLOCK)
    w = weight + n[:, None].to(tl.int64) * inputs + k[None, :]
    # With a gate, the rows of `weight` after the first `columns` belong to what it multiplies.
    w_up = weight + (columns + n)[:, None].to(tl.int64) * inputs + k[None, :]
    inner = k < inputs
    both = (n < columns)[:, None] & inner[None, :]
    block = tl.load(w, both, 0.0)
    if GATED:
        block_up = tl.load(w_up, both, 0.0)
    if NORM != "":
        g = tl.load(gain + k, inner, 0.0)
        if SHIFTED:
            s = tl.load(shift + k, inner, 0.0)
    b = tl.zeros([COLUMNS], weight.dtype.element_ty)
    b_up = b
    if HAS_BIAS:
        b = tl.load(bias + n, n < columns, 0.0)
        if GATED:
            b_up = tl.load(bias + columns + n, n < columns, 0.0)
    if OVERLAPS:  # nothing before this uses a loaded value, so that no load is waited for
        gdc_wait()
    tiles = 1
    if MANY:
        tiles = tl.cdiv(columns - program * COLUMNS, programs * COLUMNS)
    for _ in range(tiles):
        inside = n < columns
        if MANY:
            next_n = n + programs * COLUMNS
            next_w = w + programs * COLUMNS * inputs
            both = (next_n < columns)[:, None] & inner[None, :]
            next_block = tl.load(next_w, both, 0.0)
            next_b = b
            if HAS_BIAS:
                next_b = tl.load(bias + next_n, next_n < columns, 0.0)
            if GATED:
                next_w_up = w_up + programs * COLUMNS * inputs
                next_up = tl.load(next_w_up, both, 0.0)
                next_b_up = b_up
                if HAS_BIAS:
                    at_up = bias + columns + next_n
                    next_b_up = tl.load(at_up, next_n < columns, 0.0)
        for m in tl.static_range(ROWS):
            row = tl.load(x + m * inputs + k, inner, 0.0)
            if NORM != "":
                value = row.to(tl.float32)
                if NORM == "layer":
                    value = tl.where(inner, value - tl.sum(value, axis=0) / inputs, 0.0)
                value *= 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / inputs + eps)
                value *= g.to(tl.float32)
                if SHIFTED:
                    value += s.to(tl.float32)
                row = value.to(x.dtype.element_ty)
                if KEEP:
                    tl.store(kept + m * inputs + k, row, inner & (program == 0))
            row = row.to(tl.float32)[None, :]
            total = tl.sum(block.to(tl.float32) * row, axis=1)
            if GATED:
                up = tl.sum(block_up.to(tl.float32) * row, axis=1)
            if LONG:
                for first in range(BLOCK, inputs, BLOCK):
                    more = k < inputs - first
                    row = tl.load(x + m * inputs + first + k, more, 0.0).to(tl.float32)[None, :]
                    may = inside[:, None] & more[None, :]
                    total += tl.sum(tl.load(w + first, may, 0.0).to(tl.float32) * row, axis=1)
                    if GATED:
                        up += tl.sum(tl.load(w_up + first, may, 0.0).to(tl.float32) * row, axis=1)
            total = activated(total + b.to(tl.float32), ACTIVATION)
            if GATED:
                total *= up + b_up.to(tl.float32)
            if ADDS:
                total += tl.load(residual + m * columns + n, inside, 0.0).to(tl.float32)
            tl.store(out + m * columns + n, total.to(out.dtype.element_ty), inside)
        if MANY:
            block, b, n, w = next_block, next_b, next_n, next_w
            if GATED:
                block_up, b_up, w_up = next_up, next_b_up, next_w_up


WIDEST = 8192  # inputs of a linear layer whose kernel also applies a norm
KNOWN: tuple[ActivationName, ...] = (
    "relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "relu_squared"
)  # fmt: skip
NAMES = {ACTIVATIONS[name]: name for name in KNOWN}  # of the activations in `activated`


def linear(
    layer: nn.Module,
    x: Tensor,
    activation: str = "identity",
    *,
    norm: nn.Module | None = None,
    kept: Tensor | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
    split: bool = False,
) -> Tensor:
    """activation(W norm(x) + b) + residual, for x (rows, inputs). `kept` receives norm(x). gated:
    the first half of the outputs, with the activation, multiplies the second half. split: the
    result may be parts whose sum is the output, (parts, rows, outputs) in float32."""
    rows, inputs = x.shape
    if norm is None and residual is None and tiled(layer, x):
        assert type(layer) is nn.Linear
        return linear_tiles(layer, x, activation, gated=gated, split=split)
    if rows > FEW or type(layer) is not nn.Linear or (norm is not None and inputs > WIDEST):
        return plain_kernels.linear(
            layer, x, activation, norm=norm, kept=kept, residual=residual, gated=gated
        )
    assert norm is None or isinstance(norm, LayerNorm | RMSNorm)
    x = x.contiguous()
    if norm is not None and layer.out_features > 8 * PROGRAMS:  # once, not in every program
        x, norm = add_norm(x, None, norm, keep_sum=False), None
        if kept is not None:
            kept.copy_(x)
    columns = layer.out_features // (2 if gated else 1)
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(inputs)
    if norm is None:
        block = min(4096, block)
    together, warps = _tile(columns, block)
    tiles = triton.cdiv(columns, together)
    shift = norm.shift if isinstance(norm, LayerNorm) else None
    _few_rows[(min(tiles, PROGRAMS),)](
        x, x if norm is None else norm.gain, x if shift is None else shift,
        x if kept is None else kept, layer.weight, x if layer.bias is None else layer.bias,
        x if residual is None else residual, out, columns, inputs,
        0.0 if norm is None else norm.eps,
        NORM="" if norm is None else "layer" if isinstance(norm, LayerNorm) else "rms",
        SHIFTED=shift is not None, KEEP=kept is not None, HAS_BIAS=layer.bias is not None,
        ADDS=residual is not None, ACTIVATION=activation, GATED=gated, ROWS=rows,
        COLUMNS=together, BLOCK=block, LONG=inputs > block, MANY=tiles > PROGRAMS,
        num_warps=warps, **overlapped(x.device),
    )  # fmt: skip
    return out


def _tile(columns: int, block: int) -> tuple[int, int]:
    """How many columns a program of `_few_rows` computes at once, and its number of warps. Each
    program costs time to start, and every multiprocessor should have some."""
    together = min(8, max(2, triton.next_power_of_2(columns // 400)))
    return together, max(1, min(8, block * together // 2048))


def feedforward(
    part: nn.Module,
    h: Tensor,
    *,
    norm: nn.Module | None = None,
    kept: Tensor | None = None,
    residual: Tensor | None = None,
    split: bool = False,
) -> Tensor:
    """part(norm(h)) + residual for a feed-forward layer, with its first linear layer and activation
    in one kernel. `kept` receives norm(h). split: the result may be parts; see `linear`."""
    first: dict[str, Any] = {"norm": norm, "kept": kept}
    if isinstance(part, FeedForward | GatedFeedForward) and (
        h.shape[0] <= FEW or tiled(part.expand, h)
    ):
        gated, name = isinstance(part, GatedFeedForward), NAMES.get(part.activation)
        if name is not None:
            hidden = linear(part.expand, h, name, gated=gated, **first)
        elif gated:
            gate, hidden = linear(part.expand, h, **first).chunk(2, dim=-1)
            hidden = part.activation(gate) * hidden
        else:
            hidden = part.activation(linear(part.expand, h, **first))
        return linear(part.output, hidden, residual=residual, split=split)
    if (
        isinstance(part, FeedForward) and part.activation is torch.relu
        and part.expand.bias is not None and norm is None and residual is None
    ):  # fmt: skip
        hidden = torch._addmm_activation(part.expand.bias, h, part.expand.weight.t())
        return part.output(hidden)
    return plain_kernels.feedforward(part, h, residual=residual, **first)
