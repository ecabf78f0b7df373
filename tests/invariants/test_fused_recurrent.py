"""torch's fused recurrent kernels and our cells agree: outputs, states and every gradient."""

import pytest
import torch
from tests.invariants.cases import CELLS, close
from torch import Tensor

from translucid.core.trace import NO_TRACE, Trace
from translucid.parts.cache import RecurrentState
from translucid.parts.recurrent import Recurrent
from translucid.parts.recurrent_cells import CellName

pytestmark = pytest.mark.invariant("fused = by hand")

MASKS = {
    "unpadded": None,
    "right": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]]).bool(),
    "left": torch.tensor([[0, 0, 0, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]]).bool(),
    "holes": torch.tensor([[1, 0, 1, 0, 1], [0, 1, 0, 0, 1], [1, 1, 0, 1, 1]]).bool(),
    "empty row": torch.tensor([[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]).bool(),
    "nothing": torch.zeros(3, 5, dtype=torch.bool),
}


@pytest.mark.parametrize("padding", MASKS)
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("cell", CELLS)
def test_recurrent(cell: CellName, both: bool, padding: str) -> None:
    layers = 2
    torch.manual_seed(0)
    part = Recurrent(cell, 4, 3, layers, bidirectional=both).double()
    rows = layers * len(part.directions)
    x = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True)
    start = [torch.randn(rows, 3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    leaves = [x, *start[: 2 if cell == "lstm" else 1], *part.parameters()]

    def run(trace: Trace | None) -> list[Tensor]:
        state = RecurrentState(start[0], start[1] if cell == "lstm" else None)
        output, after = part(x, MASKS[padding], state, NO_TRACE if trace is None else trace)
        seen = [output, after.hidden] + ([] if after.cell is None else [after.cell])
        generator = torch.Generator().manual_seed(3)
        total = sum(
            (t * torch.randn(t.shape, generator=generator, dtype=t.dtype)).sum() for t in seen
        )
        return [*seen, *torch.autograd.grad(total, leaves, materialize_grads=True)]

    for fused, by_hand in zip(run(None), run(Trace()), strict=True):
        assert fused.isfinite().all()
        close(fused, by_hand)
    output = run(None)[0]
    if (mask := MASKS[padding]) is not None:
        assert torch.equal(output[~mask], torch.zeros_like(output[~mask]))


@pytest.mark.parametrize("cell", CELLS)
def test_the_state_passes_padding(cell: CellName) -> None:
    """Reading a row among padding ends in the state of reading it alone."""
    torch.manual_seed(0)
    part = Recurrent(cell, 4, 3, 2).double()
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    for name in ("right", "left", "holes"):
        mask = MASKS[name]
        for trace in (NO_TRACE, Trace()):
            output, after = part(x, mask, trace=trace)
            for row in range(3):
                alone, state = part(x[row][mask[row]][None])
                close(output[row][mask[row]], alone[0])
                close(after.hidden[:, row], state.hidden[:, 0])
                if state.cell is not None:
                    close(after.cell[:, row], state.cell[:, 0])
