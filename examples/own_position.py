"""A position scheme of your own in one file: a vector that grows along the text.

    translucid train classify --toyland 2000 --out runs/ramp --code examples/own_position.py \\
        model.positions=ramp
    translucid evaluate runs/ramp --data test.tsv --code examples/own_position.py
    translucid ablate runs/ramp --data test.tsv --of positions --code examples/own_position.py

A scheme acts in one of three places and leaves the other two alone: `add` on the embeddings,
`angles` for turning queries and keys, `bias` on the scores of attention. Positions come as a
tensor (batch, length) that counts tokens without padding.
"""

import torch
from torch import Tensor, nn

import translucid as tl
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, apply, constant
from translucid.parts.positions import NoPositions, PositionSetup


@tl.position("ramp")
class Ramp(NoPositions):
    """Adds w * log(1 + p): one learnt vector w, whose length tells the position p."""

    point = "encoding"  # the trace point that `ablate` and the studio set to 0

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((d_model,), 0.1))

    @classmethod
    def make(cls, setup: PositionSetup) -> "Ramp":
        """The setup also has heads, d_head, max_length and the options of the shipped schemes."""
        return cls(setup.d_model)

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        ramp = positions.to(x.dtype).log1p()[..., None]  # (batch, length, 1)
        encoding = trace("encoding", ramp * self.w)  # seen under this name, like the shipped ones
        return trace("output", x + encoding)

    def terms(self, at: Scope, point: str, index: Index) -> Expression | None:
        """Where one number of `encoding` comes from, for `trace.terms` and the studio."""
        if point != "encoding":
            return super().terms(at, point, index)
        row, place, d = index
        p = constant("1 + p", 1 + at.position(row, place))
        return apply("log", p) * at.weight("w", "w", d)
