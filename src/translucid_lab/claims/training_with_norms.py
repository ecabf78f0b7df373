"""Effects of norms on training: generalisation (C65, C68), initial gradients by layer (C66), and
whether stable distributions are why batch norm helps (C67).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid import NO_TRACE
from translucid.core import NoTrace
from translucid.parts import BatchNorm, NormName
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, FitStep, Interval, Verdict, fit
from translucid_lab.claims.small_nets import Deep, mean_square, smooth_target
from translucid_lab.engine.intervals import clearly, difference_of, mean_of, median_of
from translucid_lab.engine.verdict import average, by_case, column, has_learned

NORMS: tuple[NormName, ...] = ("none", "layer", "batch")
BATCHES = (8, 64, 256)  # the last: all of the training data
MOST_STEPS = 4000  # more count as not reached
MARGIN = 0.02  # nats: a smaller gain does not count
FAR = 10**0.5  # typical norm in 10 dimensions
WRONG = 0.1  # fraction of labels that are wrong


def _new_data(seed: int, quick: bool) -> Data:
    """Noisy classification: loss on new data at equal training loss, for every norm and batch
    size."""
    goal = 0.5 if quick else 0.3
    measured: dict[str, Any] = {"goal": goal}
    for norm in NORMS:
        measured[norm] = {
            "signs": [_loss_on_new(seed, "signs", norm, batch, goal) for batch in BATCHES],
            "radius": _loss_on_new(seed, "radius", norm, BATCHES[1], goal),
        }
    return measured


def _samples(
    task: str, count: int, generator: torch.Generator, teacher: Tensor
) -> tuple[Tensor, Tensor]:
    """Random points and noisy labels for a task. signs: do two projections have the same sign?
    radius: is the point far from the origin? The radius depends on the scale, which a norm
    removes."""
    x = torch.randn(count, len(teacher), generator=generator)
    right = (x @ teacher).prod(dim=1) > 0 if task == "signs" else x.norm(dim=1) > FAR
    return x, (right ^ (torch.rand(count, generator=generator) < WRONG)).long()


def _loss_on_new(seed: int, task: str, norm: NormName, batch: int, goal: float) -> float:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    teacher = torch.randn(10, 2, generator=generator)
    (x, y), (new_x, new_y) = (
        _samples(task, count, generator, teacher) for count in (BATCHES[-1], 2000)
    )
    net = Deep(inputs=10, outputs=2, width=64, depth=2, norm=norm)

    def loss() -> Tensor:
        rows = torch.randperm(len(x), generator=generator)[:batch]
        return F.cross_entropy(net(x[rows]), y[rows])

    def there(step: FitStep) -> bool:
        return step.done % 5 == 1 and _loss(net, x, y) <= goal

    history = fit(net, loss, steps=MOST_STEPS, learning_rate=3e-3, until=there)
    return _loss(net, new_x, new_y) if len(history) < MOST_STEPS else float("nan")


def _loss(net: Deep, x: Tensor, y: Tensor) -> float:
    """Loss in evaluation mode: batch norm uses its running statistics."""
    with torch.no_grad():
        loss = float(F.cross_entropy(net.eval()(x), y))
    net.train()
    return loss


def _helps(data: Sequence[Data], norm: str, *path: str | int) -> tuple[bool | None, str]:
    less = difference_of(column(data, norm, *path), column(data, "none", *path))
    return _less(less), str(less)


def _less(change: Interval) -> bool | None:
    """True: it falls; False: not by the margin."""
    if change.against(0.0) == "below":
        return True
    return False if change.against(-MARGIN) == "above" else None


def _judge_new_data(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for norm in NORMS[1:]:
        for place, batch in enumerate(BATCHES):
            cases[f"{norm} norm at batch {batch}"], less = _helps(data, norm, "signs", place)
            parts.append(f"{norm} at batch {batch} {less}")
        cases[f"{norm} norm on radius"], less = _helps(data, norm, "radius")
        parts.append(f"{norm} on radius {less}")
    return by_case(
        cases, f"loss on new data against no norm, at a training loss of {data[0]['goal']}: "
        f"{', '.join(parts)}", "the norm, the batch size and the task",
    )  # fmt: skip


def _judge_overfitting(data: Sequence[Data]) -> Finding:
    outcomes = [_helps(data, "batch", "signs", place) for place in range(len(BATCHES))]
    helps = [value for value, _ in outcomes]
    less = [np.subtract(column(data, "batch", "signs", place), column(data, "none", "signs", place))
            for place in (0, len(BATCHES) - 1)]  # fmt: skip
    grows = mean_of(list(less[0] - less[1]))
    noise = _less(grows)
    verdict: Verdict = "undecided"
    if all(value is False for value in helps):
        verdict = "refuted"
    elif all(helps) and noise is False:
        verdict = "supported"
    elif True in helps and (False in helps or noise is True):
        verdict = "depends"
    summary = ", ".join(
        f"{batch}: {value}" for batch, (_, value) in zip(BATCHES, outcomes, strict=True)
    )
    ending = "; it depends on the batch size, as noise in the statistics would" * (
        verdict == "depends")  # fmt: skip
    return Finding(
        verdict, "loss on new data with batch norm against none at the same training loss, by "
        f"batch size {summary}; from all samples to batch {BATCHES[0]} that changes by {grows}"
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


new_data = Experiment.described(
    "norm-new-data", _new_data, _draw_new_data, {"C65": _judge_new_data, "C68": _judge_overfitting}
)


# After batch norm, each feature is shifted by up to `shift` and widened by up to `scale`, at random
# in every step. The last has the sizes of Santurkar et al. 2018.
SHAKING = {"shaken gently": (0.1, 0.05), "shaken hard": (0.5, 0.25)}
ARMS = ("plain", "batch norm", *SHAKING)
SHAKEN_DEPTH = 8
SGD_RATES = (0.03, 0.1, 0.3, 0.01)


class Shaken(BatchNorm):
    """Batch norm followed by random shifts and scales."""

    def __init__(self, d_model: int, shift: float, scale: float, seed: int) -> None:
        super().__init__(d_model)
        self.most_shift, self.most_scale = shift, scale
        self.generator = torch.Generator().manual_seed(seed)

    def forward(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        shift = self.most_shift * (2 * torch.rand(x.shape[-1], generator=self.generator) - 1)
        scale = 1 + self.most_scale * torch.rand(x.shape[-1], generator=self.generator)
        return super().forward(x, mask, trace) * scale + shift


def _stability(seed: int, quick: bool) -> Data:
    """Loss by step at the best learning rate, and the drift of the activations' input distribution
    between steps."""
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

    def look(step: FitStep) -> bool:
        drifts.extend(_drift(a, b) for a, b in zip(before, seen, strict=False))
        before[:] = seen
        seen.clear()
        return False

    history = fit(net, lambda: mean_square(net(x), y), steps=steps, learning_rate=rate,
                  optimizer="sgd", until=look)  # fmt: skip
    losses = [min(step.loss, WORST) if math.isfinite(step.loss) else WORST for step in history]
    return losses, float(np.mean(drifts))


WORST = 10.0  # stands in for larger losses and NaN


def _drift(before: Tensor, after: Tensor) -> float:
    """Mean shift of the features' means between two steps, in standard deviations."""
    moved = (after.mean(dim=0) - before.mean(dim=0)).abs() / (before.std(dim=0) + 1e-6)
    return float(moved.mean().nan_to_num(WORST).clamp(max=WORST))


