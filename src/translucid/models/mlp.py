"""Networks for numeric inputs: the perceptron with its learning rule (Rosenblatt 1958), and the
multi-layer perceptron.

Shapes: x (batch, inputs). The outputs of an MLP are (batch, outputs); a perceptron's are (batch,)
and either 0 or 1.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from translucid.core.config import Config, key
from translucid.core.trace import NO_TRACE, Edit, NoTrace
from translucid.models import initialise, inputs
from translucid.models.base import Network
from translucid.parts.activations import ActivationName
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, apply, constant, dot
from translucid.parts.feedforward import Dense
from translucid.parts.norms import Standardise
from translucid.parts.switch import Switch, in_words


class MLPConfig(Config):
    """Configuration of an MLP; `hidden = ()` is one affine layer."""

    kind: Literal["mlp"] = "mlp"
    inputs: int = key(..., "input dimensions", gt=0)
    head: Literal["classify"] | None = key(None, "classify: outputs are scores of labels")
    hidden: tuple[PositiveInt, ...] = key((64,), "width of each hidden layer", strict=False)
    outputs: int = key(1, "output dimensions", gt=0)
    activation: ActivationName = key("relu", "activation of the hidden layers")
    residual: bool = key(False, "residual connections between layers of equal size")
    dropout: float = key(0.0, "dropout after each hidden layer", ge=0, lt=1)
    standardise: bool = key(False, "standardise the inputs to mean 0, standard deviation 1")


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
        self.dropout = nn.Dropout(config.dropout)
        self.output = Dense(sizes[-1], config.outputs)
        initialise.mlp(self, config.activation)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        inputs.check_trace(trace)
        inputs.check_numbers(x, self.config.inputs)
        if self.standardise is not None:
            x = self.standardise(x, trace.at("standardise"))
        for i, layer in enumerate(self.layers):
            x = self.dropout(layer(x, trace.at(f"layers.{i}.dense")))
        return self.output(x, trace.at("output.dense"))

    @property
    def output_point(self) -> str:
        return "output.dense.activation"

    def feeds(self, part: str, at: Scope) -> str | None:
        if part == "standardise":
            return "x"
        number = len(self.layers) if part == "output" else int(part.removeprefix("layers."))
        if number:
            before = self.layers[number - 1]
            assert isinstance(before, Dense)
            return at.name(f"layers.{number - 1}.{before.output_point}")
        return "x" if self.standardise is None else at.name("standardise.output")

    def switches(self, path: str) -> Iterator[Switch]:
        for number in range(len(self.layers)):
            scope = f"{path}.layers.{number}" if path else f"layers.{number}"
            edit: dict[str, Edit] = {f"{scope}.dense.activation": 0.0}
            yield Switch(scope, in_words(scope), "layers", edit, layer=number)


class PerceptronConfig(Config):
    """Configuration of a perceptron."""

    kind: Literal["perceptron"] = "perceptron"
    inputs: int = key(..., "input dimensions", gt=0)


class Perceptron(Network):
    """y = 1 where w · x + b > 0, else 0. The perceptron has no gradient; `learn` applies its own
    rule, which works from any initial weights. They are initialised to 0."""

    config: PerceptronConfig

    def __init__(self, config: PerceptronConfig) -> None:
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.zeros(config.inputs), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        inputs.check_trace(trace)
        inputs.check_numbers(x, self.config.inputs)
        scope = trace.at("perceptron")
        total = scope("sum", x @ self.weight + self.bias)  # (batch,)
        return scope("output", (total > 0).to(x.dtype))

    @property
    def output_point(self) -> str:
        return "perceptron.output"

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point == "output":
            return apply(">", at.number("sum", *index), constant("0", 0))
        x = at.run.vector("x", "x", *index, None)
        return at.run.total(dot(at.weights("w", "weight", None), x), at.weight("b", "bias"))

    def learn(self, x: Tensor, y: Tensor, rate: float = 1.0, *, trace: NoTrace = NO_TRACE) -> int:
        """Apply the perceptron rule once to every sample: w += rate (y - ŷ) x, b += rate (y - ŷ).
        Return the number of mistakes. The trace receives the output for each sample, before the
        update."""
        mistakes = 0
        for sample, wanted in zip(x, y, strict=True):
            error = wanted.to(x.dtype) - self(sample[None], trace)[0]
            self.weight.add_(rate * error * sample)
            self.bias.add_(rate * error)
            mistakes += int(error != 0)
        return mistakes
