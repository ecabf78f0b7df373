"""From ids to vectors, and from vectors back to scores over the vocabulary."""

import math

from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.trace import NO_TRACE, NoTrace


class Embedding(nn.Module):
    """One trained row per id, times sqrt(d_model) when `scale` is on.

    The scale lets one small-valued matrix serve both as embedding, where entries near 1 should
    meet the positions, and as tied output head, where logits should start near 0.
    """

    def __init__(self, vocab: int, d_model: int, *, scale: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, d_model)
        self.factor = math.sqrt(d_model) if scale else 1.0

    def forward(self, ids: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        x = trace("lookup", self.table(ids))  # (batch, length, d_model)
        return x if self.factor == 1.0 else trace("scaled", x * self.factor)


class LanguageHead(nn.Module):
    """Logits over the vocabulary, W x + b; tied, W is the embedding table. A bias starts at 0.
    With a `scale`, W (scale x) + b: a table with entries near 1 makes logits near 1 with it."""

    output_point = "logits"

    def __init__(
        self,
        d_model: int,
        vocab: int,
        *,
        bias: bool = False,
        scale: float = 1.0,
        tied: Embedding | None = None,
    ) -> None:
        super().__init__()
        self.scale = scale
        self.linear = nn.Linear(d_model, vocab, bias=bias)
        if bias:
            nn.init.zeros_(self.linear.bias)
        if tied is not None:
            self.linear.weight = tied.table.weight

    @property
    def variant(self) -> Variant:
        absent = () if self.linear.bias is not None else ("b",)
        return variant(absent, scaled=self.scale != 1)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        if self.scale != 1:
            x = x * self.scale
        return trace("logits", self.linear(x))  # (batch, length, vocab)
