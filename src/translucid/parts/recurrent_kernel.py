"""torch's fused recurrent kernels: a whole stack in one call, or one layer with weights of choice.

Shapes: x (batch, length, inputs), the real tokens of a row first; `lengths` (batch,) says how many
they are, None that all are. States are (layers * directions, batch, hidden).
"""

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from translucid.parts.cache import RecurrentState

CellName = Literal["rnn", "rnn_relu", "lstm", "gru"]
KERNELS: dict[CellName, Any] = {
    "rnn": torch.rnn_tanh,
    "rnn_relu": torch.rnn_relu,
    "lstm": torch.lstm,
    "gru": torch.gru,
}
# A stack keeps its weights in one piece of memory; thinned weights are new at every pass.
IN_PIECES = "RNN module weights are not part of single contiguous chunk"


def run_stack(
    stack: nn.RNNBase, x: Tensor, lengths: Tensor | None, state: RecurrentState
) -> tuple[Tensor, RecurrentState]:
    """All layers, with the weights and the dropout of the module."""
    before = state.hidden if state.cell is None else (state.hidden, state.cell)
    if lengths is None:
        output, after = stack(x, before)
    else:
        packed, after = stack(_pack(x, lengths), before)
        output, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
    return output, RecurrentState(*((after,) if isinstance(after, Tensor) else after))


def run_layer(
    cell: CellName,
    weights: Sequence[Tensor],  # W, U, b and b', for each direction
    x: Tensor,
    lengths: Tensor | None,
    state: RecurrentState,
) -> tuple[Tensor, RecurrentState]:
    """One layer, in as many directions as there are weights for; no dropout in here."""
    options = (list(weights), True, 1, 0.0, True, len(weights) == 8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", IN_PIECES)
        if lengths is None:
            output, *after = KERNELS[cell](x, _kernel_state(state), *options, True)
            return output, RecurrentState(*after)
        packed = _pack(x, lengths)
        sorted_state = _rows(state, packed.sorted_indices)
        data, *after = KERNELS[cell](
            packed.data, packed.batch_sizes, _kernel_state(sorted_state), *options
        )
    packed = PackedSequence(
        data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
    )
    output, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
    return output, _rows(RecurrentState(*after), packed.unsorted_indices)


def _pack(x: Tensor, lengths: Tensor) -> PackedSequence:
    return pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)


def _rows(state: RecurrentState, rows: Tensor | None) -> RecurrentState:
    """The texts in another order."""
    assert rows is not None, "packed without being sorted before"
    return RecurrentState(
        state.hidden.index_select(1, rows),
        None if state.cell is None else state.cell.index_select(1, rows),
    )


def _kernel_state(state: RecurrentState) -> Tensor | tuple[Tensor, Tensor]:
    return state.hidden if state.cell is None else (state.hidden, state.cell)
