"""Attention over short rows in training on a GPU, with one program per row and head.

Kernels for long rows use tiles of 64 to 128 positions, which stay mostly empty in short rows, and
they need three passes for the gradients. Here, a program holds all scores of a head, so q, k and v
are read once forward and once backward. The plain counterpart is `parts.attention.fused`. This
module needs Triton.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from translucid.parts.attention import Layout, fused

MAX_LENGTH = 64  # positions of a row; longer rows fill tiles of 64 (measured on an H200)
D_HEADS = (16, 32, 64, 128)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def short_attention(
    q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float, dropout: float
) -> Tensor:
    """Attention with the same result as `fused`. Long rows and other cases that this kernel does
    not support are passed on to `fused`."""
    fits = (
        layout.bias is None
        and q.shape[1] == k.shape[1]
        and q.shape[-1] in D_HEADS
        and q.dtype == k.dtype == v.dtype
        and q.dtype in DTYPES
        and q.shape[2] <= MAX_LENGTH
        and k.shape[2] <= MAX_LENGTH
    )
    if not fits:
        return fused(q, k, v, layout, scale, dropout)
    # The custom operation is for torch.compile; calling it directly would import the compiler.
    attend: Any = _attend if torch.compiler.is_compiling() else _Attention.apply
    mixed: Tensor = attend(q, k, v, layout.mask, layout.causal, scale, dropout)[0]
    return mixed


@triton.jit
def _tile(start, batch, head, batch_stride, head_stride, row_stride, rows, R, D: tl.constexpr):
    """The addresses of a head's rows in memory, and a mask of those that exist."""
    at = start + batch * batch_stride + head * head_stride
    return at + R[:, None] * row_stride + tl.arange(0, D)[None, :], R[:, None] < rows


