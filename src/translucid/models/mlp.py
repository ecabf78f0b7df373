"""The multi-layer perceptron: affine layers with an activation between them.

Shapes: x (batch, inputs); outputs (batch, outputs).
"""

from typing import Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn

from translucid.models.base import Model
from translucid.parts.activations import ActivationName
from translucid.parts.feedforward import Dense
from translucid.parts.norms import Standardise
from translucid.recipe import Config
from translucid.trace import NO_TRACE, NoTrace


class MLPConfig(Config):
    """An MLP, in words and sizes; `hidden = ()` is one affine layer."""

    kind: Literal["mlp"] = "mlp"
    inputs: int = Field(gt=0)
    hidden: tuple[PositiveInt, ...] = Field(default=(64,), strict=False)
    outputs: int = Field(default=1, gt=0)
    activation: ActivationName = "relu"
    residual: bool = False  # add the input of a hidden layer to its output where the sizes agree
    standardise: bool = False  # measure the inputs' mean and deviation with `model.standardise.fit`


class MLP(Model):
    """h₀ = x; h = act(W h + b) for each hidden layer; ŷ = V h + c."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        self.standardise = Standardise(config.inputs) if config.standardise else None
        sizes = (config.inputs, *config.hidden)
        self.layers = nn.ModuleList(
            Dense(a, b, config.activation, config.residual)
            for a, b in zip(sizes, sizes[1:], strict=False)
        )
        self.output = Dense(sizes[-1], config.outputs)
        initialise(self, config.activation)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        if self.standardise is not None:
            x = self.standardise(x, trace.at("standardise"))
        for i, layer in enumerate(self.layers):
            x = layer(x, trace.at(f"layers.{i}.dense"))
        return self.output(x, trace.at("output.dense"))


def initialise(model: MLP, activation: ActivationName) -> None:
    """Start where training is easy: keep the variance from layer to layer.

    He et al. 2015 for the relu family, whose zero half halves the variance; Xavier (Glorot & Bengio
    2010) with torch's gain for the rest. Biases: 0.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if activation in ("relu", "gelu", "silu"):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
            else:
                gain = nn.init.calculate_gain("tanh") if activation == "tanh" else 1.0
                nn.init.xavier_uniform_(module.weight, gain=gain)
            nn.init.zeros_(module.bias)
