"""Layers that act on each position separately.

Shapes: x (..., d_model); hidden (..., d_ff).
"""

from collections.abc import Iterator
from typing import Literal, cast

from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.activations import ACTIVATIONS, ActivationName, identity, symbol
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression
from translucid.parts.expression import activation as activated
from translucid.parts.lora import linear
from translucid.parts.switch import Switch, in_words

GatedName = Literal["swiglu", "geglu", "geglu_tanh"]
GATES: dict[str, ActivationName] = {
    "swiglu": "silu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",
}


class Dense(nn.Module):
    """act(W x + b), or x + act(W x + b) with `residual`."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        activation: ActivationName = "identity",
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.activation = ACTIVATIONS[activation]
        self.residual = residual and inputs == outputs

    @property
    def variant(self) -> Variant:
        return variant(
            symbols={"act": symbol(self.activation)}, identity=self.activation is identity
        )

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        z = trace("preactivation", self.linear(x))  # (..., outputs)
        h = trace("activation", self.activation(z))
        return trace("sum", trace("skip", x) + h) if self.residual else h

    @property
    def output_point(self) -> str:
        return "dense.sum" if self.residual else "dense.activation"

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        *place, d = index
        match point:
            case "preactivation":
                return at.linear("linear", d, at.inputs(*place, None))
            case "activation":
                return activated(self.activation, at.number("preactivation", *index))
            case "skip":
                return at.input(*index)
        return at.number("skip", *index) + at.number("activation", *index)


class _TwoLayers(nn.Module):
    """Base class of plain and gated feed-forward layers."""

    projections = 1  # number of blocks of d_ff rows in the first layer

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: ActivationName | GatedName = "relu",
        *,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, self.projections * d_ff, bias=bias)
        self.output = nn.Linear(d_ff, d_model, bias=bias)
        self.activation = ACTIVATIONS[cast(ActivationName, GATES.get(activation, activation))]
        self.dropout = nn.Dropout(dropout)

    @property
    def variant(self) -> Variant:
        return variant(
            absent=() if self.output.bias is not None else ("b_1", "b_g", "b_2"),
            symbols={"act": symbol(self.activation)},
            identity=self.activation is identity,
        )

    def feeds(self, part: str, at: Scope) -> str | None:
        return at.name("activated") if part.startswith("output") else None

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place, d = index
        if point == "hidden":
            return self._expanded(at, index, 0, "W_1", "b_1")
        if point == "activated":
            return activated(self.activation, at.number("hidden", *index))
        return at.linear("output", d, at.vector("activated", row, place, None), "W_2", "b_2")

    def _expanded(self, at: Scope, index: Index, first: int, weight: str, bias: str) -> Expression:
        """One value of the output of the first layer, W x + b. first: the row of W at which the
        rows for this trace point begin."""
        row, place, d = index
        return at.linear("expand", first + d, at.inputs(row, place, None), weight, bias)


class FeedForward(_TwoLayers):
    """W₂ act(W₁ x + b₁) + b₂ at every position."""

    decode_slots = ("feedforward",)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        hidden = linear(self.expand, x, trace.at("expand"))
        hidden = trace("hidden", hidden)  # (batch, length, d_ff)
        dropped = self.dropout(trace("activated", self.activation(hidden)))
        return trace("output", linear(self.output, dropped, trace.at("output")))


class GatedFeedForward(_TwoLayers):
    """W₂ (act(W_g x) ⊙ W₁ x): a feed-forward layer whose hidden layer is multiplied by a gate.

    SwiGLU with act = silu, GEGLU with act = gelu. Shazeer 2020, https://arxiv.org/abs/2002.05202
    """

    projections = 2
    decode_slots = ("feedforward",)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        both = linear(self.expand, x, trace.at("expand"))
        gate, hidden = both.chunk(2, dim=-1)  # (batch, length, d_ff) each
        hidden = trace("hidden", hidden)
        gate = trace("gate", self.activation(gate))
        dropped = self.dropout(trace("activated", gate * hidden))
        return trace("output", linear(self.output, dropped, trace.at("output")))

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        match point:
            case "gate":  # the rows of the gate come first
                return activated(self.activation, self._expanded(at, index, 0, "W_g", "b_g"))
            case "hidden":
                return self._expanded(at, index, self.output.in_features, "W_1", "b_1")
            case "activated":
                return at.number("gate", *index) * at.number("hidden", *index)
        return super().terms(at, point, index)

    def switches(self, path: str) -> Iterator[Switch]:
        layer, _, _ = path.rpartition(".")
        name = f"{in_words(layer)}, feed-forward gate = 1 (everything passes)"
        number = int(layer.rpartition(".")[2])
        yield Switch(f"{path}.gate", name, "gates", {f"{path}.gate": 1.0}, layer=number)


def make_feedforward(
    d_model: int,
    d_ff: int,
    activation: ActivationName | GatedName,
    *,
    bias: bool = True,
    dropout: float = 0.0,
) -> nn.Module:
    """Build a feed-forward block with this activation, gated or plain."""
    kind = GatedFeedForward if activation in GATES else FeedForward
    return kind(d_model, d_ff, activation, bias=bias, dropout=dropout)
