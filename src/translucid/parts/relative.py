"""A trained bias for each distance between query and key: near ones each have their own, far ones
share, the farther the more of them.

Shapes: positions (batch, length); bias (batch, heads, queries, keys).
"""

import math
from typing import Self

import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.positions import NoPositions, PositionOptions, position


@position("relative")
class RelativeBias(NoPositions):
    """Adds table[bucket(p_k - p_q)] to each score, a number for each head; all layers of a stack
    share the table. Half of the buckets are exact, the other half grow logarithmically up to
    `distance`; `both_ways`, keys behind and before the query have half of them each.

    Raffel et al. 2020, https://arxiv.org/abs/1910.10683, section 2.1
    """

    variant = Variant(["relative"])

    @classmethod
    def make(
        cls,
        *,
        d_model: int,
        heads: int,
        d_head: int,
        max_length: int,
        base: float,
        scaling: float,
        options: PositionOptions,
    ) -> Self:
        return cls(heads, options.buckets, options.distance, both_ways=options.both_ways)

    def __init__(
        self, heads: int, buckets: int = 32, distance: int = 128, *, both_ways: bool = True
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.distance, self.both_ways = distance, both_ways

    def bucket(self, offset: Tensor) -> Tensor:
        """Which row of the table is for a key that stands so far behind its query (before it:
        negative)."""
        buckets = self.table.num_embeddings
        if self.both_ways:
            buckets //= 2
            first, away = (offset > 0) * buckets, offset.abs()
        else:
            first, away = torch.zeros_like(offset), (-offset).clamp(min=0)
        exact = buckets // 2
        # In float32, as it was trained: which bucket has a power of 2 is a matter of rounding.
        grown = (away.float() / exact).log() / math.log(self.distance / exact) * (buckets - exact)
        far = exact + grown.clamp(min=0).long()
        return first + torch.where(away < exact, away, far.clamp(max=buckets - 1))

    def bias(self, queries: Tensor, keys: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        buckets = self.bucket(keys[:, None, :] - queries[:, :, None])  # (batch, queries, keys)
        return trace("bias", self.table(buckets).permute(0, 3, 1, 2))
