"""Layers that act on each position alone.

Shapes: x (..., d_model); hidden (..., d_ff).
"""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.activations import ACTIVATIONS, ActivationName, identity, symbol
from translucid.parts.lora import linear

GatedName = Literal["swiglu", "geglu", "geglu_tanh"]
GATES: dict[GatedName, ActivationName] = {
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


class _TwoLayers(nn.Module):
    """What plain and gated feed-forward say of themselves."""

    output: nn.Linear
    activation: Callable[[Tensor], Tensor]

    @property
    def variant(self) -> Variant:
        return variant(
            absent=() if self.output.bias is not None else ("b_1", "b_g", "b_2"),
            symbols={"act": symbol(self.activation)},
            identity=self.activation is identity,
        )


class FeedForward(_TwoLayers):
    """W₂ act(W₁ x + b₁) + b₂: the same two layers at every position."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: ActivationName = "relu",
        *,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff, bias=bias)
        self.output = nn.Linear(d_ff, d_model, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        hidden = linear(self.expand, x, trace.at("expand"))
        hidden = trace("hidden", hidden)  # (batch, length, d_ff)
        activated = trace("activated", self.activation(hidden))
        dropped = self.dropout(activated)
        return trace("output", linear(self.output, dropped, trace.at("output")))


class GatedFeedForward(_TwoLayers):
    """W₂ (act(W_g x) ⊙ W₁ x): one half says what, the other how much.

    SwiGLU with act = silu, GEGLU with act = gelu. Shazeer 2020, https://arxiv.org/abs/2002.05202
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        gate: GatedName = "swiglu",
        *,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, 2 * d_ff, bias=bias)
        self.output = nn.Linear(d_ff, d_model, bias=bias)
        self.activation = ACTIVATIONS[GATES[gate]]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        both = linear(self.expand, x, trace.at("expand"))
        gate, hidden = both.chunk(2, dim=-1)  # (batch, length, d_ff) each
        hidden = trace("hidden", hidden)
        gate = trace("gate", self.activation(gate))
        activated = trace("activated", gate * hidden)
        dropped = self.dropout(activated)
        return trace("output", linear(self.output, dropped, trace.at("output")))


def make_feedforward(
    d_model: int,
    d_ff: int,
    activation: ActivationName | GatedName,
    *,
    bias: bool = True,
    dropout: float = 0.0,
) -> nn.Module:
    """The feed-forward block of this activation, gated or plain."""
    if activation == "swiglu" or activation == "geglu" or activation == "geglu_tanh":
        return GatedFeedForward(d_model, d_ff, activation, bias=bias, dropout=dropout)
    return FeedForward(d_model, d_ff, activation, bias=bias, dropout=dropout)
