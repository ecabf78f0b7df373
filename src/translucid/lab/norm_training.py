"""Norms in training: gradients by depth, new data, overfitting, and why batch norm helps."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.lab.deep import Deep, average, by_case, mean_square, smooth_target
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.fit import Step, fit
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    Verdict,
    clearly,
    column,
    decide,
    difference_of,
    mean_of,
    ratio_of,
)
from translucid.parts.norms import BatchNorm, NormName
from translucid.see.pictures import Axis, Lines
from translucid.trace import NO_TRACE, NoTrace

# ---- C66: gradients by layer, at the start ----

DEPTH = 50
SHOWN = range(0, DEPTH, 7)  # places in the picture, the first and the last among them
GAINS = (0.5, 1.0, 2.0)  # times He's start
KINDS: dict[str, tuple[NormName, bool]] = {
    "plain": ("none", False),
    "layer norm": ("layer", False),
    "batch norm": ("batch", False),
    "residual": ("none", True),
    "residual, layer norm": ("layer", True),
    "residual, batch norm": ("batch", True),
}


def _gradients(seed: int, quick: bool) -> Data:
    """The norm of the gradient of what enters each block, in nets of depth 50 that learned nothing
    yet: [gain][block] for every kind. Not of the weights: where a signal shrinks on its way forward
    and the gradient on its way back, their gradients are all alike, and all too small."""
    return {kind: [_by_layer(seed, kind, gain, 32 if quick else 128) for gain in GAINS]
            for kind in KINDS}  # fmt: skip


def _by_layer(seed: int, kind: str, gain: float, width: int) -> list[float]:
    torch.manual_seed(seed)
    norm, residual = KINDS[kind]
    net = Deep(inputs=16, outputs=1, width=width, depth=DEPTH, norm=norm, residual=residual,
               gain=gain).double()  # fmt: skip
    x, y = smooth_target(64, 16, torch.Generator().manual_seed(seed))
    entered: list[Tensor] = []
    for block in net.each():
        block.register_forward_pre_hook(lambda part, given: entered.append(given[0]))
    loss = mean_square(net(x.double()), y.double())
    return [float(each.norm()) for each in torch.autograd.grad(loss, entered)]


def _orders(data: Sequence[Data], kind: str, gain: int) -> list[float]:
    """Powers of ten between the first block's gradient and the last's."""
    first, last = column(data, kind, gain, 0), column(data, kind, gain, DEPTH - 1)
    return [float(np.log10(a / b)) for a, b in zip(first, last, strict=True)]


def _judge_gradients(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    said = []
    for kind, (norm, _) in KINDS.items():
        found = [mean_of(_orders(data, kind, gain)) for gain in range(len(GAINS))]
        said.append(f"{kind} " + ", ".join(f"{each.mean:+.2g}" for each in found))
        if norm == "none":
            continue
        flat = [each.against(-1) == "above" and each.against(1) == "below" for each in found]
        steep = [each.against(-1) == "below" or each.against(1) == "above" for each in found]
        cases[kind] = False if any(steep) else True if all(flat) else None
    return by_case(
        cases, f"powers of ten from block {DEPTH} back to block 1, for weights of "
        f"{', '.join(f'{gain:g}' for gain in GAINS)} times He's start: {'; '.join(said)}",
        "which norm it is, and on whether there are residual connections",
    )  # fmt: skip


def _draw_gradients(data: Sequence[Data]) -> Lines:
    middle = GAINS.index(1.0)
    return Lines(
        f"Gradient by layer in nets of depth {DEPTH}, before training",
        Axis("block", tuple(str(at + 1) for at in SHOWN)), "norm of the gradient there",
        {kind: average(data, kind, middle).numpy()[list(SHOWN)] for kind in KINDS},
        logarithmic=True, note="ReLU, He's start",
    )  # fmt: skip


gradients_by_layer = Experiment(
    name="gradients-by-layer",
    title="Gradient by layer at depth 50, with norms and residuals and without",
    varies="the norm, residual connections, the scale of the first weights",
    measures="the norm of the gradient of what enters every block, before training",
    claims={
        "C66": Rule(
            "Holds for a normalised net if, at every scale of the weights, the gradients at the "
            "first and the last of 50 blocks are within a factor of 10; fails if at one scale "
            "clearly not. Supported if it holds for layer norm and batch norm with and without "
            "residuals, refuted if for none, depends if for some.",
            _judge_gradients,
        )
    },
    run=_gradients,
    draw=_draw_gradients,
    seconds=4.0,
    references=("https://arxiv.org/abs/1902.08129",),
)

# ---- C65, C68: new data, and overfitting ----

NORMS: tuple[NormName, ...] = ("none", "layer", "batch")
BATCHES = (8, 64, 256)  # the last: all of the training data
MOST_STEPS = 4000  # a net that needs more has no number
MARGIN = 0.02  # nats: less than this is no help
FAR = 10**0.5  # a common distance from the middle in 10 dimensions
WRONG = 0.1  # share of labels that are wrong


def _new_data(seed: int, quick: bool) -> Data:
    """A noisy classification: the loss on new data when the loss on the training data has come
    down to the same value, for every norm and batch size."""
    goal = 0.5 if quick else 0.3
    found: dict[str, Any] = {"goal": goal}
    for norm in NORMS:
        found[norm] = {
            "signs": [_loss_on_new(seed, "signs", norm, batch, goal) for batch in BATCHES],
            "radius": _loss_on_new(seed, "radius", norm, BATCHES[1], goal),
        }
    return found


def _samples(
    task: str, count: int, chance: torch.Generator, teacher: Tensor
) -> tuple[Tensor, Tensor]:
    """signs: do two directions have the same sign? radius: is the point far out? That is told by
    the scale, which a norm takes away."""
    x = torch.randn(count, len(teacher), generator=chance)
    right = (x @ teacher).prod(dim=1) > 0 if task == "signs" else x.norm(dim=1) > FAR
    return x, (right ^ (torch.rand(count, generator=chance) < WRONG)).long()


def _loss_on_new(seed: int, task: str, norm: NormName, batch: int, goal: float) -> float:
    torch.manual_seed(seed)
    chance = torch.Generator().manual_seed(seed)
    teacher = torch.randn(10, 2, generator=chance)
    (x, y), (new_x, new_y) = (
        _samples(task, count, chance, teacher) for count in (BATCHES[-1], 2000)
    )
    net = Deep(inputs=10, outputs=2, width=64, depth=2, norm=norm)

    def loss() -> Tensor:
        rows = torch.randperm(len(x), generator=chance)[:batch]
        return F.cross_entropy(net(x[rows]), y[rows])

    def there(step: Step) -> bool:
        return step.done % 5 == 1 and _loss(net, x, y) <= goal

    history = fit(net, loss, steps=MOST_STEPS, learning_rate=3e-3, until=there)
    return _loss(net, new_x, new_y) if len(history) < MOST_STEPS else float("nan")


def _loss(net: Deep, x: Tensor, y: Tensor) -> float:
    """As the net is used: batch norm takes its running statistics."""
    with torch.no_grad():
        found = float(F.cross_entropy(net.eval()(x), y))
    net.train()
    return found


def _helps(data: Sequence[Data], norm: str, *path: str | int) -> tuple[bool | None, str]:
    less = difference_of(column(data, norm, *path), column(data, "none", *path))
    found = True if less.high < 0 else False if less.low > -MARGIN else None
    return found, str(less)


def _judge_new_data(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    said = []
    for norm in NORMS[1:]:
        for place, batch in enumerate(BATCHES):
            cases[f"{norm} norm at batch {batch}"], less = _helps(data, norm, "signs", place)
            said.append(f"{norm} at batch {batch} {less}")
        cases[f"{norm} norm on radius"], less = _helps(data, norm, "radius")
        said.append(f"{norm} on radius {less}")
    return by_case(
        cases, f"loss on new data against no norm, at a training loss of {data[0]['goal']}: "
        f"{', '.join(said)}", "the norm, the batch size and the task",
    )  # fmt: skip


def _judge_overfitting(data: Sequence[Data]) -> Finding:
    found = [_helps(data, "batch", "signs", place) for place in range(len(BATCHES))]
    helps = [each for each, _ in found]
    less = [np.subtract(column(data, "batch", "signs", place), column(data, "none", "signs", place))
            for place in (0, len(BATCHES) - 1)]  # fmt: skip
    grows = mean_of(list(less[0] - less[1]))
    noise = True if grows.high < 0 else False if grows.low > -MARGIN else None
    verdict: Verdict = "undecided"
    if all(each is False for each in helps):
        verdict = "refuted"
    elif all(helps) and noise is False:
        verdict = "supported"
    elif True in helps and (False in helps or noise is True):
        verdict = "depends"
    said = ", ".join(f"{batch}: {each}" for batch, (_, each) in zip(BATCHES, found, strict=True))
    ending = "; it depends on the batch size, as noise in the statistics would" * (
        verdict == "depends")  # fmt: skip
    return Finding(
        verdict, "loss on new data with batch norm against none at the same training loss, by "
        f"batch size {said}; from all samples to batch {BATCHES[0]} that changes by {grows}"
        f"{ending}", {"grows": grows.mean},
    )  # fmt: skip


def _draw_new_data(data: Sequence[Data]) -> Lines:
    return Lines(
        "Loss on new data at the same training loss", Axis("batch size", tuple(map(str, BATCHES))),
        "cross-entropy on new data",
        {f"{norm} norm" if norm != "none" else "no norm": average(data, norm, "signs").numpy()
         for norm in NORMS},
        note=f"read when the training loss has come down to {data[0]['goal']}; "
        f"{WRONG:.0%} of the labels are wrong",
    )  # fmt: skip


new_data = Experiment(
    name="norm-new-data",
    title="Norms and new data, by batch size",
    varies="the norm; the batch size, from 8 to all samples; what is to be learned",
    measures="the loss on new data when the training loss has come down to the same value",
    claims={
        "C65": Rule(
            "Holds for a norm, a batch size and a task if the loss on new data, at equal training "
            "loss, is clearly lower than without a norm; fails if it is clearly not lower by 0.02. "
            "Supported if it holds in every case, refuted if in none, depends if in some.",
            _judge_new_data,
        ),
        "C68": Rule(
            "Refuted if batch norm lowers the loss on new data, at equal training loss, at no "
            "batch size. Supported if it does at all of them, and not by 0.02 more with small "
            "batches: smoothing would work for every batch. Depends (on the batch's noise) if it "
            "does at some only, or clearly more with small batches.",
            _judge_overfitting,
        ),
    },
    run=_new_data,
    draw=_draw_new_data,
    seconds=20.0,
    references=("https://arxiv.org/abs/1809.00846", "https://arxiv.org/abs/1802.06455"),
)

# ---- C67: is it the stable distributions? ----

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
        self.chance = torch.Generator().manual_seed(seed)

    def forward(self, x: Tensor, real: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        shift = self.most_shift * (2 * torch.rand(x.shape[-1], generator=self.chance) - 1)
        scale = 1 + self.most_scale * torch.rand(x.shape[-1], generator=self.chance)
        return super().forward(x, real, trace) * scale + shift


def _stability(seed: int, quick: bool) -> Data:
    """Loss by step at the best of the rates, and by how much the distribution of what enters the
    activations moves from one step to the next."""
    steps, rates = (40, SGD_RATES[:2]) if quick else (200, SGD_RATES)
    found: dict[str, Any] = {}
    for arm in ARMS:
        runs = [_descend(seed, arm, rate, steps) for rate in rates]
        losses, drift = min(runs, key=lambda run: float(np.mean(run[0])))
        found[arm] = {"loss": losses, "mean": float(np.mean(losses)), "drift": drift}
    return found


def _descend(seed: int, arm: str, rate: float, steps: int) -> tuple[list[float], float]:
    torch.manual_seed(seed)
    x, y = smooth_target(256, 8, torch.Generator().manual_seed(seed))
    net = Deep(inputs=8, outputs=1, width=32, depth=SHAKEN_DEPTH,
               norm="none" if arm == "plain" else "batch")  # fmt: skip
    seen: list[Tensor] = []
    for at, block in enumerate(net.each()):
        if arm in SHAKING:
            block.frame.norm = Shaken(32, *SHAKING[arm], seed=1000 * seed + at)
        block.frame.norm.register_forward_hook(lambda part, given, made: seen.append(made.detach()))
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
    said = "; ".join(
        f"{arm} {mean_of(loss[arm])}, moving {mean_of(drift[arm]).mean:.2g}" for arm in ARMS
    )
    why = f"mean loss over training, and deviations that means move in a step: {said}"
    gained = difference_of(loss["plain"], loss["batch norm"])
    moving = [arm for arm in SHAKING
              if difference_of(drift[arm], drift["plain"]).against(0.0) == "above"]  # fmt: skip
    if gained.against(0.0) != "above" or not moving:
        return Finding("undecided", f"{why} (batch norm must be faster than the plain net, and a "
                       "shaken one less stable, before one can ask why)")  # fmt: skip
    arm = moving[0]
    kept = ratio_of(
        np.subtract(loss["plain"], loss[arm]).tolist(),
        np.subtract(loss["plain"], loss["batch norm"]).tolist(),
    )
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
            "Taken is the gentlest shaking whose distributions move clearly more than the plain "
            "net's; without one, or if batch norm does not clearly lower the mean training loss, "
            "nothing is decided. Supported if the shaken net keeps clearly less than half of batch "
            "norm's gain, refuted if clearly more.",
            _judge_stability,
        )
    },
    run=_stability,
    draw=_draw_stability,
    seconds=20.0,
    references=("https://arxiv.org/abs/1502.03167", "https://arxiv.org/abs/1805.11604"),
)
