"""The multi-layer perceptron: affine layers with an activation between them.

Shapes: x (batch, inputs); outputs (batch, outputs).
"""

from itertools import pairwise
from typing import Literal

from pydantic import PositiveInt
from torch import Tensor, nn

from translucid.core.config import Config, key
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models import initialise, inputs
from translucid.models.base import Network
from translucid.parts.activations import ActivationName
from translucid.parts.feedforward import Dense
from translucid.parts.norms import Standardise


class MLPConfig(Config):
    """An MLP, in words and sizes; `hidden = ()` is one affine layer."""

    kind: Literal["mlp"] = "mlp"
    inputs: int = key(..., "input dimensions", gt=0)
    hidden: tuple[PositiveInt, ...] = key((64,), "width of each hidden layer", strict=False)
    outputs: int = key(1, "output dimensions", gt=0)
    activation: ActivationName = key("relu", "activation of the hidden layers")
    residual: bool = key(False, "residual connections, where the sizes agree")
    standardise: bool = key(
        False, "standardise the inputs: subtract the mean, divide by the deviation"
    )


class MLP(Network):
    """h₀ = x; h = act(W h + b) for each hidden layer; ŷ = V h + c."""

    config: MLPConfig

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        self.standardise = Standardise(config.inputs) if config.standardise else None
        sizes = (config.inputs, *config.hidden)
        self.layers = nn.ModuleList(
            Dense(a, b, config.activation, config.residual) for a, b in pairwise(sizes)
        )
        self.output = Dense(sizes[-1], config.outputs)
        initialise.mlp(self, config.activation)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        inputs.check_trace(trace)
        inputs.check_numbers(x, self.config.inputs)
        if self.standardise is not None:
            x = self.standardise(x, trace.at("standardise"))
        for i, layer in enumerate(self.layers):
            x = layer(x, trace.at(f"layers.{i}.dense"))
        return self.output(x, trace.at("output.dense"))

    @property
    def output_point(self) -> str:
        return "output.dense.activation"
