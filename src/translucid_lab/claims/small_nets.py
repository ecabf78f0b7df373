"""Shared small networks: a deep network with optional norms and residual connections, data to fit,
and the weights of an MLP.

Shapes: x (samples, features).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from translucid.models import MLP
from translucid.parts import ACTIVATIONS, Dense, NormName, Residual, make_norm


class Block(nn.Module):
    """A block of a deep network: y = W relu(norm(x)) + b. With a residual connection, the output is
    x + branch * y, the pre-activation order of He et al. 2016b. Without it, the output is y, in the
    order of Ioffe & Szegedy 2015, with the norm between a weight and its activation."""

    def __init__(self, width: int, norm: NormName, residual: bool, branch: float = 1.0) -> None:
        super().__init__()
        self.dense = Dense(width, width)
        self.frame = Residual(make_norm(norm, width), "pre")
        self.residual, self.branch = residual, branch

    def forward(self, x: Tensor) -> Tensor:
        y = self.dense(ACTIVATIONS["relu"](self.frame.enter(x)))
        return self.frame.leave(x, self.branch * y) if self.residual else y


class Deep(nn.Module):
    """A deep network: an affine layer, `depth` blocks and another affine layer. The weights have
    He's initialisation; `gain` scales it in the blocks."""

    def __init__(
        self,
        *,
        inputs: int,
        outputs: int,
        width: int,
        depth: int,
        norm: NormName = "none",
        residual: bool = False,
        branch: float = 1.0,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.enter = Dense(inputs, width)
        self.blocks = nn.ModuleList(Block(width, norm, residual, branch) for _ in range(depth))
        self.output = Dense(width, outputs)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
        with torch.no_grad():
            for block in self.block_list():
                block.dense.linear.weight.mul_(gain)

    def block_list(self) -> list[Block]:
        """The blocks as a typed list, which a ModuleList is not."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def forward(self, x: Tensor, without: int | None = None) -> Tensor:
        """Compute the outputs for x. without: index of a block to skip."""
        x = self.enter(x)
        for number, block in enumerate(self.blocks):
            if number != without:
                x = block(x)
        return self.output(x)


def smooth_target(samples: int, inputs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random points, (samples, inputs), and the values of a smooth function at these points,
    (samples, 1), with variance 1."""
    x = torch.randn(samples, inputs, generator=generator)
    directions = torch.randn(inputs, 3, generator=generator) / inputs**0.5
    y = torch.sin(2 * (x @ directions)).sum(dim=1, keepdim=True)
    return x, (y - y.mean()) / y.std()


def mean_square(predicted: Tensor, wanted: Tensor) -> Tensor:
    return (predicted - wanted).square().mean()


def layers_of(net: MLP) -> list[Dense]:
    return [*(layer for layer in net.layers if isinstance(layer, Dense)), net.output]


@torch.no_grad()
def set_weights(net: MLP, weights: Sequence[Any], biases: Sequence[Any]) -> None:
    """Set the weights and biases, layer by layer."""
    for layer, weight, bias in zip(layers_of(net), weights, biases, strict=True):
        layer.linear.weight.copy_(torch.as_tensor(weight, dtype=torch.float64))
        layer.linear.bias.copy_(torch.as_tensor(bias, dtype=torch.float64))
