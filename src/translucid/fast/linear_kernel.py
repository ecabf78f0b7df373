"""Linear layers of a decoding step with what comes before and after them, as GPU kernels.

The plain counterparts are in `plain_kernels`. This module needs Triton.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from translucid.fast import plain_kernels
from translucid.fast.norm_kernel import add_norm
from translucid.fast.overlap import FEW, overlapped
from translucid.parts.activations import ACTIVATIONS, ActivationName
from translucid.parts.feedforward import FeedForward, GatedFeedForward
from translucid.parts.norms import LayerNorm, RMSNorm

PROGRAMS = 528  # of a linear layer with many outputs


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    if ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if ACTIVATION == "gelu_tanh":  # (1 + tanh(u)) / 2 = sigmoid(2 u)
        x *= tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    if ACTIVATION == "quick_gelu":
        x *= tl.sigmoid(1.702 * x)
    if ACTIVATION == "silu":
        x *= tl.sigmoid(x)
    if ACTIVATION == "relu_squared":
        x = tl.maximum(x, 0.0) * tl.maximum(x, 0.0)
    return x


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
            total = _activated(total + b.to(tl.float32), ACTIVATION)
            if GATED:
                total *= up + b_up.to(tl.float32)
            if ADDS:
                total += tl.load(residual + m * columns + n, inside, 0.0).to(tl.float32)
            tl.store(out + m * columns + n, total.to(out.dtype.element_ty), inside)
        if MANY:
            block, b, n, w = next_block, next_b, next_n, next_w
            if GATED:
                block_up, b_up, w_up = next_up, next_b_up, next_w_up


@triton.jit
def _prefetched(weight, n, columns, first, inputs, extent, LINES: tl.constexpr):
    """Load weights into the cache of the GPU, 128 bytes per instruction."""
    k = first + tl.arange(0, LINES) * (128 // (weight.dtype.element_ty.primitive_bitwidth // 8))
    at = weight + tl.minimum(n, columns - 1)[:, None].to(tl.int64) * inputs
    at += tl.minimum(k, tl.minimum(first + extent, inputs) - 1)[None, :]
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [at.to(tl.int64)],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def _tiles(
    x, weight, bias, out, rows, columns, inputs, extent,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    EVEN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
    LINES: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """A linear layer on tensor cores: one tile of the output, or its sum over a part of the inputs,
    `extent` of them."""
    if OVERLAPS:
        gdc_launch_dependents()
    m = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    n = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, BLOCK)
    part = tl.program_id(2)
    first = part * extent
    last = tl.minimum(first + extent, inputs)
    here, inside = (m < rows)[:, None], (n < columns)[None, :]
    w = weight + n[None, :].to(tl.int64) * inputs + k[:, None]
    w_up = weight + (columns + n)[None, :].to(tl.int64) * inputs + k[:, None]
    if OVERLAPS:
        _prefetched(weight, n, columns, first, inputs, extent, LINES)
        if GATED:
            _prefetched(weight, columns + n, 2 * columns, first, inputs, extent, LINES)
    b = tl.zeros([COLUMNS], tl.float32)
    b_up = b
    if HAS_BIAS:
        b = tl.load(bias + n, (n < columns) & (part == 0), 0.0).to(tl.float32)
        if GATED:
            b_up = tl.load(bias + columns + n, (n < columns) & (part == 0), 0.0).to(tl.float32)
    if OVERLAPS:
        gdc_wait()
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    up = total
    row = x + m[:, None] * inputs + k[None, :]
    for start in range(first, last, BLOCK):
        if EVEN:
            block = tl.load(row + start, here, 0.0)
            total = tl.dot(block, tl.load(w + start, inside, 0.0), total)
            if GATED:
                up = tl.dot(block, tl.load(w_up + start, inside, 0.0), up)
        else:
            more = k < last - start
            block = tl.load(row + start, here & more[None, :], 0.0)
            total = tl.dot(block, tl.load(w + start, inside & more[:, None], 0.0), total)
            if GATED:
                up = tl.dot(block, tl.load(w_up + start, inside & more[:, None], 0.0), up)
    total = _activated(total + b[None, :], ACTIVATION)
    if GATED:
        total *= up + b_up[None, :]
    at = out + (part * rows + m)[:, None] * columns + n[None, :]
    tl.store(at, total.to(out.dtype.element_ty), here & inside)


WIDEST = 8192  # inputs of a linear layer whose kernel also applies a norm
SOME = 256  # number of rows up to which `_tiles` is faster than cuBLAS and separate kernels
MOST_WEIGHTS = 2**22  # of a layer for `_tiles`; larger ones were not measured
KNOWN: tuple[ActivationName, ...] = (
    "relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "relu_squared"
)  # fmt: skip
NAMES = {ACTIVATIONS[name]: name for name in KNOWN}  # of the activations in `_activated`


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
        return _linear_tiles(layer, x, activation, gated=gated, split=split)
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


def tiled(layer: nn.Module, x: Tensor) -> bool:
    """Whether `_tiles` computes this layer. float32 is left to cuBLAS, which is exact."""
    return (
        type(layer) is nn.Linear and layer.weight.numel() <= MOST_WEIGHTS
        and FEW < x.shape[0] <= SOME and x.dtype is not torch.float32
    )  # fmt: skip


def _linear_tiles(
    layer: nn.Linear, x: Tensor, activation: str, *, gated: bool, split: bool
) -> Tensor:
    x, (rows, inputs) = x.contiguous(), x.shape
    columns = layer.out_features // (2 if gated else 1)
    tile = tile_of(rows, columns, inputs, split=split)
    loaded = (tile.rows + tile.columns * (2 if gated else 1)) * tile.block * x.element_size()
    room = _shared_memory(x.device) - 8192
    programs = triton.cdiv(columns, tile.columns), triton.cdiv(rows, tile.rows)
    extent = triton.cdiv(triton.cdiv(inputs, tile.parts), tile.block) * tile.block
    parts = triton.cdiv(inputs, extent)
    out = torch.empty(
        (parts, rows, columns) if parts > 1 else (rows, columns),
        dtype=torch.float32 if parts > 1 else x.dtype, device=x.device,
    )  # fmt: skip
    _tiles[(*programs, parts)](
        x, layer.weight, x if layer.bias is None else layer.bias, out, rows, columns, inputs,
        extent, HAS_BIAS=layer.bias is not None, ACTIVATION=activation, GATED=gated,
        EVEN=inputs % tile.block == 0, ROWS=tile.rows, COLUMNS=tile.columns,
        BLOCK=tile.block, LINES=triton.next_power_of_2(triton.cdiv(extent, 64)),
        num_warps=tile.warps, num_stages=max(1, min(tile.stages, room // loaded)),
        **overlapped(x.device),
    )  # fmt: skip
    return out


@cache
def _shared_memory(device: torch.device) -> int:
    """The bytes that a program can keep close to the tensor cores: 227 kB on an H200, 99 kB on many
    smaller GPUs."""
    if device.type != "cuda":
        return 2**18
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 49152))  # without it: ROCm


class Tile(NamedTuple):
    """How a program of `_tiles` computes its part of the output."""

    rows: int
    columns: int
    block: int  # inputs that it loads at once
    parts: int = 1  # into which the inputs are split
    warps: int = 4
    stages: int = 4  # blocks in flight; fewer if they need too much memory


def tile_of(rows: int, columns: int, inputs: int, *, split: bool) -> Tile:
    """The fastest of the tiles that were measured (on an H200, with 16, 64 and 256 rows)."""
    few = 16 if rows <= 16 else 32 if rows <= 32 else 64
    if split and columns <= 1024 <= inputs:  # few programs, which would take long
        return Tile(few, 16 if rows <= 64 else 32, 128, parts=min(4, inputs // 512))
    if rows > 64:
        return Tile(few, 64, 128)
    return Tile(few, 32, 256, stages=3) if columns > 1024 else Tile(few, 16, 128, stages=6)


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
