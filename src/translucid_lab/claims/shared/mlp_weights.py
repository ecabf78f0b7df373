"""The weights of an MLP, layer by layer."""

from collections.abc import Sequence
from typing import Any

import torch

from translucid.models.mlp import MLP
from translucid.parts.feedforward import Dense


def layers_of(net: MLP) -> list[Dense]:
    return [*(layer for layer in net.layers if isinstance(layer, Dense)), net.output]


@torch.no_grad()
def set_weights(net: MLP, weights: Sequence[Any], biases: Sequence[Any]) -> None:
    """Put numbers into a net, layer by layer."""
    for layer, weight, bias in zip(layers_of(net), weights, biases, strict=True):
        layer.linear.weight.copy_(torch.as_tensor(weight, dtype=torch.float64))
        layer.linear.bias.copy_(torch.as_tensor(bias, dtype=torch.float64))
