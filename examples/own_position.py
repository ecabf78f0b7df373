"""Positions of your own in one file: a vector that grows and fades along the text.

    translucid train classify --toyland 2000 --out runs/ramp --code examples/own_position.py \\
        model.positions=ramp
    translucid evaluate runs/ramp --data test.tsv --code examples/own_position.py

A scheme acts in one of three places and leaves the other two alone: `add` on the embeddings,
`angles` for turning queries and keys, `bias` on the scores of attention. Positions come as a
tensor (batch, length) that counts tokens without padding.
"""

import torch
from torch import Tensor, nn

import translucid as tl
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.positions import NoPositions


@tl.position("ramp")
class Ramp(NoPositions):
    """Adds w * log(1 + p): one learnt vector w, whose length tells the position p."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((d_model,), 0.1))

    @classmethod
    def make(cls, *, d_model: int, **sizes: object) -> "Ramp":
        """Other sizes are heads, d_head, max_length, base, scaling and options."""
        return cls(d_model)

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        ramp = positions.to(x.dtype).log1p()[..., None]  # (batch, length, 1)
        encoding = trace("encoding", ramp * self.w)  # seen under this name, like the shipped ones
        return trace("output", x + encoding)
