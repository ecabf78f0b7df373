"""C18: unrolled in time, a step is a layer."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.trace import NO_TRACE
from translucid.parts.recurrent import Recurrent
from translucid.parts.recurrent_cells import STEPS, CellName, Step, Weights
from translucid.see.pictures import Axis, Lines
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, column, decide

CELLS: tuple[CellName, ...] = ("rnn", "lstm", "gru")
STEP = 1e-6  # of the finite differences


def _unrolled(seed: int, quick: bool) -> Data:
    """The gradient of a recurrent layer's weights: by its own kernel, as the sum over copies that
    are tied to nothing, and by moving each of a few weights. Largest differences, against the
    largest gradient; and what each copy adds."""
    length, hidden = (6, 4) if quick else (20, 8)
    return {cell: _tied_and_untied(seed, cell, length, hidden) for cell in CELLS}


def _tied_and_untied(seed: int, cell: CellName, length: int, hidden: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    layer = Recurrent(cell, hidden, hidden).double()
    x, wanted = torch.randn(2, 3, length, hidden, dtype=torch.float64)
    weights = layer.weights(0, "forward")

    def loss() -> Tensor:
        return (layer(x)[0][:, -1] * wanted[:, -1]).sum()

    tied = torch.autograd.grad(loss(), weights)
    copies = [_copy(weights) for _ in range(length)]
    output = _deep(cell, x, copies)
    untied = [torch.autograd.grad((output * wanted[:, -1]).sum(), copy, retain_graph=True)
              for copy in copies]  # fmt: skip
    largest = max(float(value.abs().max()) for value in tied)
    summed = [torch.stack(value).sum(dim=0) for value in zip(*untied, strict=True)]
    away = max(float((a - b).abs().max()) for a, b in zip(tied, summed, strict=True))
    return {
        "copies": away / largest,
        "differences": _by_moving(loss, weights[1], tied[1]) / largest,
        "adds": [float(value[1].norm()) for value in untied],
    }


def _copy(weights: Weights) -> Weights:
    w, u, b, b_hidden = (weight.detach().clone().requires_grad_() for weight in weights)
    return w, u, b, b_hidden


def _deep(cell: CellName, x: Tensor, copies: Sequence[Weights]) -> Tensor:
    """A deep net with one layer for each step, each with weights of its own."""
    start = x.new_zeros(len(x), copies[0][1].shape[1])
    now: Step = (start, start if cell == "lstm" else None)
    for t, weights in enumerate(copies):
        now = STEPS[cell](x[:, t], now, weights, NO_TRACE)
    return now[0]


def _by_moving(loss: Callable[[], Tensor], weight: Tensor, slopes: Tensor) -> float:
    """How far a few of the slopes are from central differences."""
    worst = 0.0
    flat = weight.data.view(-1)
    with torch.no_grad():
        for place in range(0, len(flat), 5):
            before = flat[place].clone()
            flat[place] = before + STEP
            up = loss()
            flat[place] = before - STEP
            down = loss()
            flat[place] = before
            worst = max(worst, abs(float((up - down) / (2 * STEP) - slopes.view(-1)[place])))
    return worst


def _judge_unrolled(data: Sequence[Data]) -> Finding:
    worst = {label: float(np.max([column(data, cell, label) for cell in CELLS]))
             for label in ("copies", "differences")}  # fmt: skip
    return decide(
        {f"agrees with {label} to 1e-6": True if value < 1e-6 else False if value > 1e-4 else None
         for label, value in (("the sum over copies", worst["copies"]),
                            ("finite differences", worst["differences"]))},
        f"the gradient through a recurrent layer is {worst['copies']:.1e} from the sum over untied "
        f"copies and {worst['differences']:.1e} from finite differences, of the largest", worst,
    )  # fmt: skip


def _draw_unrolled(data: Sequence[Data]) -> Lines:
    series = {cell.upper(): average(data, cell, "adds").numpy() for cell in CELLS}
    length = len(next(iter(series.values())))
    return Lines(
        "What each step's copy adds to the gradient of U",
        Axis("step", tuple(str(t + 1) for t in range(length))), "norm of the gradient", series,
        note="their sum is the gradient of the shared weights",
    )  # fmt: skip


unrolling = Experiment(
    name="unrolling",
    title="Unrolled in time: one layer for each step, tied weights",
    varies="the cell; weights shared by all steps, or a copy for each",
    measures="the gradient of the weights, three ways",
    claims={
        "C18": Rule(
            "Supported if the gradient of the shared weights equals the sum over untied copies and "
            "central differences within 1e-6 of the largest entry, for RNN, LSTM and GRU; refuted "
            "if off by more than 1e-4.",
            _judge_unrolled,
            label="identity",
        )
    },
    run=_unrolled,
    draw=_draw_unrolled,
    seconds=0.6,
    references=("https://doi.org/10.1109/5.58337",),
)