def _judge_stability(data: Sequence[Data]) -> Finding:
    loss = {arm: column(data, arm, "mean") for arm in ARMS}
    drift = {arm: column(data, arm, "drift") for arm in ARMS}
    gained = np.subtract(loss["plain"], loss["batch norm"])
    kept = {arm: mean_of((np.subtract(loss["plain"], loss[arm]) / gained).tolist(), "rank")
            for arm in SHAKING}  # fmt: skip
    summary = "; ".join(
        f"{arm} {median_of(loss[arm])}, moving {median_of(drift[arm]).mean:.2g}" for arm in ARMS
    )
    moves = {arm: has_learned(np.subtract(drift[arm], drift["batch norm"]).tolist(), 0.0)
             for arm in SHAKING}  # fmt: skip
    return by_case(
        {arm: clearly(interval.against(0.5), "below") for arm, interval in kept.items()},
        f"mean loss over training, and deviations that means move in a step: {summary}; of its "
        f"gain, batch norm keeps {' and '.join(f'{kept[arm]} {arm}' for arm in SHAKING)}",
        "how hard the distributions are shaken", {arm: kept[arm].mean for arm in SHAKING},
        learned=moves | {"a gain by batch norm": has_learned(gained.tolist(), 0.0)},
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


stability = Experiment.described(
    "why-batch-norm", _stability, _draw_stability, {"C67": _judge_stability}
)


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
    """Norm of the gradient at the input of each block, [gain][block], for untrained networks of
    depth 50 of every kind. The gradients of the weights are not measured: they are all alike if
    both signal and gradient shrink."""
    return {kind: [_by_layer(seed, kind, gain, 32 if quick else 128) for gain in GAINS]
            for kind in KINDS}  # fmt: skip


def _by_layer(seed: int, kind: str, gain: float, width: int) -> list[float]:
    torch.manual_seed(seed)
    norm, residual = KINDS[kind]
    net = Deep(inputs=16, outputs=1, width=width, depth=DEPTH, norm=norm, residual=residual,
               gain=gain).double()  # fmt: skip
    x, y = smooth_target(64, 16, torch.Generator().manual_seed(seed))
    entered: list[Tensor] = []
    for block in net.block_list():
        block.register_forward_pre_hook(lambda part, inputs: entered.append(inputs[0]))
    loss = mean_square(net(x.double()), y.double())
    return [float(gradient.norm()) for gradient in torch.autograd.grad(loss, entered)]


def _orders(data: Sequence[Data], kind: str, gain: int) -> list[float]:
    """Powers of ten between the first block's gradient and the last's."""
    first, last = column(data, kind, gain, 0), column(data, kind, gain, DEPTH - 1)
    return [float(np.log10(a / b)) for a, b in zip(first, last, strict=True)]


def _judge_gradients(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for kind, (norm, _) in KINDS.items():
        intervals = [mean_of(_orders(data, kind, gain)) for gain in range(len(GAINS))]
        parts.append(f"{kind} " + ", ".join(f"{interval.mean:+.2g}" for interval in intervals))
        if norm == "none":
            continue
        flat = [
            interval.against(-1) == "above" and interval.against(1) == "below"
            for interval in intervals
        ]
        steep = [
            interval.against(-1) == "below" or interval.against(1) == "above"
            for interval in intervals
        ]
        cases[kind] = False if any(steep) else True if all(flat) else None
    return by_case(
        cases, f"powers of ten from block {DEPTH} back to block 1, for weights of "
        f"{', '.join(f'{gain:g}' for gain in GAINS)} times He's start: {'; '.join(parts)}",
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


gradients_by_layer = Experiment.described(
    "gradients-by-layer", _gradients, _draw_gradients, {"C66": _judge_gradients}
)
