"""C67: is it the stable distributions that make batch norm help?"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.norms import BatchNorm
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.deep_net import Deep, mean_square, smooth_target
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import Step, fit
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    has_learned,
    mean_of,
    median_of,
    not_tested,
)

# Behind batch norm, every feature is moved by up to `shift` and made wider by up to `scale`, anew
# at every step. The last has the sizes of Santurkar et al. 2018.
SHAKING = {"shaken gently": (0.1, 0.05), "shaken hard": (0.5, 0.25)}
ARMS = ("plain", "batch norm", *SHAKING)
SHAKEN_DEPTH = 8
SGD_RATES = (0.03, 0.1, 0.3, 0.01)


class Shaken(BatchNorm):
    """Batch norm whose stable distributions are made unstable again."""

    def __init__(self, d_model: int, shift: float, scale: float, seed: int) -> None:
        super().__init__(d_model)
        self.most_shift, self.most_scale = shift, scale
        self.generator = torch.Generator().manual_seed(seed)

    def forward(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        shift = self.most_shift * (2 * torch.rand(x.shape[-1], generator=self.generator) - 1)
        scale = 1 + self.most_scale * torch.rand(x.shape[-1], generator=self.generator)
        return super().forward(x, mask, trace) * scale + shift


def _stability(seed: int, quick: bool) -> Data:
    """Loss by step at the best of the rates, and by how much the distribution of what enters the
    activations moves from one step to the next."""
    steps, rates = (40, SGD_RATES[:2]) if quick else (200, SGD_RATES)
    measured: dict[str, Any] = {}
    for arm in ARMS:
        runs = [_descend(seed, arm, rate, steps) for rate in rates]
        losses, drift = min(runs, key=lambda run: float(np.mean(run[0])))
        measured[arm] = {"loss": losses, "mean": float(np.mean(losses)), "drift": drift}
    return measured


def _descend(seed: int, arm: str, rate: float, steps: int) -> tuple[list[float], float]:
    torch.manual_seed(seed)
    x, y = smooth_target(256, 8, torch.Generator().manual_seed(seed))
    net = Deep(inputs=8, outputs=1, width=32, depth=SHAKEN_DEPTH,
               norm="none" if arm == "plain" else "batch")  # fmt: skip
    seen: list[Tensor] = []
    for at, block in enumerate(net.block_list()):
        if arm in SHAKING:
            block.frame.norm = Shaken(32, *SHAKING[arm], seed=1000 * seed + at)
        block.frame.norm.register_forward_hook(
            lambda part, inputs, made: seen.append(made.detach())
        )
    drifts: list[float] = []
    before: list[Tensor] = []

    def look(step: Step) -> bool:
        drifts.extend(_drift(a, b) for a, b in zip(before, seen, strict=False))
        before[:] = seen
        seen.clear()
        return False

    history = fit(net, lambda: mean_square(net(x), y), steps=steps, learning_rate=rate,
                  optimizer="sgd", until=look)  # fmt: skip
    losses = [min(step.loss, WORST) if math.isfinite(step.loss) else WORST for step in history]
    return losses, float(np.mean(drifts))


WORST = 10.0  # counted for a loss that is larger, or no number


def _drift(before: Tensor, after: Tensor) -> float:
    """How far the features' means moved between two steps, in deviations, on average."""
    moved = (after.mean(dim=0) - before.mean(dim=0)).abs() / (before.std(dim=0) + 1e-6)
    return float(moved.mean().nan_to_num(WORST).clamp(max=WORST))


def _judge_stability(data: Sequence[Data]) -> Finding:
    loss = {arm: column(data, arm, "mean") for arm in ARMS}
    drift = {arm: column(data, arm, "drift") for arm in ARMS}
    summary = "; ".join(
        f"{arm} {median_of(loss[arm])}, moving {median_of(drift[arm]).mean:.2g}" for arm in ARMS
    )
    why = f"mean loss over training, and deviations that means move in a step: {summary}"
    gained = np.subtract(loss["plain"], loss["batch norm"])
    # Seed by seed: one seed of a plain net that runs wild must not decide which shaking is asked.
    moving = [arm for arm in SHAKING
              if has_learned(np.subtract(drift[arm], drift["plain"]).tolist(), 0.0)]  # fmt: skip
    there = {"batch norm is faster than the plain net": has_learned(gained.tolist(), 0.0),
             "a shaken net less stable than the plain one": bool(moving)}  # fmt: skip
    if not all(there.values()):
        return not_tested(why, [name for name, holds in there.items() if not holds])
    arm = moving[0]
    kept = mean_of((np.subtract(loss["plain"], loss[arm]) / gained).tolist(), "rank")
    return decide(
        {"less than half of the gain is left": clearly(kept.against(0.5), "below")},
        f"{why}; {arm}, batch norm keeps {kept} of its gain", {"kept": kept.mean, "arm": arm},
    )  # fmt: skip


def _draw_stability(data: Sequence[Data]) -> Lines:
    steps = range(0, len(data[0]["plain"]["loss"]), len(data[0]["plain"]["loss"]) // 20)
    series = {
        arm if arm not in SHAKING else f"batch norm, {arm}": average(data, arm, "loss").numpy()
        for arm in ARMS
    }
    return Lines(
        "Batch norm with its distributions shaken at every step",
        Axis("step", tuple(str(step) for step in steps)), "training loss",
        {name: losses[list(steps)] for name, losses in series.items()},
        logarithmic=True, note=f"depth {SHAKEN_DEPTH}, gradient descent, each at its best rate",
    )  # fmt: skip


stability = Experiment(
    name="why-batch-norm",
    title="Is it the stable distributions that make batch norm help?",
    varies="no norm; batch norm; batch norm and then a random shift and scale at every step",
    measures="the mean training loss at the best rate, and how far features' means move in a step",
    claims={
        "C67": Rule(
            "Taken is the gentlest shaking whose distributions move more than the plain net's in "
            "eight of ten seeds; without one, or if batch norm does not lower the mean training "
            "loss in eight of ten, nothing is tested. Supported if the shaken net keeps, seed by "
            "seed, clearly less than half of batch norm's gain, refuted if clearly more.",
            _judge_stability,
        )
    },
    run=_stability,
    draw=_draw_stability,
    seconds=20.0,
    references=("https://arxiv.org/abs/1502.03167", "https://arxiv.org/abs/1805.11604"),
)
