"""The fused kernels in the dtype that autocast asks for: as the whole stack in that dtype."""

import copy

import pytest
import torch
from torch import Tensor, nn

from translucid.parts import recurrent_cells
from translucid.parts.cache import RecurrentState
from translucid.parts.recurrent_cells import CELLS, run_layer, run_stack

KINDS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("cell", KINDS)
def test_a_stack_runs_in_the_dtype_of_autocast(
    cell: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    stack = KINDS[cell](5, 4, 2, batch_first=True, bidirectional=True)
    double = copy.deepcopy(stack).double()
    x, hidden = torch.randn(3, 7, 5), torch.randn(4, 3, 4)
    lengths = torch.tensor([4, 7, 2]) if packed else None
    state = RecurrentState(hidden, hidden.sin() if cell == "lstm" else None)
    wide = RecurrentState(hidden.double(), hidden.sin().double() if cell == "lstm" else None)
    theirs, their_state = run_stack(double, x.double(), lengths, wide)
    theirs.square().sum().backward()

    monkeypatch.setattr(recurrent_cells, "_autocast_dtype", lambda _: torch.float64)
    ours, our_state = run_stack(stack, x, lengths, state)
    assert ours.dtype == our_state.hidden.dtype == torch.float64
    ours.square().sum().backward()
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)
    assert torch.allclose(our_state.hidden, their_state.hidden, rtol=0, atol=1e-12)
    for own, other in zip(stack.parameters(), double.parameters(), strict=True):
        assert own.grad is not None
        assert own.grad.dtype == torch.float32
        assert torch.allclose(own.grad.double(), other.grad, rtol=1e-5, atol=1e-7)


def test_a_layer_runs_in_the_dtype_of_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    stack = nn.LSTM(5, 4, batch_first=True)
    assert CELLS[stack.mode] == "lstm"
    weights: list[Tensor] = list(stack.parameters())
    x, zero = torch.randn(3, 7, 5), RecurrentState(torch.zeros(1, 3, 4), torch.zeros(1, 3, 4))
    monkeypatch.setattr(recurrent_cells, "_autocast_dtype", lambda _: torch.float64)
    ours, _ = run_layer("lstm", weights, x, None, zero)
    theirs, _ = copy.deepcopy(stack).double()(x.double())
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)
