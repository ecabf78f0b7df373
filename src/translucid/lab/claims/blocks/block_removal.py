"""C62: leaving out one block of a trained net, with residual connections and without."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.lab.claims.shared.deep_net import Deep, mean_square, smooth_target
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.fit import fit
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    all_hold,
    average,
    by_case,
    clearly,
    column,
    mean_of,
)
from translucid.see.picture_data import Axis
from translucid.see.pictures import Lines

BLOCKS = 12
# residual or not, and what its branches are multiplied by
NETS = {"residual": (True, 1.0), "residual, small branches": (True, BLOCKS**-0.5),
        "plain": (False, 1.0)}  # fmt: skip


def _deletion(seed: int, quick: bool) -> Data:
    """Train nets of 12 blocks with layer norm; then leave out one block at a time: by how much the
    loss grows, as a fraction of the target's variance (1: as bad as always saying the mean)."""
    steps = 80 if quick else 400
    measured: dict[str, Any] = {}
    for name, (residual, branch) in NETS.items():
        torch.manual_seed(seed)
        x, y = smooth_target(128, 8, torch.Generator().manual_seed(seed))
        net = Deep(inputs=8, outputs=1, width=32, depth=BLOCKS, norm="layer", residual=residual,
                   branch=branch)  # fmt: skip
        fit(net, partial(_error, net, x, y), steps=steps, learning_rate=2e-3)
        with torch.no_grad():
            whole = float(mean_square(net(x), y))
            less = [float(mean_square(net(x, without=at), y)) for at in range(BLOCKS)]
        measured[name] = {"loss": whole, "cost": [value - whole for value in less]}
    return measured


def _error(net: Deep, x: Tensor, y: Tensor) -> Tensor:
    return mean_square(net(x), y)


def _judge_deletion(data: Sequence[Data]) -> Finding:
    cost = {name: mean_of([float(np.mean(run[name]["cost"])) for run in data]) for name in NETS}
    whole = {name: mean_of(column(data, name, "loss")) for name in NETS}
    ruined = clearly(cost["plain"].against(0.75), "above")
    cases: dict[str, bool | None] = {}
    for name in (other for other in NETS if other != "plain"):
        cases[name] = all_hold((ruined, clearly(cost[name].against(0.25), "below")))
        if any(whole[other].against(0.25) != "below" for other in (name, "plain")):
            cases[name] = None  # nothing was learned that could be lost
    summary = "; ".join(f"{name} net {cost[name]}, whole {whole[name].mean:.2g}" for name in NETS)
    return by_case(
        cases, f"leaving out one of {BLOCKS} blocks adds to the loss, in the target's variance: "
        f"{summary}", "how large the branches are beside what passes by them",
        {name: interval.mean for name, interval in cost.items()},
    )  # fmt: skip


def _draw_deletion(data: Sequence[Data]) -> Lines:
    return Lines(
        "What leaving out one block costs", Axis("block left out",
        tuple(str(at + 1) for at in range(BLOCKS))), "loss added, in the target's variance",
        {f"{name} net": average(data, name, "cost").numpy() for name in NETS},
        note="both with layer norm; 1: as bad as always saying the mean",
    )  # fmt: skip


deletion = Experiment(
    name="leaving-out-blocks",
    title="Leaving out one block of a trained net",
    varies="residual connections, the size of their branches; which of 12 blocks is left out",
    measures="by how much the training loss grows, as a fraction of the target's variance",
    claims={
        "C62": Rule(
            "Holds for branches of full size, and for branches scaled by 1 / √blocks, if leaving "
            "out a block costs, on average, clearly less than a quarter of the target's variance "
            "in the residual net and more than three quarters in the plain one; fails if either "
            "clearly does not; open if a net did not learn. Supported if it holds for both, "
            "refuted if for neither, depends if for one.",
            _judge_deletion,
        )
    },
    run=_deletion,
    draw=_draw_deletion,
    seconds=8.0,
    references=("https://arxiv.org/abs/1605.06431", "https://arxiv.org/abs/1909.11556"),
)
