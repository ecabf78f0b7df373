"""Recurrent cells: one traced step, and torch's fused kernels for a stack or a single layer.

The formulas follow torch: the GRU's reset gate acts after the multiplication by the recurrent
weights, and its update gate is the fraction of the old state that is kept.

Shapes: in a step, x (batch, inputs), hidden and cell (batch, hidden). In a kernel, x (batch,
length, inputs), with the real tokens of a row first; `lengths` (batch,) is their number, None if
there is no padding; states are (layers * directions, batch, hidden).
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.cache import RecurrentState

CellName = Literal["rnn", "rnn_relu", "lstm", "gru"]
KERNELS: dict[CellName, Any] = {
    "rnn": torch.rnn_tanh,
    "rnn_relu": torch.rnn_relu,
    "lstm": torch.lstm,
    "gru": torch.gru,
}
# torch gives this warning, since weights with dropout are new tensors in every pass.
IN_PIECES = "RNN module weights are not part of single contiguous chunk"
CELLS: dict[str, CellName] = {
    "RNN_TANH": "rnn", "RNN_RELU": "rnn_relu", "LSTM": "lstm", "GRU": "gru",
}  # fmt: skip
Options = tuple[bool, int, float, bool, bool]  # biases, layers, dropout, training, both directions
Weights = tuple[Tensor, Tensor, Tensor, Tensor]  # torch's W (blocks * hidden, inputs), U, b and b'
Rows = Callable[[Tensor], Tensor]
Packed = tuple[Rows, Rows, None, None]  # W x + b and U h + b', with weights packed for decoding
Step = tuple[Tensor, Tensor | None]  # hidden and, for an LSTM, cell


def rnn_step(
    x: Tensor,
    state: Step,
    weights: Weights | Packed,
    trace: NoTrace = NO_TRACE,
    act: Callable[[Tensor], Tensor] = torch.tanh,
) -> Step:
    """h' = tanh(W x + U h + b). Elman 1990."""
    w, u, b, b_hidden = weights
    total = trace("preactivation", _product(x, w, b) + _product(state[0], u, b_hidden))
    return trace("hidden", act(total)), None


def rnn_relu_step(
    x: Tensor, state: Step, weights: Weights | Packed, trace: NoTrace = NO_TRACE
) -> Step:
    """h' = relu(W x + U h + b)."""
    return rnn_step(x, state, weights, trace, torch.relu)


def lstm_step(x: Tensor, state: Step, weights: Weights | Packed, trace: NoTrace = NO_TRACE) -> Step:
    """f, i, o = σ(W x + U h + b); g = tanh(W x + U h + b); c' = f ⊙ c + i ⊙ g; h' = o ⊙ tanh(c').

    Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """
    hidden, cell = state
    assert cell is not None, "an LSTM needs a cell state"
    w, u, b, b_hidden = weights
    total = _product(x, w, b) + _product(hidden, u, b_hidden)  # (batch, 4 * hidden)
    input_sum, forget_sum, candidate_sum, output_sum = total.chunk(4, dim=-1)
    forget = trace("forget_gate", torch.sigmoid(trace("forget_sum", forget_sum)))
    write = trace("input_gate", torch.sigmoid(trace("input_sum", input_sum)))
    candidate = trace("candidate", torch.tanh(trace("candidate_sum", candidate_sum)))
    show = trace("output_gate", torch.sigmoid(trace("output_sum", output_sum)))
    cell = trace("cell", forget * cell + write * candidate)
    return trace("hidden", show * torch.tanh(cell)), cell


