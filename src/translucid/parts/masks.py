"""Attention masks: which keys each query may see. Masks are boolean, and True means "may attend".

A token mask is (batch, length), True at real tokens. Where several texts share a row (sequence
packing), it holds the number of each token's text instead, from 1 on, and 0 at padding. An
attention mask broadcasts to (batch, heads, queries, keys).
"""

import torch
from torch import Tensor

from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, apply, constant, minus


def causal(queries: Tensor, keys: Tensor) -> Tensor:
    """A query sees its own slot and the earlier ones: the diagonal stays.

    `queries` and `keys` are slot numbers, (queries,) and (keys,), so that a decoder in the middle
    of a sequence uses the same rule as one that sees it whole.
    """
    return keys[None, :] <= queries[:, None]  # (queries, keys)


def window(queries: Tensor, keys: Tensor, reach: int) -> Tensor:
    """A query sees keys fewer than `reach` positions away, on either side.

    queries, keys: positions (batch, queries) and (batch, keys), so padding does not count as
    distance.
    """
    return (
        queries[:, None, :, None] - keys[:, None, None, :]
    ).abs() < reach  # (batch, 1, queries, keys)


def padding(mask: Tensor) -> Tensor:
    """No query sees padding. mask: (batch, keys), True at real tokens."""
    return mask[:, None, None, :]  # (batch, 1, 1, keys)


def seen(queries: Tensor, keys: Tensor) -> Tensor:
    """From token masks (batch, queries), (batch, keys): no query sees padding or another text."""
    if keys.dtype is torch.bool:
        return keys[:, None]  # (batch, 1, keys)
    return (queries[:, :, None] == keys[:, None]) & (keys != 0)[:, None]  # (batch, queries, keys)


def lengths_to_mask(lengths: Tensor, length: int) -> Tensor:
    """Token mask of right-padded rows with these lengths."""
    return torch.arange(length, device=lengths.device) < lengths[:, None]  # (batch, length)


def positions(mask: Tensor) -> Tensor:
    """The place of each token among the real tokens of its row, so padding moves nothing; of a row
    of several texts, among those of its text.

    Padding before the first token gets 0, later padding the place of the token before it; neither
    is ever attended to.
    """
    if mask.dtype is torch.bool:
        return (mask.cumsum(dim=1) - 1).clamp(min=0)  # (batch, length)
    slots = torch.arange(mask.shape[1], device=mask.device)
    begins = torch.ones_like(mask, dtype=torch.bool)
    begins[:, 1:] = mask[:, 1:] != mask[:, :-1]
    return slots - (slots * begins).cummax(dim=1).values


def token_positions(ids: Tensor, mask: Tensor | None) -> Tensor:
    """The same for a batch that may have no mask: then (1, length), for all rows are alike."""
    if mask is None:
        return torch.arange(ids.shape[1], device=ids.device)[None]
    return positions(mask)


def terms(at: Scope, point: str, index: Index, reach: int | None) -> Expression:
    """Why a query may attend to a key, by the mask of this name. reach: that of a window."""
    row, _, query, key = index
    if point == "causal":
        return apply("<=", constant("k", key), constant("q", query))
    if point == "window":
        assert reach is not None
        ends = constant("p_q", at.position(row, query)), constant("p_k", at.position(row, key))
        return apply("<", apply("abs", minus(*ends)), constant("w", reach))
    return at.run.number(at.mask, at.mask, row, key)
