"""Layers that act on each position alone.

Shapes: x (..., d_model); hidden (..., d_ff).
"""

from typing import Literal

from torch import Tensor, nn

from translucid.parts.activations import ACTIVATIONS, ActivationName
from translucid.trace import NO_TRACE, NoTrace

GatedName = Literal["swiglu", "geglu"]
GATES: dict[GatedName, ActivationName] = {"swiglu": "silu", "geglu": "gelu"}


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

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        z = trace("preactivation", self.linear(x))  # (..., outputs)
        h = trace("activation", self.activation(z))
        return trace("sum", trace("skip", x) + h) if self.residual else h


class FeedForward(nn.Module):
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
        hidden = trace("hidden", self.expand(x))  # (batch, length, d_ff)
        activated = trace("activated", self.activation(hidden))
        return trace("output", self.output(self.dropout(activated)))


class GatedFeedForward(nn.Module):
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
        gate, hidden = self.expand(x).chunk(2, dim=-1)  # (batch, length, d_ff) each
        hidden = trace("hidden", hidden)
        gate = trace("gate", self.activation(gate))
        activated = trace("activated", gate * hidden)
        return trace("output", self.output(self.dropout(activated)))


def make_feedforward(
    d_model: int,
    d_ff: int,
    activation: ActivationName | GatedName,
    *,
    bias: bool = True,
    dropout: float = 0.0,
) -> nn.Module:
    """The feed-forward block of this activation, gated or plain."""
    if activation == "swiglu" or activation == "geglu":
        return GatedFeedForward(d_model, d_ff, activation, bias=bias, dropout=dropout)
    return FeedForward(d_model, d_ff, activation, bias=bias, dropout=dropout)
