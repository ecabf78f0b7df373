"""torch's fused recurrent kernels: a whole stack in one call, or one layer with weights of choice.

Shapes: x (batch, length, inputs), the real tokens of a row first; `lengths` (batch,) says how many
they are, None that all are. States are (layers * directions, batch, hidden).
"""

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
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
CELLS: dict[str, CellName] = {
    "RNN_TANH": "rnn", "RNN_RELU": "rnn_relu", "LSTM": "lstm", "GRU": "gru",
}  # fmt: skip
Options = tuple[bool, int, float, bool, bool]  # biases, layers, dropout, training, both directions


def run_stack(
    stack: nn.RNNBase, x: Tensor, lengths: Tensor | None, state: RecurrentState
) -> tuple[Tensor, RecurrentState]:
    """All layers, with the weights and the dropout of the module."""
    if _autocast_dtype(x) is not None:
        weights = list(stack.parameters())  # in the order that kernels take them
        options = (True, stack.num_layers, stack.dropout, stack.training, stack.bidirectional)
        return _run(CELLS[stack.mode], weights, options, x, lengths, state)
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
    return _run(cell, weights, (True, 1, 0.0, True, len(weights) == 8), x, lengths, state)


def _run(
    cell: CellName,
    weights: Sequence[Tensor],
    options: Options,
    x: Tensor,
    lengths: Tensor | None,
    state: RecurrentState,
) -> tuple[Tensor, RecurrentState]:
    dtype, outside = _autocast_dtype(x), ExitStack()
    if dtype is not None:
        outside.enter_context(torch.autocast(x.device.type, enabled=False))
        x, weights = x.to(dtype), [weight.to(dtype) for weight in weights]
        cell_state = None if state.cell is None else state.cell.to(dtype)
        state = RecurrentState(state.hidden.to(dtype), cell_state)
    with outside, warnings.catch_warnings():
        warnings.filterwarnings("ignore", IN_PIECES)
        if lengths is None:
            output, *after = KERNELS[cell](x, _kernel_state(state), list(weights), *options, True)
            return output, RecurrentState(*after)
        packed = _pack(x, lengths)
        sorted_state = _rows(state, packed.sorted_indices)
        data, *after = KERNELS[cell](
            packed.data, packed.batch_sizes, _kernel_state(sorted_state), list(weights), *options
        )
    packed = PackedSequence(
        data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
    )
    output, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
    return output, _rows(RecurrentState(*after), packed.unsorted_indices)


def _autocast_dtype(x: Tensor) -> torch.dtype | None:
    """What autocast asks for on a GPU. Left to itself it runs cuDNN's recurrent kernels in float16,
    also where bfloat16 is asked for, and there small gradients are 0."""
    on = x.is_cuda and torch.is_autocast_enabled("cuda")
    return torch.get_autocast_dtype("cuda") if on else None


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
