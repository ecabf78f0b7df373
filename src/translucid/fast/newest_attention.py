"""Attention of the newest token of every row over its cache, as one GPU kernel.

The plain counterpart is `plain_kernels.attend_newest`. This module needs Triton.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from translucid.fast.overlap import FEW, overlapped
from translucid.parts.cache import Timeline

# Bytes of the keys that a program of `_attend_row` loads at once, and its number of warps.
ROW_BLOCK, ROWS_BLOCK = (16384, 4), (4096, 1)
BEAMS_BLOCK = 32, 1, 2  # keys, warps and stages of `_attend`


def visible(timeline: Timeline, like: Tensor) -> Tensor | None:
    """The mask of the slots that each beam sees: (sources, beams, slots); None if each row sees all
    of its own. `attend_newest` does not read the mask of slots that are written in the same
    call."""
    return None if timeline.by_row else timeline.seen


def visible_source(mask: Tensor, like: Tensor) -> Tensor:
    """The mask of an encoder's output (sources, keys) as (sources, 1, keys)."""
    return mask[:, None]


@triton.jit
def _attend(
    q, new_k, new_v, keys, values, seen, index, out,
    q_row, k_row, stride_ks, stride_kh, stride_kn, stride_vs, stride_vh, stride_vn,
    seen_source, seen_beam, index_source, length, scale,
    OWN: tl.constexpr, MASKED: tl.constexpr, BEAMS: tl.constexpr, GROUPS: tl.constexpr,
    HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    VIEWS: tl.constexpr, PRECISION: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """Attention for one source and one key head: the queries of all beams, in all heads that share
    the key head. Keys and values that no beam sees are not loaded; in a beam search, these are most
    of them."""
    if OVERLAPS:
        gdc_launch_dependents()
    source = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    m = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    beam, group = m % BEAMS, m // BEAMS
    here = m < BEAMS * GROUPS
    row = source * BEAMS + beam
    query_head = head * GROUPS + group
    if OWN:
        length = tl.load(index + source * index_source)  # all slots before the newest
    if OVERLAPS:
        gdc_wait()
    question = tl.load(
        q + row[:, None] * q_row + query_head[:, None] * D + d[None, :], here[:, None], 0.0
    )
    if OWN:
        # The newest key and value of each beam: visible to itself only, and stored in the cache.
        own = row[:, None] * k_row + head * D + d[None, :]
        k_own = tl.load(new_k + own, here[:, None], 0.0)
        v_own = tl.load(new_v + own, here[:, None], 0.0)
        slot = tl.load(index + source * index_source + beam, here, 0)
        first = (here & (group == 0))[:, None]
        at = source * stride_ks + head * stride_kh + slot[:, None] * stride_kn + d[None, :]
        tl.store(keys + at, k_own, first)
        at = source * stride_vs + head * stride_vh + slot[:, None] * stride_vn + d[None, :]
        tl.store(values + at, v_own, first)
        top = tl.sum(question.to(tl.float32) * k_own.to(tl.float32), axis=1) * scale
        total = tl.full([ROWS], 1.0, tl.float32)
        mixed = v_own.to(tl.float32)
    else:
        top = tl.full([ROWS], -float("inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        mixed = tl.zeros([ROWS, D], tl.float32)
    key_base = keys + source * stride_ks + head * stride_kh
    value_base = values + source * stride_vs + head * stride_vh
    for start in range(0, length, BLOCK):
        n = start + tl.arange(0, BLOCK)
        inside = n < length
        may = here[:, None] & inside[None, :]
        if MASKED:
            looked_up = seen + source * seen_source + n
            used, may = n < 0, may & (m < 0)[:, None]
            for other in tl.static_range(VIEWS):
                sees = tl.load(looked_up + other * seen_beam, inside, 0) != 0
                used = used | sees
                may = may | ((here & ((beam == other) | (VIEWS == 1)))[:, None] & sees[None, :])
            inside = used
        k = tl.load(key_base + n[None, :] * stride_kn + d[:, None], inside[None, :], 0.0)
        scores = tl.dot(question, k, input_precision=PRECISION) * scale  # (ROWS, BLOCK)
        scores = tl.where(may, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        # For a query that has seen no key yet, -inf - -inf would be NaN.
        safe = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp(top - safe)
        p = tl.exp(scores - safe[:, None])
        total = total * shrink + tl.sum(p, axis=1)
        v = tl.load(value_base + n[:, None] * stride_vn + d[None, :], inside[:, None], 0.0)
        mixed = mixed * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
        top = higher
    mixed = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    at = row[:, None] * (HEADS * GROUPS * D) + query_head[:, None] * D + d[None, :]
    tl.store(out + at, mixed.to(out.dtype.element_ty), here[:, None])


@triton.jit
def _attend_row(
    q, new_k, new_v, keys, values, seen, index, out,
    q_row, k_row, stride_ks, stride_kh, stride_kn, stride_vs, stride_vh, stride_vn,
    seen_source, seen_beam, index_source, length, scale,
    OWN: tl.constexpr, MASKED: tl.constexpr, BEAMS: tl.constexpr, GROUPS: tl.constexpr,
    D: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """Attention for one row and one query head. Each block of keys and values is loaded before the
    one before it is used, the first while the previous kernel is running."""
    if OVERLAPS:
        gdc_launch_dependents()
    row, query_head = tl.program_id(0), tl.program_id(1)
    source, beam, head = (row // BEAMS).to(tl.int64), row % BEAMS, query_head // GROUPS
    n = tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    if OWN:
        length = tl.load(index + source * index_source)  # all slots before the newest
    key_base = keys + source * stride_ks + head * stride_kh + d[None, :]
    value_base = values + source * stride_vs + head * stride_vh + d[None, :]
    mask = seen + source * seen_source + beam * seen_beam
    k = tl.load(key_base + n[:, None] * stride_kn, (n < length)[:, None], 0.0)
    v = tl.load(value_base + n[:, None] * stride_vn, (n < length)[:, None], 0.0)
    may = n < length
    if MASKED:
        may = may & (tl.load(mask + n, may, 0) != 0)
    if OVERLAPS:
        gdc_wait()
    question = tl.load(q + row * q_row + query_head * D + d).to(tl.float32) * scale
    if OWN:
        # The newest key and value of the row: visible to itself only, and stored in the cache.
        k_own = tl.load(new_k + row * k_row + head * D + d)
        v_own = tl.load(new_v + row * k_row + head * D + d)
        slot = tl.load(index + source * index_source + beam)
        first = (d >= 0) & (query_head % GROUPS == 0)
        at = source * stride_ks + head * stride_kh + slot * stride_kn + d
        tl.store(keys + at, k_own, first)
        at = source * stride_vs + head * stride_vh + slot * stride_vn + d
        tl.store(values + at, v_own, first)
        top = tl.sum(question * k_own.to(tl.float32), axis=0)
        total = 1.0
        mixed = v_own.to(tl.float32)
    else:
        top = -float("inf")
        total = 0.0
        mixed = tl.zeros([D], tl.float32)
    for _ in range(0, length, BLOCK):
        n += BLOCK
        next_k = tl.load(key_base + n[:, None] * stride_kn, (n < length)[:, None], 0.0)
        next_v = tl.load(value_base + n[:, None] * stride_vn, (n < length)[:, None], 0.0)
        next_may = n < length
        if MASKED:
            next_may = next_may & (tl.load(mask + n, next_may, 0) != 0)
        scores = tl.sum(k.to(tl.float32) * question[None, :], axis=1)
        scores = tl.where(may, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=0))
        # For a query that has seen no key yet, -inf - -inf would be NaN.
        safe = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp(top - safe)
        p = tl.exp(scores - safe)
        total = total * shrink + tl.sum(p, axis=0)
        mixed = mixed * shrink + tl.sum(p[:, None] * v.to(tl.float32), axis=0)
        top = higher
        k, v, may = next_k, next_v, next_may
    mixed = mixed / tl.where(total == 0.0, 1.0, total)
    at = (row * tl.num_programs(1) + query_head) * D + d
    tl.store(out + at, mixed.to(out.dtype.element_ty))


def attend_newest(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    beams: int,
    scale: float,
    seen: Tensor | None,
    new: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Tensor:
    """Attention of one token per row: (rows, heads * d_head).

    q: (rows, heads * d_head), possibly a slice of a wider matrix. keys, values: (sources, kv_heads,
    slots, d_head). seen: mask (sources, beams or 1, slots); None: all slots are visible.
    new: the newest keys and values, (rows, kv_heads * d_head), and the slots in which they are
    stored: (beams,), or (sources, 1) if each source has its own. A row sees its own newest key, but
    not those of other beams.
    """
    sources, kv_heads, slots, d = keys.shape
    heads = q.shape[1] // d
    groups = heads // kv_heads
    out = torch.empty(q.shape[0], heads * d, dtype=q.dtype, device=q.device)
    new_k, new_v, index = new if new is not None else (q, q, q)
    mask = keys if seen is None else seen.view(torch.uint8)
    seen_beam = 0 if seen is None or seen.shape[1] == 1 else seen.stride(1)
    options: dict[str, Any] = {"OWN": new is not None, "MASKED": seen is not None, "D": d}
    options |= {"BEAMS": beams, "GROUPS": groups}
    arguments = (
        q, new_k, new_v, keys, values, mask, index, out,
        q.stride(0), new_k.stride(0), *keys.stride()[:3], *values.stride()[:3],
        0 if seen is None else seen.stride(0), seen_beam,
        index.stride(0) if new is not None and index.dim() == 2 else 0, slots, scale,
    )  # fmt: skip
    if q.shape[0] <= FEW or beams * groups == 1:
        block, warps = ROW_BLOCK if q.shape[0] <= FEW else ROWS_BLOCK
        block = max(16, min(triton.next_power_of_2(slots), block // (d * q.element_size())))
        _attend_row[(q.shape[0], heads)](
            *arguments, **options, BLOCK=block, num_warps=warps, **overlapped(q.device)
        )
    else:
        block, warps, stages = BEAMS_BLOCK
        _attend[(sources, kv_heads)](
            *arguments, **options, HEADS=kv_heads, BLOCK=block,
            ROWS=max(16, triton.next_power_of_2(beams * groups)), VIEWS=beams if seen_beam else 1,
            PRECISION="ieee" if q.dtype is torch.float32 else "tf32", num_warps=warps,
            num_stages=stages, **overlapped(q.device),
        )  # fmt: skip
    return out
