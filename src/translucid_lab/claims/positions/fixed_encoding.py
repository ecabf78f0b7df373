"""C39: the encoding before and after training: computed once."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.models.base import Network
from translucid.parts.positions import PositionName, Sinusoidal
from translucid.see.pictures import Bars
from translucid_lab.claims.shared.position_tasks import (
    TESTED,
    WIDTH,
    copy_back,
    small_transformer,
    stack,
    train,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, column, decide


class Counted(Sinusoidal):
    """Looks rows up in a table, and counts how often that had to be computed."""

    computed = 0
    rows = torch.empty(0)

    def encode(self, positions: Tensor) -> Tensor:
        farthest = int(positions.max())
        if farthest >= len(self.rows):
            self.computed += 1
            self.rows = super().encode(torch.arange(max(farthest + 1, 64)))
        return self.rows[positions]


def _once(seed: int, quick: bool) -> Data:
    """What is added to texts before and after training, and how often it was computed."""
    generator = torch.Generator().manual_seed(seed)
    texts, _ = copy_back(2, TESTED, generator)
    measured: dict[str, float] = {}
    kinds: tuple[PositionName, ...] = ("sinusoidal", "learned")
    for kind in kinds:
        torch.manual_seed(seed)
        net = small_transformer(kind, layers=1)
        counted = Counted(WIDTH)
        if kind == "sinusoidal":
            stack(net).positions = counted
        before = _added(net, texts[:1])
        train(net, copy_back, 5 if quick else 50, generator)
        measured[kind] = float((_added(net.eval(), texts[1:]) - before).abs().max())
        measured[f"{kind}_trained"] = sum(p.numel() for p in stack(net).positions.parameters())
        if kind == "sinusoidal":
            measured["computed"] = counted.computed
    return measured


def _added(net: Network, ids: Tensor) -> Tensor:
    trace = Trace("*.positions.encoding")
    with torch.no_grad():
        net(ids, trace=trace)
    return trace["decoder.positions.encoding"]


def _judge_once(data: Sequence[Data]) -> Finding:
    change, control = max(column(data, "sinusoidal")), min(column(data, "learned"))
    often = max(column(data, "computed"))
    sides: dict[str, bool | None] = {
        "the same for other texts and after training": change == 0,
        "computed once": often == 1,
        "nothing of it is trained": max(column(data, "sinusoidal_trained")) == 0,
    }
    if control == 0:  # a table that is trained has not changed: there was no training to speak of
        sides = dict.fromkeys(sides)
    return decide(
        sides,
        "between one text before training and another after it, a learned encoding changes by "
        f"{control:.2g} and the sinusoidal one by {change:g}, which was computed {often:g} "
        f"time{'s' * (often != 1)}",
    )


def _draw_once(data: Sequence[Data]) -> Bars:
    return Bars(
        "What training changes in the encoding", "largest change", ("sinusoidal", "learned"),
        np.array([float(average(data, kind)) for kind in ("sinusoidal", "learned")]),
        note="one text before training, another after it",
    )  # fmt: skip


once = Experiment(
    name="encoding-once",
    title="The encoding before and after training",
    varies="the text; before and after training; sinusoidal and learned positions",
    measures="how much what is added to the words changes, and how often it is computed",
    claims={
        "C39": Rule(
            "Of the sinusoidal encoding. Supported if it is the same, bit for bit, for one text "
            "before training and another after it, has nothing to train, and was computed once; "
            "refuted if not. Undecided if a learned table, as a control, did not change either.",
            _judge_once,
            label="identity",
        )
    },
    run=_once,
    draw=_draw_once,
    seconds=1.0,
    references=("https://arxiv.org/abs/1706.03762",),
)
