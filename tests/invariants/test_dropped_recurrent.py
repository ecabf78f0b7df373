"""Dropout within a recurrent stack: fused = by hand with the same draws, thinned once for a pass,
and gone after training."""

import copy

import pytest
import torch
from tests.invariants.cases import CELLS, close
from tests.invariants.test_fused_recurrent import MASKS
from tests.tiny.dealt import dealt
from torch import Tensor

from translucid.core.trace import NO_TRACE, Trace
from translucid.parts.cache import RecurrentState
from translucid.parts.recurrent import Recurrent
from translucid.parts.recurrent_cells import CellName

pytestmark = pytest.mark.invariant("fused = by hand")

WAYS = [{"locked": True}, {"weight_dropout": 0.4}, {"locked": True, "weight_dropout": 0.4}]


def stack(cell: CellName, both: bool, **options: object) -> Recurrent:
    """Three layers; between them dropout only where it is locked, for plain dropout draws its
    numbers in the order in which a kernel has laid out what it says."""
    torch.manual_seed(0)
    share = 0.5 if "locked" in options else 0.0
    return Recurrent(cell, 4, 6, 3, bidirectional=both, dropout=share, **options).double()


@pytest.mark.parametrize(
    ("cell", "options", "both", "padding"),
    dealt(CELLS, WAYS, (False, True), list(MASKS)[:5], share=3),
)
def test_the_same_draws(
    cell: CellName, options: dict[str, object], both: bool, padding: str
) -> None:
    part = stack(cell, both, **options)
    rows = 3 * len(part.directions)
    x = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True)
    start = [torch.randn(rows, 3, 6, dtype=torch.float64) for _ in range(2)]

    def run(trace: Trace | None) -> list[Tensor]:
        torch.manual_seed(7)
        state = RecurrentState(start[0], start[1] if cell == "lstm" else None)
        output, after = part(x, MASKS[padding], state, NO_TRACE if trace is None else trace)
        seen = [output, after.hidden] + ([] if after.cell is None else [after.cell])
        weights = [torch.linspace(0.5, 2, t.numel(), dtype=t.dtype).view_as(t) for t in seen]
        total = sum((t * w).sum() for t, w in zip(seen, weights, strict=True))
        return [*seen, *torch.autograd.grad(total, [x, *part.parameters()])]

    for fused, by_hand in zip(run(None), run(Trace()), strict=True):
        close(fused, by_hand)


@pytest.mark.parametrize("cell", CELLS)
def test_weights_from_state_to_state_are_thinned_for_a_whole_pass(cell: CellName) -> None:
    part = stack(cell, False, weight_dropout=0.4)
    thin = copy.deepcopy(part).eval()
    torch.manual_seed(7)
    for layer in range(3):
        u = thin.weights(layer, "forward")[1].data
        u.mul_(torch.nn.functional.dropout(torch.ones_like(u), 0.4))
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    shares = [float((thin.weights(n, "forward")[1] == 0).double().mean()) for n in range(3)]
    assert all(0.2 < share < 0.6 for share in shares)
    torch.manual_seed(7)
    output, _ = part.train()(x)
    close(output, thin(x)[0])


@pytest.mark.parametrize("options", WAYS, ids=lambda o: "+".join(o))
@pytest.mark.parametrize("cell", CELLS)
def test_afterwards_nothing_is_dropped(cell: CellName, options: dict[str, object]) -> None:
    part, plain = stack(cell, True, **options).eval(), stack(cell, True).eval()
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    assert torch.equal(part(x)[0], plain(x)[0])
    assert torch.equal(part(x, trace=Trace())[0], plain(x, trace=Trace())[0])


def test_between_layers_a_number_is_hidden_at_all_positions() -> None:
    """Of two layers, the upper with W = 1 and no way from state to state: what it says is 0 at all
    positions where the lower's number was hidden."""
    torch.manual_seed(0)
    part = Recurrent("rnn", 4, 6, 2, dropout=0.5, locked=True).double()
    w, u, b, b_hidden = part.weights(1, "forward")
    with torch.no_grad():
        w.copy_(torch.eye(6))
        for tensor in (u, b, b_hidden):
            tensor.zero_()
    output, _ = part(torch.randn(20, 5, 4, dtype=torch.float64))
    hidden = output == 0
    assert torch.equal(hidden, hidden[:, :1].expand_as(hidden))
    assert 0.3 < float(hidden.double().mean()) < 0.7
