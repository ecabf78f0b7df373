"""The operations of `fast.kernels` in plain torch: for CPUs, and as reference in tests."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.parts.activations import ACTIVATIONS, ActivationName
from translucid.parts.cache import Timeline
from translucid.parts.norms import LayerNorm, RMSNorm

FEW = 0  # number of rows up to which linear layers apply norms and residuals


def visible(timeline: Timeline, like: Tensor) -> Tensor | None:
    """The slots that each beam sees, as a bias (0 or -inf): (sources, 1, beams, slots); None: all
    slots."""
    if timeline.everything_seen:
        return None
    seen = timeline.seen[:, None, :, : timeline.taken]
    return like.new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)


def visible_source(mask: Tensor, like: Tensor) -> Tensor | None:
    """The mask of an encoder's output (sources, keys), as a bias (0 or -inf): (sources, 1, 1,
    keys); None if there is no padding."""
    if bool(mask.all()):
        return None
    return like.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)[:, None, None]


def attend_newest(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    beams: int,
    scale: float,
    seen: Tensor | None,
    new: tuple[Tensor, Tensor, Tensor | int] | None = None,
) -> Tensor:
    """Attention of one token per row: (rows, heads * d_head).

    q: (rows, heads * d_head). keys, values: (sources, kv_heads, slots, d_head). seen: the bias that
    `visible` or `visible_source` returns. new: the newest keys and values, (rows, kv_heads *
    d_head), and the slots in which they are stored: (beams,), or only the first of these slots, or
    (sources, 1) if each source has its own.
    """
    sources, kv_heads, _, d = keys.shape
    if new is not None and isinstance(new[2], Tensor) and new[2].dim() == 2:
        k, v = (_by_source(part, sources, beams, d) for part in new[:2])
        at = new[2][:, None, :, None].expand_as(k)
        keys.scatter_(2, at, k)
        values.scatter_(2, at, v)
    elif new is not None:
        k, v, index = new
        start = int(index[0]) if isinstance(index, Tensor) else index
        keys.narrow(2, start, beams).copy_(_by_source(k, sources, beams, d))
        values.narrow(2, start, beams).copy_(_by_source(v, sources, beams, d))
        keys, values = keys.narrow(2, 0, start + beams), values.narrow(2, 0, start + beams)
    question = _by_source(q, sources, beams, d)
    mixed = F.scaled_dot_product_attention(
        question, keys, values, attn_mask=seen, scale=scale,
        enable_gqa=question.shape[1] != kv_heads,
    )  # fmt: skip
    if beams > 1:
        mixed = mixed.transpose(1, 2)
    return mixed.reshape(q.shape[0], -1)


def add_norm(x: Tensor, branch: Tensor | None, norm: nn.Module, *, keep_sum: bool) -> Tensor:
    """Return norm(x + branch). With `keep_sum`, x is changed in place to the sum. x, branch: (rows,
    width), or branch: its parts (parts, rows, width)."""
    if branch is not None and branch.dim() == 3:
        branch = branch.sum(dim=0).to(x)
    if branch is not None:
        x = x.add_(branch) if keep_sum else x + branch
    if isinstance(norm, LayerNorm):
        return torch.layer_norm(x, x.shape[-1:], norm.gain, norm.shift, norm.eps)
    assert isinstance(norm, RMSNorm)
    return F.rms_norm(x, x.shape[-1:], norm.gain, norm.eps)


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
    """activation(W norm(x) + b) + residual. `kept` receives norm(x). gated: the first half of the
    outputs, with the activation, multiplies the second half. split: allows the result to be parts,
    which it never is here."""
    y, factor = layer(_normed(x, norm, kept)), None
    if gated:
        y, factor = y.chunk(2, dim=-1)
    if activation != "identity":
        y = ACTIVATIONS[cast(ActivationName, activation)](y)
    if factor is not None:
        y = y * factor
    return y if residual is None else y + residual


def feedforward(
    part: nn.Module,
    h: Tensor,
    *,
    norm: nn.Module | None = None,
    kept: Tensor | None = None,
    residual: Tensor | None = None,
    split: bool = False,
) -> Tensor:
    """part(norm(h)) + residual for a feed-forward layer. `kept` receives norm(h). split: see
    `linear`."""
    y = part(_normed(h, norm, kept))
    return y if residual is None else y + residual


def _normed(x: Tensor, norm: nn.Module | None, kept: Tensor | None) -> Tensor:
    if norm is None:
        return x
    x = add_norm(x, None, norm, keep_sum=False)
    return x if kept is None else kept.copy_(x)


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
    x = F.embedding(tokens.flatten(), table)
    if factor != 1.0:
        x = x * factor
    if encodings is None:
        return x
    places = positions.flatten()
    return x + F.embedding(places + first if first else places, encodings)


def advance_one(timeline: Timeline) -> tuple[Tensor, Tensor]:
    """Reserve a slot for one token per row. Returns the positions of these tokens (sources, beams)
    and their slots."""
    return timeline.counts.clone(), timeline.advance_one()


def normalise_newest(x: Tensor, norms: Sequence[tuple[int, RMSNorm]]) -> None:
    """Normalise heads of x (rows, heads * d_head or more) in place. norms: for each group of
    consecutive heads, the number of heads and their norm."""
    start = 0
    for heads, norm in norms:
        d = norm.gain.shape[0]
        part = x[:, start : start + heads * d].unflatten(1, (heads, d))
        part.copy_(F.rms_norm(part, (d,), norm.gain, norm.eps))
        start += heads * d


def rotate_newest(
    x: Tensor, cos: Tensor, sin: Tensor, heads: int, d_head: int | None = None
) -> None:
    """Rotate the first pairs of the first `heads` heads of x (rows, heads * d_head or more) in
    place. cos, sin: (rows, pairs), float64. d_head: default 2 * pairs."""
    d = 2 * cos.shape[1]
    d_head = d_head or d
    turned = x[:, : heads * d_head].view(x.shape[0], heads, d_head)[..., :d].unflatten(-1, (-1, 2))
    even, odd = turned[..., 0].clone(), turned[..., 1].clone()
    cos, sin = cos.to(x)[:, None], sin.to(x)[:, None]
    turned[..., 0] = even * cos - odd * sin
    turned[..., 1] = even * sin + odd * cos


def top_and_normaliser(
    logits: Tensor, width: int, end: int, never: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """For each row, the largest `width` logits (rows, width), their indices (rows, width), and log
    Σ exp of all logits (rows, 1). Where `never` (rows,) is True, the token `end` is not chosen, but
    is included in the sum."""
    logits = logits.float()
    normaliser = logits.logsumexp(dim=-1, keepdim=True)
    is_end = torch.arange(logits.shape[1], device=logits.device) == end
    values, places = logits.masked_fill(never[:, None] & is_end, -torch.inf).topk(width)
    return values, places, normaliser


def _by_source(x: Tensor, sources: int, beams: int, d: int) -> Tensor:
    """Reshape (rows, heads * d) to (sources, heads, beams, d)."""
    if beams == 1:
        return x.view(sources, -1, 1, d)
    return x.view(sources, beams, -1, d).transpose(1, 2)
