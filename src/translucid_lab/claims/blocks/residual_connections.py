"""C61: how deep a net can be trained, with residual connections and without."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.deep_net import Deep, mean_square, smooth_target
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import Step, fit
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    by_case,
    column,
    has_learned,
    mean_of,
    median_of,
)

DEPTHS = (4, 40, 120)  # a net of 40 blocks still learns without residuals
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "residual": {"residual": True},
    "residual, small branches": {"residual": True},  # times 1 / sqrt(depth)
    "norm": {"norm": "layer"},
    "norm and residual": {"norm": "layer", "residual": True},
}
PAIRS = {  # a net without residual connections, and the same with them
    "nothing else": ("plain", "residual"),
    "branches scaled by 1 / √depth": ("plain", "residual, small branches"),
    "a norm in every block": ("norm", "norm and residual"),
}
HALF = 0.5  # of the loss without residual connections
LEARNS = 0.5  # of the target's variance, at the smallest depth: else it is not the depth


def _depth(seed: int, quick: bool) -> Data:
    """The training loss at the end, at the better of two rates, and the gradient that the first
    block's weights get at the start: [depth] for every kind."""
    steps, depths = (40, DEPTHS[:2]) if quick else (250, DEPTHS)
    rates = (3e-3,) if quick else (1e-3, 3e-3)
    measured: dict[str, Any] = {"depths": list(depths)}
    for kind in KINDS:
        runs = [[_trained(seed, kind, depth, rate, steps) for rate in rates]
                for depth in depths]  # fmt: skip
        measured[kind] = {
            "loss": [min(loss for loss, _ in both) for both in runs],
            "gradient": [both[0][1] for both in runs],
        }
    return measured


def _deep(seed: int, kind: str, depth: int) -> Deep:
    torch.manual_seed(seed)
    branch = depth**-0.5 if "small" in kind else 1.0
    return Deep(inputs=8, outputs=1, width=32, depth=depth, branch=branch, **KINDS[kind])


def _trained(seed: int, kind: str, depth: int, rate: float, steps: int) -> tuple[float, float]:
    net = _deep(seed, kind, depth)
    x, y = smooth_target(128, 8, torch.Generator().manual_seed(seed))
    first = net.block_list()[0].dense.linear.weight
    slopes = []

    def look(step: Step) -> bool:
        if step.done == 1:
            slopes.append(float(first.grad.norm()) if first.grad is not None else 0.0)
        return False

    history = fit(net, lambda: mean_square(net(x), y), steps=steps, learning_rate=rate, until=look)
    end = float(np.mean([step.loss for step in history[-10:]]))
    return (end if end < 1e3 else 1e3), slopes[0]  # no number at all counts as 1000


def _judge_depth(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    shallow = {}
    for case, (without, having) in PAIRS.items():
        ends = [column(data, kind, "loss", -1) for kind in (without, having)]
        # By ranks: a loss that is no number counts as the cap, and only its rank may count.
        left = mean_of([b / a for a, b in zip(*ends, strict=True)], "rank")
        cases[case] = (
            True
            if left.against(HALF) == "below"
            else False
            if left.against(1.0) == "above"
            else None
        )
        shallow[case] = all(
            has_learned(column(data, kind, "loss", 0), LEARNS, below=True)
            for kind in (without, having)
        )
        parts.append(f"with {case}, {left} times as much ({median_of(ends[0])} without residuals, "
                     f"{median_of(ends[1])} with them)")  # fmt: skip
    return by_case(
        cases, f"training loss left at depth {data[0]['depths'][-1]} with residual connections, "
        f"seed by seed against without: {'; '.join(parts)}",
        "what keeps the sum of many branches in scale", learned=shallow,
    )  # fmt: skip


def _draw_depth(data: Sequence[Data]) -> Lines:
    return Lines(
        "Training loss by depth", Axis("blocks", tuple(map(str, data[0]["depths"]))),
        "fraction of the target's variance",
        {kind: average(data, kind, "loss").numpy() for kind in KINDS}, logarithmic=True,
        note="after equal steps, each at the better of two rates",
    )  # fmt: skip


depth = Experiment(
    name="depth",
    title="Training loss by depth: plain, residual, norm, both",
    varies="the depth; residual connections; what keeps the scale: nothing, small branches, a norm",
    measures="the training loss after equal steps, and the first block's gradient at the start",
    claims={
        "C61": Rule(
            "Holds in a setting if at the largest depth the net with residual connections ends, "
            "seed by seed, with clearly less than half of the training loss of the same net "
            "without them; fails if clearly with more than all of it. Not tested where the nets do "
            "not learn at the smallest depth either (below half of the target's variance in eight "
            "of ten seeds). Supported if it holds with nothing else, with small branches and with "
            "norms; refuted if in none of them, depends if in some.",
            _judge_depth,
        )
    },
    run=_depth,
    draw=_draw_depth,
    seconds=90.0,
    references=("https://arxiv.org/abs/1512.03385", "https://arxiv.org/abs/1702.08591"),
)
