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


@cache
def overlapped(device: torch.device) -> dict[str, Any]:
    """Launch options of a kernel that starts while the previous one is still running. Needs Hopper
    or newer."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (9, 0):
        return {"OVERLAPS": False}
    return {"OVERLAPS": True, "launch_pdl": True}


def visible(timeline: Timeline, like: Tensor) -> Tensor | None:
    """The mask of the slots that each beam sees: (sources, beams, slots); None if each row sees all
    of its own. `attend_newest` does not read the mask of slots that are written in the same
    call."""
    return None if timeline.by_row else timeline.seen


def visible_source(mask: Tensor, like: Tensor) -> Tensor:
    """The mask of an encoder's output (sources, keys) as (sources, 1, keys)."""
    return mask[:, None]


@triton.jit
def _attend_block(
    question, k, v, may, top, total, mixed, scale, DOT: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """Add a block of keys and values (BLOCK, D) to a running softmax of the queries (ROWS, D)."""
    if DOT:
        scores = tl.dot(question, tl.trans(k), input_precision=PRECISION) * scale
    else:
        product = question[:, None, :].to(tl.float32) * k[None, :, :].to(tl.float32)
        scores = tl.sum(product, axis=2) * scale
    scores = tl.where(may, scores, -float("inf"))  # (ROWS, BLOCK)
    higher = tl.maximum(top, tl.max(scores, axis=1))
    # For a query that has seen no key yet, -inf - -inf would be NaN.
    safe = tl.where(higher == -float("inf"), 0.0, higher)
    shrink = tl.exp(top - safe)
    p = tl.exp(scores - safe[:, None])
    total = total * shrink + tl.sum(p, axis=1)
    if DOT:
        added = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    else:
        added = tl.sum(p[:, :, None] * v[None, :, :].to(tl.float32), axis=1)
    return higher, total, mixed * shrink[:, None] + added


@triton.jit
def _attend(
    q, new_k, new_v, keys, values, seen, index, out,
    q_row, k_row, stride_ks, stride_kh, stride_kn, stride_vs, stride_vh, stride_vn,
    seen_source, seen_beam, index_source, length, scale,
    OWN: tl.constexpr, MASKED: tl.constexpr, BEAMS: tl.constexpr, GROUPS: tl.constexpr,
    HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr, AHEAD: tl.constexpr, OVERLAPS: tl.constexpr,
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
    if OWN:
        length = tl.load(index + source * index_source)  # all slots before the newest
    key_base = keys + source * stride_ks + head * stride_kh + d[None, :]
    value_base = values + source * stride_vs + head * stride_vh + d[None, :]
    masks = seen + (source * seen_source + beam * seen_beam)[:, None]
    if AHEAD:  # the first block of keys and values, while the previous kernel is running
        slots = tl.arange(0, BLOCK)
        used = slots < length
        first_k = tl.load(key_base + slots[:, None] * stride_kn, used[:, None], 0.0)
        first_v = tl.load(value_base + slots[:, None] * stride_vn, used[:, None], 0.0)
        first_may = here[:, None] & used[None, :]
        if MASKED:
            first_may = first_may & (tl.load(masks + slots[None, :], first_may, 0) != 0)
        if OVERLAPS:
            gdc_launch_dependents()
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
        tl.store(key_base + slot[:, None] * stride_kn, k_own, first)
        tl.store(value_base + slot[:, None] * stride_vn, v_own, first)
        top = tl.sum(question.to(tl.float32) * k_own.to(tl.float32), axis=1) * scale
        total = tl.full([ROWS], 1.0, tl.float32)
        mixed = v_own.to(tl.float32)
    else:
        top = tl.full([ROWS], -float("inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        mixed = tl.zeros([ROWS, D], tl.float32)
    begin = 0
    if AHEAD:
        top, total, mixed = _attend_block(
            question, first_k, first_v, first_may, top, total, mixed, scale, ROWS >= 16, PRECISION
        )
        begin = BLOCK
    for start in range(begin, length, BLOCK):
        n = start + tl.arange(0, BLOCK)
        inside = n < length
        k = tl.load(key_base + n[:, None] * stride_kn, inside[:, None], 0.0)
        may = here[:, None] & inside[None, :]
        if MASKED:
            may = may & (tl.load(masks + n[None, :], may, 0) != 0)
        v = tl.load(value_base + n[:, None] * stride_vn, inside[:, None], 0.0)
        top, total, mixed = _attend_block(
            question, k, v, may, top, total, mixed, scale, ROWS >= 16, PRECISION
        )
    mixed = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    at = row[:, None] * (HEADS * GROUPS * D) + query_head[:, None] * D + d[None, :]
    tl.store(out + at, mixed.to(out.dtype.element_ty), here[:, None])


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
    few = q.shape[0] <= FEW
    block, together = 64, beams * groups
    if few:  # as many slots at once as fit into the registers
        block = min(triton.next_power_of_2(slots), 32768 // (d * q.element_size()))
    _attend[(sources, kv_heads)](
        q, new_k, new_v, keys, values, mask, index, out,
        q.stride(0), new_k.stride(0), *keys.stride()[:3], *values.stride()[:3],
        0 if seen is None else seen.stride(0), seen_beam,
        index.stride(0) if new is not None and index.dim() == 2 else 0, slots, scale,
        OWN=new is not None, MASKED=seen is not None, BEAMS=beams, GROUPS=groups,
        HEADS=kv_heads, D=d,
        ROWS=together if few and together <= 2 else max(16, triton.next_power_of_2(together)),
        BLOCK=max(16, block), PRECISION="ieee" if q.dtype is torch.float32 else "tf32", AHEAD=few,
        num_warps=8 if few else 4, **(overlapped(q.device) if few else {"OVERLAPS": False}),
    )  # fmt: skip
    return out


@triton.jit
def _add_norm(
    x, branch, gain, shift, out, width, eps,
    HAS_BRANCH: tl.constexpr, LAYER: tl.constexpr, SHIFTED: tl.constexpr, KEEP_SUM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
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
    )  # fmt: skip
    return out


@triton.jit
def _top(
    logits, never, values, places, normaliser, stride, vocab, end, share,
    K: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The best of one share of the vocabulary."""
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    at = row * tl.num_programs(1) + part
    without_end = tl.load(never + row) != 0
    kept_at = tl.arange(0, KEPT)
    best = tl.where(kept_at < K, -float("inf"), float("inf"))
    where = tl.zeros([KEPT], tl.int32)
    high = -float("inf")
    total = 0.0
    for start in range(part * share, tl.minimum((part + 1) * share, vocab), BLOCK):
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
    share = max(block, triton.next_power_of_2(triton.cdiv(vocab, 64))) if rows <= FEW else vocab
    parts = triton.cdiv(vocab, share)
    values = torch.empty(rows, parts * width, device=logits.device)
    places = torch.empty(rows, parts * width, dtype=torch.long, device=logits.device)
    normaliser = torch.empty(rows, parts, device=logits.device)
    _top[(rows, parts)](
        logits, never.view(torch.uint8), values, places, normaliser, logits.stride(0), vocab, end,
        share, K=width, KEPT=triton.next_power_of_2(width), BLOCK=block,
        num_warps=4 if rows <= FEW else 8,
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
    PLACES: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """A few columns of a linear layer for a few rows, with what comes before and after it. Each
    weight is read once, by one program. With a norm, BLOCK is at least `inputs`."""
    m = tl.arange(0, PLACES)
    n = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, BLOCK)
    inside = n < columns
    both = inside[:, None] & (k < inputs)[None, :]
    w = weight + n[:, None].to(tl.int64) * inputs + k[None, :]
    other = weight + (n + columns)[:, None].to(tl.int64) * inputs + k[None, :]
    first_w = tl.load(w, both, 0.0)
    if GATED:
        first_other = tl.load(other, both, 0.0)
    if NORM != "":
        g = tl.load(gain + k, k < inputs, 0.0).to(tl.float32)
        if SHIFTED:
            s = tl.load(shift + k, k < inputs, 0.0).to(tl.float32)
    if HAS_BIAS:
        b = tl.load(bias + n, inside, 0.0).to(tl.float32)
        if GATED:
            b_other = tl.load(bias + columns + n, inside, 0.0).to(tl.float32)
    if OVERLAPS:
        gdc_launch_dependents()
        gdc_wait()
    at = m[:, None] * inputs + k[None, :]
    may = (m < ROWS)[:, None] & (k < inputs)[None, :]
    row = tl.load(x + at, may, 0.0)
    if NORM != "":
        value = row.to(tl.float32)
        if NORM == "layer":
            value = tl.where(may, value - tl.sum(value, axis=1)[:, None] / inputs, 0.0)
        value = value / tl.sqrt(tl.sum(value * value, axis=1) / inputs + eps)[:, None] * g[None, :]
        if SHIFTED:
            value += s[None, :]
        row = value.to(x.dtype.element_ty)
        if KEEP:
            tl.store(kept + at, row, may & (tl.program_id(0) == 0))
    given = row[:, None, :].to(tl.float32)
    total = tl.sum(given * first_w[None, :, :].to(tl.float32), axis=2)
    if GATED:
        up = tl.sum(given * first_other[None, :, :].to(tl.float32), axis=2)
    for start in range(BLOCK, inputs, BLOCK):
        more = k < inputs - start
        given = tl.load(x + at + start, (m < ROWS)[:, None] & more[None, :], 0.0)
        given = given[:, None, :].to(tl.float32)
        part = tl.load(w + start, inside[:, None] & more[None, :], 0.0)
        total += tl.sum(given * part[None, :, :].to(tl.float32), axis=2)
        if GATED:
            part = tl.load(other + start, inside[:, None] & more[None, :], 0.0)
            up += tl.sum(given * part[None, :, :].to(tl.float32), axis=2)
    if HAS_BIAS:
        total += b[None, :]
    total = _activated(total, ACTIVATION)
    if GATED:
        if HAS_BIAS:
            up += b_other[None, :]
        total *= up
    at = m[:, None] * columns + n[None, :]
    may = (m < ROWS)[:, None] & inside[None, :]
    if ADDS:
        total += tl.load(residual + at, may, 0.0).to(tl.float32)
    tl.store(out + at, total.to(out.dtype.element_ty), may)


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
    columns = layer.out_features // (2 if gated else 1)
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(inputs)
    if norm is None:  # all loads of a program at once, with few threads to synchronise
        block = min(4096, block)
    together, warps = _tile(columns, block)
    shift = norm.shift if isinstance(norm, LayerNorm) else None
    _few_rows[(triton.cdiv(columns, together),)](
        x, x if norm is None else norm.gain, x if shift is None else shift,
        x if kept is None else kept, layer.weight, x if layer.bias is None else layer.bias,
        x if residual is None else residual, out, columns, inputs,
        0.0 if norm is None else norm.eps,
        NORM="" if norm is None else "layer" if isinstance(norm, LayerNorm) else "rms",
        SHIFTED=shift is not None, KEEP=kept is not None, HAS_BIAS=layer.bias is not None,
        ADDS=residual is not None, ACTIVATION=activation, GATED=gated, ROWS=rows,
        PLACES=triton.next_power_of_2(rows), COLUMNS=together, BLOCK=block,
        num_warps=warps, **overlapped(x.device),
    )  # fmt: skip
    return out


def _tile(columns: int, block: int) -> tuple[int, int]:
    """How many columns a program of `_few_rows` computes, and its number of warps."""
    together = 8 if columns > 8192 else 2
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
    few, first = h.shape[0] <= FEW, {"norm": norm, "kept": kept}
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
        and part.expand.bias is not None and norm is residual is None
    ):  # fmt: skip
        hidden = torch._addmm_activation(part.expand.bias, h, part.expand.weight.t())
        return part.output(hidden)
    return plain_kernels.feedforward(part, h, residual=residual, **first)


@triton.jit
def _embed(
    tokens, table, positions, encodings, out, width, factor, first,
    ENCODED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
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
    _embed[(tokens.numel(),)](
        tokens, table, positions, table if encodings is None else encodings, out, table.shape[1],
        factor, first, ENCODED=encodings is not None, BLOCK=triton.next_power_of_2(table.shape[1]),
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
