"""Our cells and stacks = torch.nn's, with the weights copied as they are."""

import pytest
import torch
from tests.invariants.cases import CELLS, close
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from translucid.core.trace import NO_TRACE, Trace
from translucid.parts.cache import RecurrentState
from translucid.parts.recurrent import STEPS, CellName, Recurrent

pytestmark = pytest.mark.invariant("our cells = torch.nn's")
INPUTS, HIDDEN, ROWS = 4, 3, 5


def torch_cell(cell: CellName) -> nn.RNNCellBase:
    match cell:
        case "lstm":
            return nn.LSTMCell(INPUTS, HIDDEN).double()
        case "gru":
            return nn.GRUCell(INPUTS, HIDDEN).double()
    return nn.RNNCell(INPUTS, HIDDEN, nonlinearity="relu" if "relu" in cell else "tanh").double()


def torch_stack(cell: CellName, layers: int, both: bool) -> nn.RNNBase:
    kind = {"lstm": nn.LSTM, "gru": nn.GRU}.get(cell, nn.RNN)
    options = {"nonlinearity": "relu"} if cell == "rnn_relu" else {}
    return kind(INPUTS, HIDDEN, layers, batch_first=True, bidirectional=both, **options).double()


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("cell", CELLS)
def test_one_step(cell: CellName) -> None:
    """Values, and the gradients of every weight and input."""
    theirs = torch_cell(cell)
    x, hidden, memory = drawn(ROWS, INPUTS), drawn(ROWS, HIDDEN), drawn(ROWS, HIDDEN)
    weights = (theirs.weight_ih, theirs.weight_hh, theirs.bias_ih, theirs.bias_hh)
    leaves = [x, hidden, *([memory] if cell == "lstm" else []), *weights]

    state = (hidden, memory if cell == "lstm" else None)
    ours_hidden, ours_cell = STEPS[cell](x, state, weights, NO_TRACE)
    if cell == "lstm":
        their_hidden, their_cell = theirs(x, (hidden, memory))
        close(ours_cell, their_cell)
    else:
        their_hidden = theirs(x, hidden)
        assert ours_cell is None
    close(ours_hidden, their_hidden)
    cotangent = torch.randn(ROWS, HIDDEN, dtype=torch.float64)
    for ours, expected in zip(
        torch.autograd.grad((ours_hidden * cotangent).sum(), leaves),
        torch.autograd.grad((their_hidden * cotangent).sum(), leaves),
        strict=True,
    ):
        close(ours, expected)


@pytest.mark.parametrize("traced", [False, True], ids=["fused", "by hand"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_stack(cell: CellName, both: bool, layers: int, traced: bool) -> None:
    theirs = torch_stack(cell, layers, both)
    ours = Recurrent(cell, INPUTS, HIDDEN, layers, bidirectional=both).double()
    ours.fused.load_state_dict(theirs.state_dict())
    rows = layers * (2 if both else 1)
    x, hidden, memory = drawn(ROWS, 6, INPUTS), drawn(rows, ROWS, HIDDEN), drawn(rows, ROWS, HIDDEN)
    trace = Trace() if traced else NO_TRACE

    state = RecurrentState(hidden, memory if cell == "lstm" else None)
    output, after = ours(x, None, state, trace)
    expected, their_state = theirs(x, (hidden, memory) if cell == "lstm" else hidden)
    close(output, expected)
    close(after.hidden, their_state[0] if cell == "lstm" else their_state)
    if cell == "lstm":
        close(after.cell, their_state[1])

    lengths = torch.tensor([6, 2, 4, 1, 6])
    mask = torch.arange(6) < lengths[:, None]
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    their_packed, their_state = theirs(packed)
    expected, _ = pad_packed_sequence(their_packed, batch_first=True)
    output, after = ours(x, mask, trace=Trace() if traced else NO_TRACE)
    close(output, expected)
    close(after.hidden, their_state[0] if cell == "lstm" else their_state)