@triton.jit
def _pattern(
    Q, K, mask, scale, batch, head, mask_batch, mask_head, mask_query, mask_key, keys, M_, N_,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """softmax(scale q kᵀ); zeros for a query that sees no key."""
    scores = tl.dot(Q, tl.trans(K), input_precision="ieee") * scale
    seen = (N_[None, :] < keys) & (M_[:, None] >= 0)
    if CAUSAL:
        seen = seen & (N_[None, :] <= M_[:, None])
    if MASKED:
        at = mask + batch * mask_batch + head * mask_head
        at = at + M_[:, None] * mask_query + N_[None, :] * mask_key
        seen = seen & (tl.load(at, seen, 0) != 0)
    scores = tl.where(seen, scores, -float("inf"))
    top = tl.max(scores, axis=1)
    powers = tl.exp(scores - tl.where(top == -float("inf"), 0.0, top)[:, None])
    total = tl.sum(powers, axis=1)
    return powers / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def _hashed(x):
    """A hash of uint32 values (constants of C. Wellons, "lowbias32", 2018)."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _kept(seed, program, limit, M: tl.constexpr, N: tl.constexpr):
    """The mask of the values that dropout keeps, from a hash of index and seed. Triton's own
    generator, drawing four numbers at a time, gave wrong results in bfloat16 with one or two
    warps."""
    place = (program * M + tl.arange(0, M)[:, None]) * N + tl.arange(0, N)[None, :]
    start = tl.load(seed).to(tl.uint32)
    return (_hashed(place.to(tl.uint32) ^ _hashed(start)) >> 1) >= limit


# Triton compiles no separate program if these sizes are 1 or a multiple of 16. For strides it does,
# because several numbers can be loaded at a time if all strides are multiples of 16.
ANY = ["heads", "queries", "keys"]


@triton.jit(do_not_specialize=ANY)
def attention_forward(
    q, k, v, mask, seed, mixed, scale, limit, factor,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    mask_batch, mask_head, mask_query, mask_key, o_batch, o_head, o_row, heads, queries, keys,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, DROPS: tl.constexpr,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    batch, head = (program // heads).to(tl.int64), (program % heads).to(tl.int64)
    M_, N_ = tl.arange(0, M), tl.arange(0, N)
    q_at, q_in = _tile(q, batch, head, q_batch, q_head, q_row, queries, M_, D)
    k_at, k_in = _tile(k, batch, head, k_batch, k_head, k_row, keys, N_, D)
    v_at, v_in = _tile(v, batch, head, v_batch, v_head, v_row, keys, N_, D)
    o_at, o_in = _tile(mixed, batch, head, o_batch, o_head, o_row, queries, M_, D)
    V = tl.load(v_at, v_in, 0.0)
    P = _pattern(
        tl.load(q_at, q_in, 0.0), tl.load(k_at, k_in, 0.0), mask, scale, batch, head,
        mask_batch, mask_head, mask_query, mask_key, keys, M_, N_, CAUSAL, MASKED,
    )  # fmt: skip
    if DROPS:
        P = tl.where(_kept(seed, program, limit, M, N), P * factor, 0.0)
    mean = tl.dot(P.to(V.dtype), V, input_precision="ieee")
    tl.store(o_at, mean.to(V.dtype), o_in)


@triton.jit(do_not_specialize=ANY)
def attention_backward(
    q, k, v, mask, seed, d_mixed, d_q, d_k, d_v, scale, limit, factor,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    mask_batch, mask_head, mask_query, mask_key, do_batch, do_head, do_row,
    dq_batch, dq_head, dq_row, dk_batch, dk_head, dk_row, heads, queries, keys,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, DROPS: tl.constexpr,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    batch, head = (program // heads).to(tl.int64), (program % heads).to(tl.int64)
    M_, N_ = tl.arange(0, M), tl.arange(0, N)
    q_at, q_in = _tile(q, batch, head, q_batch, q_head, q_row, queries, M_, D)
    k_at, k_in = _tile(k, batch, head, k_batch, k_head, k_row, keys, N_, D)
    v_at, v_in = _tile(v, batch, head, v_batch, v_head, v_row, keys, N_, D)
    do_at, do_in = _tile(d_mixed, batch, head, do_batch, do_head, do_row, queries, M_, D)
    Q, K = tl.load(q_at, q_in, 0.0), tl.load(k_at, k_in, 0.0)
    V, dO = tl.load(v_at, v_in, 0.0), tl.load(do_at, do_in, 0.0)
    P = _pattern(
        Q, K, mask, scale, batch, head,
        mask_batch, mask_head, mask_query, mask_key, keys, M_, N_, CAUSAL, MASKED,
    )  # fmt: skip
    dP = tl.dot(dO, tl.trans(V), input_precision="ieee")
    left = P
    if DROPS:
        kept = _kept(seed, program, limit, M, N)
        left = tl.where(kept, P * factor, 0.0)
        dP = tl.where(kept, dP * factor, 0.0)
    dV = tl.dot(tl.trans(left.to(V.dtype)), dO, input_precision="ieee")
    at, inside = _tile(d_v, batch, head, dk_batch, dk_head, dk_row, keys, N_, D)
    tl.store(at, dV.to(V.dtype), inside)
    dS = (P * (dP - tl.sum(P * dP, axis=1)[:, None]) * scale).to(V.dtype)
    at, inside = _tile(d_q, batch, head, dq_batch, dq_head, dq_row, queries, M_, D)
    tl.store(at, tl.dot(dS, K, input_precision="ieee").to(V.dtype), inside)
    at, inside = _tile(d_k, batch, head, dk_batch, dk_head, dk_row, keys, N_, D)
    tl.store(at, tl.dot(tl.trans(dS), Q, input_precision="ieee").to(V.dtype), inside)


def _like(heads: Tensor) -> Tensor:
    """An empty tensor (batch, heads, positions, d_head), in which the heads of a position are
    adjacent in memory."""
    batch, count, positions, d_head = heads.shape
    return heads.new_empty(batch, positions, count, d_head).transpose(1, 2)


def _seed(heads: Tensor) -> Tensor:
    return heads.new_empty(1, dtype=torch.int64)


def _strides(heads: Tensor) -> tuple[int, ...]:
    return heads.stride()[:3]


def _options(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, dropout: float
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The strides of the mask, and the options that are constants when the kernel is compiled."""
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    strides = (0, 0, 0, 0) if mask is None else mask.expand(shape).stride()
    # Only two sizes, square, since compiling a program takes a second.
    size = MAX_LENGTH // 2 if max(q.shape[2], k.shape[2]) <= MAX_LENGTH // 2 else MAX_LENGTH
    made_for = {
        "CAUSAL": causal and mask is None, "MASKED": mask is not None, "DROPS": dropout > 0,
        "D": q.shape[-1], "M": size, "N": size, "num_warps": size // 16,
    }  # fmt: skip
    return strides, made_for


def _numbers(scale: float, dropout: float) -> tuple[float, int, float]:
    return scale, int(dropout * 2**31), 1 / (1 - dropout)


def _rows_at_hand(heads: Tensor) -> Tensor:
    return heads if heads.stride(-1) == 1 else heads.contiguous()


def _forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The mixed values, and the seed of dropout. The seed is drawn here, because torch.compile
    would draw a different one for the backward pass."""
    q, k, v = (_rows_at_hand(heads) for heads in (q, k, v))
    mixed, seed = _like(q), _seed(q)
    if dropout:
        seed.random_(2**31)
    mask_strides, made_for = _options(q, k, mask, causal, dropout)
    attention_forward[(q.shape[0] * q.shape[1],)](
        q, k, v, mask, seed, mixed, *_numbers(scale, dropout), *_strides(q), *_strides(k),
        *_strides(v), *mask_strides, *_strides(mixed), q.shape[1], q.shape[2], k.shape[2],
        **made_for,
    )  # fmt: skip
    return mixed, seed


def _backward(
    d_mixed: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, seed: Tensor,
    causal: bool, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    q, k, v, d_mixed = (_rows_at_hand(heads) for heads in (q, k, v, d_mixed))
    d_q, d_k, d_v = _like(q), _like(k), _like(v)
    mask_strides, made_for = _options(q, k, mask, causal, dropout)
    attention_backward[(q.shape[0] * q.shape[1],)](
        q, k, v, mask, seed, d_mixed, d_q, d_k, d_v, *_numbers(scale, dropout), *_strides(q),
        *_strides(k), *_strides(v), *mask_strides, *_strides(d_mixed), *_strides(d_q),
        *_strides(d_k), q.shape[1], q.shape[2], k.shape[2], **made_for,
    )  # fmt: skip
    return d_q, d_k, d_v


_attend = torch.library.custom_op("translucid::short_attention", _forward, mutates_args=())
_attend_backward = torch.library.custom_op(
    "translucid::short_attention_backward", _backward, mutates_args=()
)


@_attend.register_fake
def _(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _like(q), _seed(q)


@_attend_backward.register_fake
def _(d_mixed: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _like(q), _like(k), _like(v)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, mask, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, mask, output[1])


def _gradients(ctx: Any, d_mixed: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    gradients = _attend_backward(d_mixed, *ctx.saved_tensors, *ctx.options)
    return *gradients, None, None, None, None


_attend.register_autograd(_gradients, setup_context=_keep)


class _Attention(torch.autograd.Function):
    """`short_attention` as an autograd function, for calls outside torch.compile."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        outputs = _forward(*inputs)
        _keep(ctx, inputs, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        d_q, d_k, d_v = _backward(gradients[0], *ctx.saved_tensors, *ctx.options)
        return d_q, d_k, d_v, None, None, None, None
