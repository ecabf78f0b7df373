"""The perceptron: one threshold unit, and the rule by which it learns (Rosenblatt 1958).

Shapes: x (batch, inputs); outputs (batch,), 0 or 1.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from translucid.core.config import Config, key
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models import inputs
from translucid.models.base import Network


class PerceptronConfig(Config):
    """A threshold unit with this many inputs."""

    kind: Literal["perceptron"] = "perceptron"
    inputs: int = key(..., "input dimensions", gt=0)


class Perceptron(Network):
    """y = 1 where w · x + b > 0, else 0. No gradient passes; it learns by its own rule.

    All weights start at 0: the rule's success does not depend on the start.
    """

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

    def learn(self, x: Tensor, y: Tensor, rate: float = 1.0, *, trace: NoTrace = NO_TRACE) -> int:
        """One pass over the samples: w += rate (y - ŷ) x, b += rate (y - ŷ). Returns the mistakes
        made. A trace holds the answer to one sample, before the weights move."""
        mistakes = 0
        for sample, wanted in zip(x, y, strict=True):
            error = wanted.to(x.dtype) - self(sample[None], trace)[0]
            self.weight.add_(rate * error * sample)
            self.bias.add_(rate * error)
            mistakes += int(error != 0)
        return mistakes
