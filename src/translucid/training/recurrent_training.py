"""Training of recurrent networks: carried state and activation regularization.

Carried state is truncated backpropagation through time: a recurrent language model continues from
the final state of the previous batch, without gradients through it. Row r of every batch belongs
to the same stream of text. Werbos 1990; Mikolov et al. 2010.

Activation regularization adds a penalty to the loss (Merity et al. 2017,
https://arxiv.org/abs/1708.01009):

    AR α · mean(h²) + temporal AR β · mean((h_t - h_{t-1})²)

h: outputs of a stack of recurrent layers at real tokens, before dropout.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError
from translucid.models.base import DecoderModel
from translucid.models.recurrent import RecurrentDecoder
from translucid.parts.cache import DecoderState, RecurrentState
from translucid.parts.recurrent import Recurrent


class CarriedState(nn.Module):
    """A recurrent language model that starts each call from the final state of the previous call,
    and the first from zeros. The state is part of a checkpoint."""

    hidden: Tensor
    cell: Tensor | None

    def __init__(self, network: nn.Module, rows: int) -> None:
        """rows: the number of rows of the largest batch."""
        super().__init__()
        if not (
            isinstance(network, DecoderModel) and isinstance(network.decoder, RecurrentDecoder)
        ):
            raise ConfigError(
                "training.carry_state = true: this network has no state to carry; use "
                "model.kind = recurrent, or omit carry_state"
            )
        self.network = network
        zeros = network.decoder.recurrent.zero_state(rows, next(network.parameters()).detach())
        self.register_buffer("hidden", zeros.hidden)
        self.register_buffer("cell", zeros.cell)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the state by name (not copies)."""
        states = {"hidden": self.hidden, "cell": self.cell}
        return {name: value for name, value in states.items() if value is not None}

    def reset(self) -> None:
        """Set the state to zeros."""
        for value in self.tensors().values():
            value.zero_()

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute logits and update the state. If the batch has fewer rows than the state, the
        other rows of the state do not change."""
        rows = ids.shape[0]
        before = {name: value[:, :rows].clone() for name, value in self.tensors().items()}
        state = DecoderState([RecurrentState(**before)])
        logits = self.network.step(ids, state, mask)
        (after,) = state.layers
        assert isinstance(after, RecurrentState)
        with torch.no_grad():
            for name, value in self.tensors().items():
                value[:, :rows] = getattr(after, name)
        return logits


def penalty(h: Tensor, mask: Tensor | None, activation: float, temporal: float) -> Tensor:
    """The activation regularization of h (batch, length, hidden). mask: (batch, length), True at
    real tokens. activation, temporal: weights of the two terms."""
    h = h.float()
    real = torch.ones(h.shape[:2], dtype=torch.bool, device=h.device) if mask is None else mask
    both = real[:, 1:] & real[:, :-1]
    change = h[:, 1:] - h[:, :-1]
    return activation * _mean_square(h, real) + temporal * _mean_square(change, both)


def _mean_square(x: Tensor, real: Tensor) -> Tensor:
    values = (real.sum() * x.shape[-1]).clamp(min=1)
    return (x.square() * real[..., None]).sum() / values


class ActivationRegularization:
    """Computes the penalty from the outputs of a network's recurrent stacks."""

    def __init__(self, network: nn.Module, activation: float, temporal: float) -> None:
        self._stacks = [part for part in network.modules() if isinstance(part, Recurrent)]
        if not self._stacks:
            name, value = ("activation", activation) if activation else ("temporal", temporal)
            raise ConfigError(
                f"training.{name}_regularization = {value}: this network has no recurrent layers; "
                "use model.kind = recurrent, or omit the key"
            )
        self._factors = activation, temporal
        self._penalties: list[Tensor] = []

    @contextmanager
    def used(self) -> Iterator[None]:
        """Record the recurrent outputs of all forward passes within the block."""
        self._penalties = []
        with ExitStack() as hooks:
            for part in self._stacks:
                hooks.callback(part.register_forward_hook(self._look).remove)
            yield

    def total(self) -> Tensor:
        """The sum of the penalties of all recurrent stacks in the last block."""
        return torch.stack(self._penalties).sum()

    def _look(self, _: nn.Module, inputs: tuple[Any, ...], outputs: tuple[Tensor, Any]) -> None:
        mask = inputs[1] if len(inputs) > 1 else None
        self._penalties.append(penalty(outputs[0], mask, *self._factors))
