"""A net of one hidden layer and one sample, whose gradients can be found by hand."""

from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.models.mlp import MLP, MLPConfig
from translucid_lab.claims.shared.mlp_weights import layers_of, set_weights


@dataclass(frozen=True)
class Problem:
    """A net and the one sample that it should fit."""

    net: MLP
    x: Tensor  # (1, inputs)
    y: float

    def output(self) -> Tensor:
        return self.net(self.x)[0, 0]

    def bias(self, unit: int) -> float:
        return float(layers_of(self.net)[0].linear.bias.detach()[unit])

    def loss(self) -> Tensor:
        return (self.output() - self.y).square() / 2

    @torch.no_grad()
    def seen(self, point: str) -> Tensor:
        trace = Trace("*")
        self.net(self.x, trace=trace)
        return trace[f"layers.0.dense.{point}"][0]  # (units,)

    def step(self, rate: float) -> float:
        """One step of gradient descent; ŷ - y before it."""
        weights = list(self.net.parameters())
        error = self.output() - self.y
        gradients = torch.autograd.grad(error.square() / 2, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(rate * gradient)
        return float(error.detach())


def worked() -> Problem:
    """The exercise that can be done with pencil and paper; its loss is 8."""
    net = MLP(MLPConfig(inputs=3, hidden=(2,))).double()
    set_weights(net, [[[1, -1, 0], [0, 2, 1]], [[2, -1]]], [[0, 1], [0]])
    return Problem(net, torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64), 3.0)


def random_problem(generator: torch.Generator, units: int = 2) -> Problem:
    """One of like size, in which at least one unit is active: else nothing but c could learn."""
    while True:
        drawn = torch.randn(5 * units + 5, generator=generator, dtype=torch.float64)
        w, b, v, (c, y), x = drawn.split([3 * units, units, units, 2, 3])
        net = MLP(MLPConfig(inputs=3, hidden=(units,))).double()
        set_weights(net, [w.view(units, 3), v[None]], [b, c[None]])
        problem = Problem(net, 2 * x[None], 3 * float(y))
        if (problem.seen("activation") > 0).any():
            return problem


TINY = 1e-4
