"""Linear layers of a decoding step for more than a few rows, on the tensor cores of a GPU.

The plain counterpart is `plain_kernels.linear`. This module needs Triton.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from translucid.fast.overlap import FEW, overlapped

SOME = 256  # number of rows up to which `_tiles` is faster than cuBLAS and separate kernels
MOST_WEIGHTS = 2**22  # of a layer for `_tiles`; larger ones were not measured


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
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
    total = activated(total + b[None, :], ACTIVATION)
    if GATED:
        total *= up + b_up[None, :]
    at = out + (part * rows + m)[:, None] * columns + n[None, :]
    tl.store(at, total.to(out.dtype.element_ty), here & inside)


def tiled(layer: nn.Module, x: Tensor) -> bool:
    """Whether `_tiles` computes this layer. float32 is left to cuBLAS, which is exact."""
    return (
        type(layer) is nn.Linear and layer.weight.numel() <= MOST_WEIGHTS
        and FEW < x.shape[0] <= SOME and x.dtype is not torch.float32
    )  # fmt: skip


def linear_tiles(
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
