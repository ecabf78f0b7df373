"""Low-rank adaptation: a small trained layer is added to a frozen linear layer.

Hu et al. 2021, https://arxiv.org/abs/2106.09685. Shapes: x (..., d_input); down (..., rank).
"""

from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, constant, joined


class LoRA(nn.Module):
    """(alpha / rank) B A x: A projects down to `rank` dimensions, B back up. B starts at zero."""

    decode_slots = ("lora",)

    def __init__(
        self, d_input: int, d_output: int, rank: int, alpha: float, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.down = nn.Linear(d_input, rank, bias=False)
        self.up = nn.Linear(rank, d_output, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.scale = alpha / rank
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        down = trace("down", self.down(self.dropout(x)))
        return trace("up", self.scale * self.up(down))

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        *place, d = index
        if point == "up":
            added = at.linear("up", d, at.vector("down", *place, None), "B")
            return constant("scale", self.scale) * added
        source, _, read = at.run.reads(at.path).rpartition(".")
        if read == "mixed":  # the output of attention: concatenate the heads
            row, query = place
            mixed, heads = at.run.at(source), range(at.run.tensor(f"{source}.mixed").shape[1])
            x = joined(*(mixed.vector("mixed", row, head, query, None) for head in heads))
        else:
            label = "activated" if read == "activated" else "x"
            x = at.run.vector(label, f"{source}.{read}", *place, None)
        return at.linear("down", d, x, "A")

    @property
    def weight(self) -> Tensor:
        """The matrix (alpha / rank) B A."""
        return self.scale * (self.up.weight @ self.down.weight)


class AdaptedLinear(nn.Module):
    """W x + b + (alpha / rank) B A x. Its `weight` is W + (alpha / rank) B A."""

    decode_slots = ("qkv", "query", "kv", "output", "expand", "linear")

    def __init__(self, base: nn.Linear, rank: int, alpha: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.base = base
        self.lora = LoRA(base.in_features, base.out_features, rank, alpha, dropout)
        self.in_features, self.out_features = base.in_features, base.out_features

    @property
    def weight(self) -> Tensor:
        return self.base.weight + self.lora.weight

    @property
    def bias(self) -> Tensor | None:
        return self.base.bias

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        y: Tensor = self.base(x) + self.lora(x, trace.at("lora"))
        return y


def linear(layer: nn.Module, x: Tensor, trace: NoTrace) -> Tensor:
    """Apply a linear layer; if it has an adapter, trace the adapter."""
    y: Tensor = layer(x, trace) if isinstance(layer, AdaptedLinear) else layer(x)
    return y
