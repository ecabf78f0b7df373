"""Truncated backpropagation through time: a recurrent language model goes on reading where the
batch before has ended.

    h_0 of a batch = h_T of the batch before, as a constant: values go on, gradients end here.

Row r of every batch belongs to the same stream of text. Werbos 1990; Mikolov et al. 2010.
"""

import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError
from translucid.models.base import DecoderModel
from translucid.models.recurrent import RecurrentDecoder
from translucid.parts.cache import DecoderState, RecurrentState


class CarriedState(nn.Module):
    """A language model that is called as always, and begins with the state that its last call left
    behind. The state is zeros at first; a checkpoint holds it."""

    hidden: Tensor
    cell: Tensor | None

    def __init__(self, network: nn.Module, rows: int) -> None:
        """rows: of the largest batch."""
        super().__init__()
        if not (
            isinstance(network, DecoderModel) and isinstance(network.decoder, RecurrentDecoder)
        ):
            raise ConfigError(
                "training.carry_state = true: this network has no state to carry; use "
                "model.kind = recurrent, or leave it out"
            )
        self.network = network
        zeros = network.decoder.recurrent.zero_state(rows, next(network.parameters()).detach())
        self.register_buffer("hidden", zeros.hidden)
        self.register_buffer("cell", zeros.cell)

    def tensors(self) -> dict[str, Tensor]:
        """The state itself, not copies."""
        states = {"hidden": self.hidden, "cell": self.cell}
        return {name: value for name, value in states.items() if value is not None}

    def reset(self) -> None:
        """Nothing was read yet."""
        for value in self.tensors().values():
            value.zero_()

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits; a batch of fewer rows leaves the last streams alone."""
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
