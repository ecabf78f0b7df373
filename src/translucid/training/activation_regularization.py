"""Activation regularization: what a recurrent network says stays small, and changes slowly.

    loss + α · mean(h²) + β · mean((h_t - h_{t-1})²)

h: outputs of a stack of recurrent layers, before dropout, at the tokens that are there. AR (α) and
temporal AR (β): Merity et al. 2017, https://arxiv.org/abs/1708.01009
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError
from translucid.parts.recurrent import Recurrent


def penalty(h: Tensor, mask: Tensor | None, activation: float, temporal: float) -> Tensor:
    """h: (batch, length, hidden); mask: (batch, length), which of the tokens are there."""
    h = h.float()
    real = torch.ones(h.shape[:2], dtype=torch.bool, device=h.device) if mask is None else mask
    both = real[:, 1:] & real[:, :-1]
    change = h[:, 1:] - h[:, :-1]
    return activation * _mean_square(h, real) + temporal * _mean_square(change, both)


def _mean_square(x: Tensor, real: Tensor) -> Tensor:
    values = (real.sum() * x.shape[-1]).clamp(min=1)
    return (x.square() * real[..., None]).sum() / values


class ActivationRegularization:
    """Looks at what the recurrent stacks of a network give while a loss is computed."""

    def __init__(self, network: nn.Module, activation: float, temporal: float) -> None:
        self._stacks = [part for part in network.modules() if isinstance(part, Recurrent)]
        if not self._stacks:
            name, value = ("activation", activation) if activation else ("temporal", temporal)
            raise ConfigError(
                f"training.{name}_regularization = {value}: this network has no recurrent layers; "
                "use model.kind = recurrent, or leave it out"
            )
        self._factors = activation, temporal
        self._penalties: list[Tensor] = []

    @contextmanager
    def used(self) -> Iterator[None]:
        """Within the block, passes through the network are looked at."""
        self._penalties = []
        with ExitStack() as hooks:
            for part in self._stacks:
                hooks.callback(part.register_forward_hook(self._look).remove)
            yield

    def total(self) -> Tensor:
        """Of all stacks that the last block's passes went through."""
        return torch.stack(self._penalties).sum()

    def _look(self, _: nn.Module, inputs: tuple[Any, ...], outputs: tuple[Tensor, Any]) -> None:
        mask = inputs[1] if len(inputs) > 1 else None
        self._penalties.append(penalty(outputs[0], mask, *self._factors))
