"""C62: leaving out one block of a trained net, with residual connections and without."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.deep_net import Deep, mean_square, smooth_target
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import fit
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    all_hold,
    by_case,
    clearly,
    column,
    has_learned,
    median_of,
)

DEPTHS = (12, 36)  # blocks: about as many as the target needs, and with some to spare
NETS = ("residual", "residual, small branches", "plain")


def _deletion(seed: int, quick: bool) -> Data:
    """Train nets of 12 and of 36 blocks with layer norm; then leave out one block at a time: by how
    much the loss grows, as a fraction of the target's variance (1: as bad as always saying the
    mean)."""
    steps = 80 if quick else 400
    return {str(depth): {name: _trained(seed, name, depth, steps) for name in NETS}
            for depth in (DEPTHS[:1] if quick else DEPTHS)}  # fmt: skip


def _trained(seed: int, name: str, depth: int, steps: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    x, y = smooth_target(128, 8, torch.Generator().manual_seed(seed))
    net = Deep(inputs=8, outputs=1, width=32, depth=depth, norm="layer", residual=name != "plain",
               branch=depth**-0.5 if "small" in name else 1.0)  # fmt: skip
    fit(net, partial(_error, net, x, y), steps=steps, learning_rate=2e-3)
    with torch.no_grad():
        whole = float(mean_square(net(x), y))
        less = [float(mean_square(net(x, without=at), y)) for at in range(depth)]
    return {"loss": whole, "cost": [value - whole for value in less]}


def _error(net: Deep, x: Tensor, y: Tensor) -> Tensor:
    return mean_square(net(x), y)


def _judge_deletion(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    learned: dict[str, bool] = {}
    parts: list[str] = []
    numbers: dict[str, float] = {}
    for depth in data[0]:
        # The middle block: one that all nets need, often the first or the last, says little.
        cost = {name: median_of([float(np.median(run[depth][name]["cost"])) for run in data])
                for name in NETS}  # fmt: skip
        whole = {name: column(data, depth, name, "loss") for name in NETS}
        ruined = clearly(cost["plain"].against(0.75), "above")
        for name in NETS[:2]:
            case = f"{depth} blocks, {name}"
            cases[case] = all_hold((ruined, clearly(cost[name].against(0.25), "below")))
            learned[case] = all(
                has_learned(whole[other], 0.25, below=True) for other in (name, "plain")
            )
        parts.append(
            f"of {depth} blocks "
            + ", ".join(
                f"{name} {cost[name]} (whole {median_of(whole[name]).mean:.2g})" for name in NETS
            )
        )
        numbers |= {f"{depth} blocks, {name}": interval.mean for name, interval in cost.items()}
    return by_case(
        cases, "leaving out one block adds to the loss, in the target's variance: "
        f"{'; '.join(parts)}", "whether blocks are to spare, and how large their branches are",
        numbers, learned=learned,
    )  # fmt: skip


def _draw_deletion(data: Sequence[Data]) -> Lines:
    depths = tuple(data[0])
    return Lines(
        "What leaving out one block costs", Axis("blocks of the net", depths),
        "loss added, in the target's variance",
        {f"{name} net": np.array([float(np.median([run[depth][name]["cost"] for run in data]))
                                  for depth in depths]) for name in NETS},
        logarithmic=True,
        note="median of all blocks and seeds; all with layer norm; 1: as bad as always saying "
        "the mean",
    )  # fmt: skip


deletion = Experiment(
    name="leaving-out-blocks",
    title="Leaving out one block of a trained net",
    varies="residual connections, the size of their branches; how many blocks there are, and which "
    "is left out",
    measures="by how much the training loss grows, as a fraction of the target's variance",
    claims={
        "C62": Rule(
            "Asked of nets of 12 blocks and of 36, where blocks are to spare, with branches of "
            "full size and scaled by 1 / √blocks: holds if leaving out a block costs, in the "
            "median of the blocks, clearly less than a quarter of the target's variance in the "
            "residual net and clearly more than three quarters in the plain one; fails if either "
            "clearly does not; not tested where a net did not learn (below a quarter in eight of "
            "ten seeds). Supported if it holds in all four cases, refuted if in none, depends if "
            "in some.",
            _judge_deletion,
        )
    },
    run=_deletion,
    draw=_draw_deletion,
    seconds=32.0,
    references=("https://arxiv.org/abs/1605.06431", "https://arxiv.org/abs/1909.11556"),
)
