"""GPU kernels for one decoding step. Each replaces several kernels or copies of torch.

Each has a plain counterpart of the same name in `fast.plain_kernels`. This module needs Triton,
which is installed together with torch for CUDA on Linux.

With few rows, a step takes as long as its kernels take to start, so a kernel may overlap the one
before it (`overlapped`): it loads weights and cached keys at once, and waits only before it reads
what the previous kernel writes. It must not read anything earlier that this step has written in
overlapped kernels, and every program must wait, so that the end of a kernel implies the end of all
kernels before it.
"""

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from translucid.fast import plain_kernels
from translucid.fast.fixed_state import FixedTimeline
from translucid.parts.activations import ACTIVATIONS, ActivationName
from translucid.parts.cache import Timeline
from translucid.parts.feedforward import FeedForward, GatedFeedForward
from translucid.parts.norms import LayerNorm, RMSNorm

FEW = 4  # number of rows up to which a matrix multiplication takes as long as reading the weights


BLOCK_BYTES = 16384  # of the keys that a program of `_attend_row` loads at once
PROGRAMS = 528  # of a linear layer with many outputs


@cache
def overlapped(device: torch.device) -> dict[str, Any]:
    """Launch options of a kernel that starts while the previous one is still running. Needs Hopper
    or newer."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (9, 0):
        return {"OVERLAPS": False}
    return {"OVERLAPS": True, "launch_pdl": True}


def overlapped_if_few(x: Tensor) -> dict[str, Any]:
    return overlapped(x.device) if x.shape[0] <= FEW else {"OVERLAPS": False}


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
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention for one source and one key head: the queries of all beams, in all heads that share
    the key head."""
    source = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    m = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    beam, group = m % BEAMS, m // BEAMS
    here = m < BEAMS * GROUPS
    row = source * BEAMS + beam
    query_head = head * GROUPS + group
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
        length = tl.load(index + source * index_source)  # all slots before the newest
    else:
        top = tl.full([ROWS], -float("inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        mixed = tl.zeros([ROWS, D], tl.float32)
    key_base = keys + source * stride_ks + head * stride_kh
    value_base = values + source * stride_vs + head * stride_vh
    for start in range(0, length, BLOCK):
        n = start + tl.arange(0, BLOCK)
        inside = n < length
        k = tl.load(key_base + n[None, :] * stride_kn + d[:, None], inside[None, :], 0.0)
        scores = tl.dot(question, k, input_precision=PRECISION) * scale  # (ROWS, BLOCK)
        may = here[:, None] & inside[None, :]
        if MASKED:
            looked_up = source * seen_source + beam[:, None] * seen_beam + n[None, :]
            may = may & (tl.load(seen + looked_up, may, 0) != 0)
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
    if q.shape[0] <= FEW:
        block = max(16, min(triton.next_power_of_2(slots), BLOCK_BYTES // (d * q.element_size())))
        _attend_row[(q.shape[0], heads)](
            *arguments, **options, BLOCK=block, num_warps=4, **overlapped(q.device)
        )
    else:
        _attend[(sources, kv_heads)](
            *arguments, **options, HEADS=kv_heads, BLOCK=64,
            ROWS=max(16, triton.next_power_of_2(beams * groups)),
            PRECISION="ieee" if q.dtype is torch.float32 else "tf32", num_warps=4,
        )  # fmt: skip
    return out


@triton.jit
def _add_norm(
    x, branch, gain, shift, out, width, eps,
    HAS_BRANCH: tl.constexpr, LAYER: tl.constexpr, SHIFTED: tl.constexpr, KEEP_SUM: tl.constexpr,
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
    if HAS_BRANCH:
        total = (total.to(tl.float32) + tl.load(branch + at, inside, 0.0).to(tl.float32)).to(
            x.dtype.element_ty
        )
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
    width)."""
    assert isinstance(norm, LayerNorm | RMSNorm)
    shift = norm.shift if isinstance(norm, LayerNorm) else None
    out = torch.empty_like(x)
    rows, width = x.shape
    _add_norm[(rows,)](
        x, x if branch is None else branch, norm.gain, norm.gain if shift is None else shift, out,
        width, norm.eps, HAS_BRANCH=branch is not None, LAYER=isinstance(norm, LayerNorm),
        SHIFTED=shift is not None, KEEP_SUM=keep_sum,
        BLOCK=triton.next_power_of_2(width), num_warps=4 if width <= 1024 else 8,
        **overlapped_if_few(x),
    )  # fmt: skip
    return out


@triton.jit
def _top(
    logits, never, values, places, normaliser, stride, vocab, end, extent,
    K: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """The best of one part of the vocabulary."""
    if OVERLAPS:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    at = row * tl.num_programs(1) + part
    without_end = tl.load(never + row) != 0
    kept_at = tl.arange(0, KEPT)
    best = tl.where(kept_at < K, -float("inf"), float("inf"))
    where = tl.zeros([KEPT], tl.int32)
    high = -float("inf")
    total = 0.0
    for start in range(part * extent, tl.minimum((part + 1) * extent, vocab), BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * stride + n, n < vocab, -float("inf")).to(tl.float32)
        higher = tl.maximum(high, tl.max(x, axis=0))
        total = total * tl.exp(high - higher) + tl.sum(tl.exp(x - higher), axis=0)
        high = higher
        x = tl.where((n == end) & without_end, -float("inf"), x)
        # Few blocks contain one of the best values; the programs of the other blocks end here.
        value = tl.max(x, axis=0)
        while value > tl.min(best, axis=0):
            place = tl.argmax(x, axis=0)
            taken = kept_at == tl.argmin(best, axis=0)
            best = tl.where(taken, value, best)
            where = tl.where(taken, start + place, where)
            x = tl.where(n == start + place, -float("inf"), x)
            value = tl.max(x, axis=0)
    tl.store(values + at * K + kept_at, best, kept_at < K)
    tl.store(places + at * K + kept_at, where.to(tl.int64), kept_at < K)
    tl.store(normaliser + at, high + tl.log(total))


def top_and_normaliser(
    logits: Tensor, width: int, end: int, never: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """For each row, candidates in any order, among them the largest `width` logits (rows,
    candidates), their indices (rows, candidates), and parts of log Σ exp of all logits (rows,
    parts), whose log Σ exp it is. Where `never` (rows,) is True, the token `end` is not chosen, but
    is included in the sum.

    The plain counterpart returns `width` candidates and one part. With few rows, several programs
    share a row, each with its own candidates and its own part."""
    rows, vocab = logits.shape
    block = 1024 if rows <= FEW else 16384 if rows <= 64 else 4096
    extent = max(block, triton.next_power_of_2(triton.cdiv(vocab, 64))) if rows <= FEW else vocab
    parts = triton.cdiv(vocab, extent)
    values = torch.empty(rows, parts * width, device=logits.device)
    places = torch.empty(rows, parts * width, dtype=torch.long, device=logits.device)
    normaliser = torch.empty(rows, parts, device=logits.device)
    _top[(rows, parts)](
        logits, never.view(torch.uint8), values, places, normaliser, logits.stride(0), vocab, end,
        extent, K=width, KEPT=triton.next_power_of_2(width), BLOCK=block,
        num_warps=4 if rows <= FEW else 8, **overlapped_if_few(logits),
    )  # fmt: skip
    return values, places, normaliser


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


WIDEST = 8192  # inputs of a linear layer whose kernel also applies a norm
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
) -> Tensor:
    """activation(W norm(x) + b) + residual, for x (rows, inputs). `kept` receives norm(x). gated:
    the first half of the outputs, with the activation, multiplies the second half. For few rows, it
    is computed by Translucid's own kernel."""
    rows, inputs = x.shape
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
) -> Tensor:
    """part(norm(h)) + residual for a feed-forward layer, with its first linear layer and activation
    in one kernel. `kept` receives norm(h)."""
    few = h.shape[0] <= FEW
    first: dict[str, Any] = {"norm": norm, "kept": kept}
    if isinstance(part, FeedForward | GatedFeedForward) and few:
        gated, name = isinstance(part, GatedFeedForward), NAMES.get(part.activation)
        if name is not None:
            hidden = linear(part.expand, h, name, gated=gated, **first)
        elif gated:
            gate, hidden = linear(part.expand, h, **first).chunk(2, dim=-1)
            hidden = part.activation(gate) * hidden
        else:
            hidden = part.activation(linear(part.expand, h, **first))
        return linear(part.output, hidden, residual=residual)
    if (
        isinstance(part, FeedForward) and part.activation is torch.relu
        and part.expand.bias is not None and norm is None and residual is None
    ):  # fmt: skip
        hidden = torch._addmm_activation(part.expand.bias, h, part.expand.weight.t())
        return part.output(hidden)
    return plain_kernels.feedforward(part, h, residual=residual, **first)


@triton.jit
def _embed(
    tokens, table, positions, encodings, out, width, factor, first,
    ENCODED: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    if OVERLAPS:  # this kernel itself does not overlap: all of the step before has ended
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
        OVERLAPS=overlapped(table.device)["OVERLAPS"],
    )  # fmt: skip
    return out


@triton.jit
def _advance(
    seen, positions, counts, cursor, index, before, rows, slots,
    BEAMS: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    now = tl.load(cursor)
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK).to(tl.int64)
        inside, beam = row < rows, row % BEAMS
        count = tl.load(counts + row, inside, 0)
        tl.store(before + row, count, inside)
        tl.store(counts + row, count + 1, inside)
        tl.store(positions + row // BEAMS * slots + now + beam, count, inside)
        for other in range(BEAMS):
            tl.store(seen + row * slots + now + other, (beam == other).to(tl.uint8), inside)
    j = tl.arange(0, PLACES)
    tl.store(index + j, now + j, j < BEAMS)
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
    _advance[(1,)](
        timeline.seen.view(torch.uint8), timeline.positions, timeline.counts, timeline.cursor,
        index, before, sources * beams, slots, BEAMS=beams, PLACES=triton.next_power_of_2(beams),
        BLOCK=min(1024, triton.next_power_of_2(sources * beams)),
    )  # fmt: skip
    timeline.taken += beams
    return before, index
