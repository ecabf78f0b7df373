"""Attention masks: which keys each query may see. Masks are boolean, and True means "may attend".

A token mask is (batch, length), True at real tokens; with sequence packing it holds the number of
each token's text, starting at 1, and 0 at padding. An attention mask broadcasts to (batch, heads,
queries, keys).
"""

import torch
from torch import Tensor

from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, apply, constant


def causal(queries: Tensor, keys: Tensor) -> Tensor:
    """Causal mask: a query sees its own slot and earlier ones. queries, keys: slots (queries,) and
    (keys,)."""
    return keys[None, :] <= queries[:, None]  # (queries, keys)


def window(queries: Tensor, keys: Tensor, reach: int) -> Tensor:
    """Sliding-window mask: a query sees the keys that are fewer than `reach` positions away, before
    or after it.

    queries, keys: positions (batch, queries) and (batch, keys), which do not count padding.
    """
    distances = (queries[:, None, :, None] - keys[:, None, None, :]).abs()
    return distances < reach  # (batch, 1, queries, keys)


def padding(mask: Tensor) -> Tensor:
    """Padding mask: no query sees padding. mask: (batch, keys), True at real tokens."""
    return mask[:, None, None, :]  # (batch, 1, 1, keys)


def seen(queries: Tensor, keys: Tensor) -> Tensor:
    """Mask from two token masks (batch, queries) and (batch, keys): no query sees padding or
    a different text."""
    if keys.dtype is torch.bool:
        return keys[:, None]  # (batch, 1, keys)
    return (queries[:, :, None] == keys[:, None]) & (keys != 0)[:, None]  # (batch, queries, keys)


def positions(mask: Tensor) -> Tensor:
    """The position of each token: its index among the real tokens of its row or, with sequence
    packing, of its text.

    Padding gets the position of the token before it, or 0; it is never attended to.
    """
    if mask.dtype is torch.bool:
        return (mask.cumsum(dim=1) - 1).clamp(min=0)  # (batch, length)
    slots = torch.arange(mask.shape[1], device=mask.device)
    begins = torch.ones_like(mask, dtype=torch.bool)
    begins[:, 1:] = mask[:, 1:] != mask[:, :-1]
    return slots - (slots * begins).cummax(dim=1).values


def token_positions(ids: Tensor, mask: Tensor | None) -> Tensor:
    """The position of each token of a batch: (batch, length); without a mask (1, length), since all
    rows have the same positions."""
    if mask is None:
        return torch.arange(ids.shape[1], device=ids.device)[None]
    return positions(mask)


def terms(at: Scope, point: str, index: Index, reach: int | None) -> Expression:
    """One value of the mask `point`, as an expression. reach: size of the window, if any."""
    row, _, query, key = index
    if point == "causal":
        return apply("<=", constant("k", key), constant("q", query))
    if point == "window":
        assert reach is not None
        p_q, p_k = constant("p_q", at.position(row, query)), constant("p_k", at.position(row, key))
        return apply("<", apply("abs", p_q - p_k), constant("w", reach))
    return at.run.number(at.mask, at.mask, row, key)
