"""What stands on top of a reader: one label for the text, or one for each token.

Shapes: x (batch, length, d_model); `mask` (batch, length) True at real tokens, None when all are.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from translucid.catalogue import Variant
from translucid.parts.activations import softmax
from translucid.parts.cache import RecurrentState
from translucid.trace import NO_TRACE, NoTrace

HeadName = Literal["language", "classify", "tag"]
Pooling = Literal["mean", "last", "first", "attention"]


class Tagger(nn.Module):
    """Logits W x + b for each token."""

    output_point = "logits"

    def __init__(self, d_input: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_input, outputs)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        state: RecurrentState | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        return trace("logits", self.linear(x))  # (batch, length, outputs)


class Classifier(nn.Module):
    """Logits W p + b, where p is one vector made of all tokens.

    mean: their mean. first, last: the first or last real token; a recurrent network's "last" is
    its final state, which in both directions has read the whole text. attention: a trained query
    picks.
    """

    output_point = "class_logits"

    def __init__(self, d_input: int, outputs: int, pooling: Pooling = "mean") -> None:
        super().__init__()
        self.pooling = pooling
        self.linear = nn.Linear(d_input, outputs)
        self.query = nn.Linear(d_input, 1, bias=False) if pooling == "attention" else None

    @property
    def variant(self) -> Variant:
        return Variant([self.pooling])

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        state: RecurrentState | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        if mask is None:
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        pooled = trace("pooled", self._pool(x, mask, state, trace))  # (batch, d_model)
        return trace("class_logits", self.linear(pooled))  # (batch, outputs)

    def _pool(
        self, x: Tensor, mask: Tensor, state: RecurrentState | None, trace: NoTrace
    ) -> Tensor:
        match self.pooling:
            case "mean":
                weight = mask.to(x.dtype)
                weight = weight / weight.sum(dim=1, keepdim=True).clamp(min=1)
            case "attention":
                assert self.query is not None
                scores = trace("pool_scores", self.query(x).squeeze(-1))
                weight = softmax(scores.masked_fill(~mask, -torch.inf))
            case "first" | "last":
                if self.pooling == "last" and state is not None:
                    directions = x.shape[-1] // state.hidden.shape[-1]
                    return torch.cat(list(state.hidden[-directions:]), dim=-1)
                place = mask.cumsum(dim=1)
                wanted = 1 if self.pooling == "first" else place[:, -1:]
                weight = ((place == wanted) & mask).to(x.dtype)
        weight = trace("pool_pattern", weight)  # (batch, length)
        return (weight[:, None] @ x).squeeze(1)


def make_head(
    name: HeadName, d_input: int, outputs: int | None, pooling: Pooling
) -> Classifier | Tagger:
    """The head that labels."""
    assert outputs is not None, "the config was validated"
    return Classifier(d_input, outputs, pooling) if name == "classify" else Tagger(d_input, outputs)
