"""GPU kernels for one decoding step. Each replaces several kernels or copies of torch.

Each has a plain counterpart of the same name in `fast.plain_kernels`. This module needs Triton,
which is installed together with torch for CUDA on Linux.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from translucid.fast import plain_kernels
from translucid.parts.activations import ACTIVATIONS, ActivationName
from translucid.parts.cache import Timeline
from translucid.parts.feedforward import FeedForward, GatedFeedForward
from translucid.parts.norms import LayerNorm, RMSNorm


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
    _attend[(sources, kv_heads)](
        q, new_k, new_v, keys, values, mask, index, out,
        q.stride(0), new_k.stride(0), *keys.stride()[:3], *values.stride()[:3],
        0 if seen is None else seen.stride(0), seen_beam,
        index.stride(0) if new is not None and index.dim() == 2 else 0, slots, scale,
        OWN=new is not None, MASKED=seen is not None, BEAMS=beams, GROUPS=groups,
        HEADS=kv_heads, D=d, ROWS=max(16, triton.next_power_of_2(beams * groups)), BLOCK=64,
        PRECISION="ieee" if q.dtype is torch.float32 else "tf32", num_warps=4,
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
    logits, never, values, places, normaliser, stride, vocab, end,
    K: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    without_end = tl.load(never + row) != 0
    kept_at = tl.arange(0, KEPT)
    best = tl.where(kept_at < K, -float("inf"), float("inf"))
    where = tl.zeros([KEPT], tl.int32)
    high = -float("inf")
    total = 0.0
    for start in range(0, vocab, BLOCK):
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
    tl.store(values + row * K + kept_at, best, kept_at < K)
    tl.store(places + row * K + kept_at, where.to(tl.int64), kept_at < K)
    tl.store(normaliser + row, high + tl.log(total))


def top_and_normaliser(
    logits: Tensor, width: int, end: int, never: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """For each row, the largest `width` logits in any order (rows, width), their indices (rows,
    width), and log Σ exp of all logits (rows, 1). Where `never` (rows,) is True, the token `end` is
    not chosen, but is included in the sum."""
    rows, vocab = logits.shape
    values = torch.empty(rows, width, device=logits.device)
    places = torch.empty(rows, width, dtype=torch.long, device=logits.device)
    normaliser = torch.empty(rows, 1, device=logits.device)
    _top[(rows,)](
        logits, never.view(torch.uint8), values, places, normaliser, logits.stride(0), vocab, end,
        K=width, KEPT=triton.next_power_of_2(width),
        BLOCK=16384 if rows <= 64 else 4096, num_warps=8,
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
def _few_rows(
    x, weight, bias, out, stride, columns, inputs,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, PLACES: tl.constexpr,
    COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute a few columns of W x + b for a few rows. Each weight is read once, by one program."""
    m = tl.arange(0, PLACES)
    n = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = n < columns
    total = tl.zeros([PLACES, COLUMNS], tl.float32)
    for start in range(0, inputs, BLOCK):
        k = start + tl.arange(0, BLOCK)
        w = tl.load(
            weight + n[:, None].to(tl.int64) * inputs + k[None, :],
            inside[:, None] & (k < inputs)[None, :],
            0.0,
        )
        row = tl.load(
            x + m[:, None] * stride + k[None, :], (m < ROWS)[:, None] & (k < inputs)[None, :], 0.0
        )
        total += tl.sum(row[:, None, :].to(tl.float32) * w[None, :, :].to(tl.float32), axis=2)
    if HAS_BIAS:
        total += tl.load(bias + n, inside, 0.0).to(tl.float32)[None, :]
    if ACTIVATION == "relu":
        total = tl.maximum(total, 0.0)
    if ACTIVATION == "gelu":
        total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    if ACTIVATION == "gelu_tanh":  # (1 + tanh(u)) / 2 = sigmoid(2 u)
        total *= tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total))
    if ACTIVATION == "quick_gelu":
        total *= tl.sigmoid(1.702 * total)
    if ACTIVATION == "relu_squared":
        total = tl.maximum(total, 0.0) * tl.maximum(total, 0.0)
    at = out + m[:, None] * columns + n[None, :]
    tl.store(at, total.to(out.dtype.element_ty), (m < ROWS)[:, None] & inside[None, :])


FEW = 4  # number of rows up to which a matrix multiplication takes as long as reading the weights
KNOWN: tuple[ActivationName, ...] = ("relu", "gelu", "gelu_tanh", "quick_gelu", "relu_squared")
NAMES = {ACTIVATIONS[name]: name for name in KNOWN}  # of the activations in `_few_rows`


def linear(layer: nn.Module, x: Tensor, activation: str = "identity") -> Tensor:
    """activation(W x + b) for x (rows, inputs). For few rows, it is computed by Translucid's own
    kernel."""
    rows, inputs = x.shape
    if rows > FEW or not isinstance(layer, nn.Linear):
        return plain_kernels.linear(layer, x, activation)
    columns = layer.out_features
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    # All loads of a program at once, with few threads to synchronise.
    block = min(4096, triton.next_power_of_2(inputs))
    _few_rows[(triton.cdiv(columns, 2),)](
        x, layer.weight, x if layer.bias is None else layer.bias, out, x.stride(0), columns, inputs,
        HAS_BIAS=layer.bias is not None, ACTIVATION=activation, ROWS=rows,
        PLACES=triton.next_power_of_2(rows), COLUMNS=2, BLOCK=block,
        num_warps=1 if block <= 1024 else 4,
    )  # fmt: skip
    return out


def feedforward(part: nn.Module, h: Tensor) -> Tensor:
    """Apply a feed-forward layer to h, with its first linear layer and activation in one kernel."""
    if isinstance(part, GatedFeedForward) and h.shape[0] <= FEW:
        gate, hidden = linear(part.expand, h).chunk(2, dim=-1)
        return linear(part.output, part.activation(gate) * hidden)
    if not isinstance(part, FeedForward) or part.activation not in NAMES:
        return part(h)
    if h.shape[0] <= FEW:
        return linear(part.output, linear(part.expand, h, NAMES[part.activation]))
    if part.activation is torch.relu and part.expand.bias is not None:
        hidden = torch._addmm_activation(part.expand.bias, h, part.expand.weight.t())
        return part.output(hidden)
    return part(h)
