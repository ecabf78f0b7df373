"""The GPU's operations of a decoding step, each one kernel where torch needs several.

Each has a plain counterpart of the same name in `fast.plain_kernels`. This module needs Triton,
which is installed together with torch for CUDA on Linux. The larger kernels have their own files.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from translucid.fast import plain_kernels
from translucid.fast.beam_kernel import top_and_normaliser
from translucid.fast.fixed_state import FixedTimeline
from translucid.fast.linear_kernel import feedforward, linear
from translucid.fast.newest_attention import attend_newest, visible, visible_source
from translucid.fast.norm_kernel import add_norm
from translucid.fast.overlap import FEW, overlapped
from translucid.parts.cache import Timeline

__all__ = [
    "FEW", "add_norm", "advance_one", "attend_newest", "embed", "feedforward", "linear",
    "rotate_newest", "top_and_normaliser", "visible", "visible_source",
]  # fmt: skip


@triton.jit
def _rotate(
    x, cos, sin, stride,
    HEADS: tl.constexpr, D_HEAD: tl.constexpr, D: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    pair = tl.arange(0, PAIRS)
    inside = pair < D // 2
    c = tl.load(cos + row * (D // 2) + pair, inside, 0.0)
    s = tl.load(sin + row * (D // 2) + pair, inside, 0.0)
    for head in range(HEADS):
        at = x + row * stride + head * D_HEAD + 2 * pair
        even = tl.load(at, inside, 0.0).to(tl.float32)
        odd = tl.load(at + 1, inside, 0.0).to(tl.float32)
        tl.store(at, (even * c - odd * s).to(x.dtype.element_ty), inside)
        tl.store(at + 1, (even * s + odd * c).to(x.dtype.element_ty), inside)


def rotate_newest(
    x: Tensor, cos: Tensor, sin: Tensor, heads: int, d_head: int | None = None
) -> None:
    """Rotate queries and keys in place. Does what `plain_kernels.rotate_newest` does."""
    d = 2 * cos.shape[1]
    cos, sin = cos.float(), sin.float()
    _rotate[(x.shape[0],)](
        x, cos, sin, x.stride(0), HEADS=heads, D_HEAD=d_head or d, D=d,
        PAIRS=triton.next_power_of_2(d // 2),
    )  # fmt: skip


@triton.jit
def _embed(
    tokens, table, positions, encodings, out, width, factor, first,
    ENCODED: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    if OVERLAPS:  # first the wait: when the next kernels start, all of the step before has ended
        gdc_wait()
        gdc_launch_dependents()
    row = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BLOCK)
    x = tl.load(table + tl.load(tokens + row) * width + n, n < width, 0.0).to(tl.float32) * factor
    if ENCODED:
        place = tl.load(positions + row) + first
        x += tl.load(encodings + place * width + n, n < width, 0.0).to(tl.float32)
    tl.store(out + row * width + n, x.to(out.dtype.element_ty), n < width)


def embed(
    tokens: Tensor,
    table: Tensor,
    factor: float,
    positions: Tensor,
    encodings: Tensor | None,
    first: int = 0,
) -> Tensor:
    """table[tokens] * factor + encodings[positions + first], for one token per row: (rows,
    width)."""
    out = torch.empty(tokens.numel(), table.shape[1], dtype=table.dtype, device=table.device)
    _embed[(tokens.numel(),)](  # the newest tokens may be the last of each text: with gaps
        tokens.contiguous(), table, positions.contiguous(),
        table if encodings is None else encodings, out, table.shape[1], factor, first,
        ENCODED=encodings is not None, BLOCK=triton.next_power_of_2(table.shape[1]),
        **overlapped(table.device),
    )  # fmt: skip
    return out


@triton.jit
def _advance(
    seen, positions, counts, cursor, index, before, rows, slots,
    BEAMS: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    if OVERLAPS:
        gdc_wait()
        gdc_launch_dependents()
    now = tl.load(cursor)
    row = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside, beam = row < rows, row % BEAMS
    count = tl.load(counts + row, inside, 0)
    tl.store(before + row, count, inside)
    tl.store(counts + row, count + 1, inside)
    tl.store(positions + row // BEAMS * slots + now + beam, count, inside)
    for other in range(BEAMS):
        tl.store(seen + row * slots + now + other, (beam == other).to(tl.uint8), inside)
    if tl.program_id(0) == 0:
        j = tl.arange(0, PLACES)
        tl.store(index + j, now + j, j < BEAMS)
    if tl.num_programs(0) == 1:  # else other programs may not have read it yet
        tl.debug_barrier()  # all threads have read the cursor
        tl.store(cursor, now + BEAMS)


def advance_one(timeline: Timeline) -> tuple[Tensor, Tensor]:
    """Reserve a slot for one token per row. Returns the positions of these tokens (sources, beams)
    and their slots."""
    if type(timeline) is not FixedTimeline:
        return plain_kernels.advance_one(timeline)
    sources, beams, slots = timeline.seen.shape
    index = torch.empty(beams, dtype=torch.long, device=timeline.counts.device)
    before = torch.empty_like(timeline.counts)
    block = min(256, triton.next_power_of_2(sources * beams))
    programs = triton.cdiv(sources * beams, block)
    _advance[(programs,)](
        timeline.seen.view(torch.uint8), timeline.positions, timeline.counts, timeline.cursor,
        index, before, sources * beams, slots, BEAMS=beams, PLACES=triton.next_power_of_2(beams),
        BLOCK=block, **overlapped(before.device),
    )  # fmt: skip
    if programs > 1:
        timeline.cursor += beams
    timeline.taken += beams
    return before, index