def gru_step(x: Tensor, state: Step, weights: Weights | Packed, trace: NoTrace = NO_TRACE) -> Step:
    """r, z = σ(W x + U h + b); n = tanh(W x + b + r ⊙ (U h + b')); h' = (1 - z) ⊙ n + z ⊙ h. Cho
    et al. 2014."""
    hidden = state[0]
    w, u, b, b_hidden = weights
    from_x, from_h = _product(x, w, b), _product(hidden, u, b_hidden)  # (batch, 3 * hidden)
    x_reset, x_update, x_candidate = from_x.chunk(3, dim=-1)
    h_reset, h_update, h_candidate = from_h.chunk(3, dim=-1)
    reset = trace("reset_gate", torch.sigmoid(trace("reset_sum", x_reset + h_reset)))
    update = trace("update_gate", torch.sigmoid(trace("update_sum", x_update + h_update)))
    candidate_sum = trace("candidate_sum", x_candidate + reset * h_candidate)
    candidate = trace("candidate", torch.tanh(candidate_sum))
    return trace("hidden", (1 - update) * candidate + update * hidden), None


def _product(x: Tensor, weight: Tensor | Rows, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight, bias) if isinstance(weight, Tensor) else weight(x)


STEPS: dict[CellName, Callable[[Tensor, Step, Weights | Packed, NoTrace], Step]] = {
    "rnn": rnn_step,
    "rnn_relu": rnn_relu_step,
    "lstm": lstm_step,
    "gru": gru_step,
}
INSIDE: dict[CellName, tuple[str, ...]] = {
    "rnn": ("preactivation", "hidden"),
    "rnn_relu": ("preactivation", "hidden"),
    "lstm": (
        "forget_sum", "input_sum", "candidate_sum", "output_sum",
        "forget_gate", "input_gate", "candidate", "output_gate", "cell", "hidden",
    ),
    "gru": (
        "reset_sum", "update_sum", "candidate_sum",
        "reset_gate", "update_gate", "candidate", "hidden",
    ),
}  # fmt: skip
# The blocks of torch's weights, in its order, by their letters in formulas.
BLOCKS = {"rnn": ("",), "lstm": ("_i", "_f", "_g", "_o"), "gru": ("_r", "_z", "_n")}
SUMS = {
    "preactivation": "", "forget_sum": "_f", "input_sum": "_i", "candidate_sum": "_g",
    "output_sum": "_o", "reset_sum": "_r", "update_sum": "_z",
}  # fmt: skip
# What a gate at a constant value does.
GATES: dict[CellName, dict[tuple[str, float], str]] = {
    "lstm": {
        ("forget", 0.0): "keeps nothing",
        ("forget", 1.0): "keeps everything",
        ("input", 0.0): "writes nothing",
        ("input", 1.0): "writes everything",
        ("output", 1.0): "shows everything",
    },
    "gru": {
        ("reset", 0.0): "the candidate ignores the old state",
        ("reset", 1.0): "the candidate uses the whole old state",
        ("update", 0.0): "the old state is dropped",
        ("update", 1.0): "the old state is kept",
    },
}


def run_stack(
    stack: nn.RNNBase, x: Tensor, lengths: Tensor | None, state: RecurrentState
) -> tuple[Tensor, RecurrentState]:
    """Run all layers of a torch module, with its weights and dropout."""
    if _autocast_dtype(x) is not None:
        weights = list(stack.parameters())  # in the order of the kernels' arguments
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
    """Run one layer without dropout, in one direction or, with two sets of weights, in both."""
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
    """The dtype of autocast on a GPU; None if autocast is off. The caller converts to this dtype
    itself, because autocast would run cuDNN's recurrent kernels in float16 even if its dtype is
    bfloat16, and small gradients underflow in float16."""
    on = x.is_cuda and torch.is_autocast_enabled("cuda")
    return torch.get_autocast_dtype("cuda") if on else None


def _pack(x: Tensor, lengths: Tensor) -> PackedSequence:
    return pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)


def _rows(state: RecurrentState, rows: Tensor | None) -> RecurrentState:
    """The state with its rows in the order given by the indices `rows`."""
    assert rows is not None, "packed sequences are sorted"
    return RecurrentState(
        state.hidden.index_select(1, rows),
        None if state.cell is None else state.cell.index_select(1, rows),
    )


def _kernel_state(state: RecurrentState) -> Tensor | tuple[Tensor, Tensor]:
    return state.hidden if state.cell is None else (state.hidden, state.cell)
