"""C28: the forget gate.

Shapes: ids (rows, length); gates and states (rows, length, hidden), at one place (rows, hidden).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from translucid.core.trace import Edit, Trace
from translucid.parts.recurrent import Recurrent
from translucid.see.pictures import Axis, Lines
from translucid.tasks.batch import IGNORE, Batch
from translucid_lab.claims.recurrent.lstm_gates import HIDDEN, LEARNED, edited_logits, gate_values
from translucid_lab.claims.shared.sequence_tasks import batch_of, recurrent_net, right, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    difference_of,
    has_learned,
    median_of,
)

TICK, RESET, COUNTED, ROW = 1, 2, 4, 12


def counting(generator: torch.Generator, rows: int) -> Batch:
    """How many ticks since the last reset? At each place; COUNTED or more are one class."""
    drawn = torch.rand(rows, ROW, generator=generator)
    ids = (drawn < 0.5).long() + (drawn < 0.15).long()  # 0 nothing, 1 tick, 2 reset
    counts = torch.zeros(rows, dtype=torch.long)
    targets = []
    for t in range(ROW):
        counts = torch.where(ids[:, t] == RESET, 0, counts + (ids[:, t] == TICK))
        targets.append(counts.clamp(max=COUNTED))
    return batch_of(ids, torch.stack(targets, dim=1))


def _forgetting(seed: int, quick: bool) -> Data:
    """The cell when its gate is set by hand; and a net that learned to count, with resets: its
    accuracy as it is and with the gate held open at resets, how much of its cell it keeps there
    and elsewhere, and the mean of each unit's gate, the one that drops most first."""
    net = recurrent_net(seed, "lstm", vocab=3, outputs=COUNTED + 1, hidden=HIDDEN, tags=True)
    train(net, counting, seed=seed, steps=100 if quick else 600, rate=1e-2, enough=0.02)
    batch = counting(torch.Generator().manual_seed(seed + 10**6), 300)
    ids = batch.inputs["ids"]
    wanted = batch.targets.where((ids == RESET).cumsum(dim=1) > 0, IGNORE)  # after a reset
    held = {f"forget_gate@{t}": _held_open(ids[:, t] == RESET) for t in range(ROW)}
    seen = gate_values(net, ids)
    before, gate = seen["cell"][:, :-1].abs(), seen["forget_gate"][:, 1:]
    reset = ids[:, 1:] == RESET
    order = (gate[~reset].mean(dim=0) - gate[reset].mean(dim=0)).argsort(descending=True)
    return {
        **_by_hand(seed),
        "accuracy": right(edited_logits(net, ids, {}), wanted),
        "held open": right(edited_logits(net, ids, held), wanted),
        "kept": [float((gate * before)[at].sum() / before[at].sum()) for at in (reset, ~reset)],
        "gates": {name: gate[at].mean(dim=0)[order].tolist()
                  for name, at in (("at resets", reset), ("elsewhere", ~reset))},
    }  # fmt: skip


def _held_open(rows: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda gate: torch.where(rows[:, None], 1.0, gate)


@torch.no_grad()
def _by_hand(seed: int) -> dict[str, float]:
    """An untrained cell: what is left of it with the gate at 0, and how far it moves at 1."""
    torch.manual_seed(seed)
    layer, x = Recurrent("lstm", 4, 4), torch.randn(3, 10, 4)
    shut: dict[str, Edit] = {f"layers.0.lstm.input_gate@{t}": 0.0 for t in range(5, 10)}
    states = []
    for value in (0.0, 1.0):
        gates: dict[str, Edit] = {f"layers.0.lstm.forget_gate@{t}": value for t in range(5, 10)}
        trace = Trace("layers.0.lstm.cell", edit={**shut, **gates})
        layer(x, trace=trace)
        states.append(trace["layers.0.lstm.cell"])
    wiped, kept = states
    return {"left": float(wiped[:, 5:].abs().max()),
            "moved": float((kept[:, 5:] - kept[:, 4:5]).abs().max())}  # fmt: skip


def _judge_forgetting(data: Sequence[Data]) -> Finding:
    learned, reset, rest = (
        median_of(column(data, *path)) for path in (("accuracy",), ("kept", 0), ("kept", 1))
    )
    cost = difference_of(column(data, "accuracy"), column(data, "held open"), "rank")
    left, moved = max(column(data, "left")), max(column(data, "moved"))
    return decide(
        {
            "at 0 nothing is left of the cell": left < 1e-6,
            "at 1 it does not move": moved < 1e-6,
            "a net that counts needs it to reset": clearly(cost.against(0.1), "above"),
        },
        f"set by hand to 0 it leaves {left:.1e} of the cell, to 1 it moves it by {moved:.1e}; a "
        f"net that counts ({learned} right after a reset) loses {cost} with the gate held open at "
        f"resets; by itself it keeps {reset} of its cell there and {rest} elsewhere",
        {"cost": cost.mean, "at resets": reset.mean, "elsewhere": rest.mean},
        learned={"nets that count": has_learned(column(data, "accuracy"), LEARNED)},
    )


def _draw_forgetting(data: Sequence[Data]) -> Lines:
    return Lines(
        "Forget gates of a net that counts ticks since the last reset",
        Axis("unit, the one that drops most first", tuple(str(i + 1) for i in range(HIDDEN))),
        "mean of the gate",
        {f"{name}": average(data, "gates", name).numpy() for name in ("at resets", "elsewhere")},
    )  # fmt: skip


forget_gate = Experiment(
    name="forget-gate",
    title="The forget gate: 0 wipes the cell, 1 keeps it",
    varies="the forget gate, by hand; and what a net reads that counts ticks since the last reset",
    measures="the cell; the trained net's accuracy with the gate held open at resets",
    claims={
        "C28": Rule(
            "Supported if, set by hand with the input gate shut, 0 leaves nothing of the cell and "
            "1 does not move it (1e-6), and if a net that learned to count with resets (in "
            "eight of ten seeds right more often than 0.9, else not tested) loses clearly "
            "more than 0.1 of accuracy after resets when the gate is held at 1 there; "
            "refuted if one clearly fails.",
            _judge_forgetting,
        )
    },
    run=_forgetting,
    draw=_draw_forgetting,
    seconds=10.0,
    references=("https://doi.org/10.1162/089976600300015015",),
)
