"""Recurrent weights that make gradients explode, with clipping and without (C22, C32), and whether
clipping helps against vanishing gradients (C31).
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from translucid import Batch, Trace
from translucid.models import RecurrentEncoder
from translucid.see import Axis, Lines
from translucid.tasks import cross_entropy
from translucid_lab import Data, Experiment, Finding, Interval
from translucid_lab.claims.long_range_recall import PLAIN, RNN_UNIFORM, made
from translucid_lab.claims.sequence_tasks import (
    NEVER_CLIP,
    Draw,
    History,
    accuracy,
    recall,
    recurrent_net,
    train,
)
from translucid_lab.engine.intervals import clearly, difference_of, fraction_of, median_of
from translucid_lab.engine.verdict import average, column, decide, not_tested

VALUES = 8
GAINS = {"gain 1": 1.0, "gain 2": 2.0}  # of orthogonal recurrent weights
CLIPS = {"not clipped": NEVER_CLIP, "clipped at 1": 1.0}
NETS = 2  # for each seed
DIVERGED = 10.0  # times the first loss
MOST = 6.0  # log10: larger losses and NaN are drawn as this


def squared_error(network: nn.Module, batch: Batch) -> Tensor:
    return (network(**batch.inputs)[:, 0] - batch.targets).square().sum()


def adding(length: int) -> Draw:
    """The task of adding the two marked values of a text, one in each half. Ids from VALUES on are
    marked values."""

    def draw(generator: torch.Generator, rows: int) -> Batch:
        ids = torch.randint(VALUES, (rows, length), generator=generator)
        places = torch.randint(length // 2, (rows, 2), generator=generator)
        places = places + torch.tensor([0, length - length // 2])
        sums = ids.gather(1, places).sum(dim=1) / VALUES
        return Batch({"ids": ids.scatter_add(1, places, torch.full((rows, 2), VALUES))}, sums, rows)

    return draw


def _explosion(seed: int, quick: bool) -> Data:
    """Train networks with small and with large recurrent weights on the adding task by gradient
    descent, with clipping and without. Measure log10 of the first gradient's norm, how many runs
    diverged, and log10 of the loss at each step."""
    length, steps = (30, 15) if quick else (40, 100)
    measured: dict[str, Any] = {"steps": steps, "runs": NETS}
    for gain, size in GAINS.items():
        measured[gain] = {}
        for label, clip in CLIPS.items():
            runs = [_descend(NETS * seed + at, size, clip, length, steps) for at in range(NETS)]
            measured[gain][label] = {
                "norm": float(np.mean([math.log10(run.norms[0]) for run in runs])),
                "diverged": sum(diverged(run) for run in runs),
                "losses": np.mean([_drawn(run, steps) for run in runs], axis=0).tolist(),
            }
    return measured


def _descend(seed: int, gain: float, clip: float, length: int, steps: int) -> History:
    net = recurrent_net(seed, "rnn", vocab=2 * VALUES, outputs=1)
    with torch.no_grad():
        cast(RecurrentEncoder, net.encoder).recurrent.weights(0, "forward")[1].mul_(gain)
    return train(net, adding(length), seed=seed, steps=steps, rate=0.1, clip=clip,
                 optimizer="sgd", loss=squared_error)  # fmt: skip


def diverged(run: History) -> bool:
    """Whether the loss reached ten times its first value, or became NaN."""
    return run.broke or not all(loss <= DIVERGED * run.losses[0] for loss in run.losses)


def _drawn(run: History, steps: int) -> list[float]:
    losses = [*run.losses, *[math.inf] * (steps - run.steps)]
    return [min(math.log10(loss), MOST) if loss < math.inf else MOST for loss in losses]


def _fraction(data: Sequence[Data], gain: str, clip: str) -> Interval:
    runs = sum(int(run["runs"]) for run in data)
    return fraction_of(int(sum(column(data, gain, clip, "diverged"))), runs)


def _judge_explosion(data: Sequence[Data]) -> Finding:
    norms = {gain: column(data, gain, "not clipped", "norm") for gain in GAINS}
    longer = difference_of(norms["gain 2"], norms["gain 1"])
    large, small = (_fraction(data, gain, "not clipped") for gain in ("gain 2", "gain 1"))
    return decide(
        {
            "the gradient is more than ten times as long": clearly(longer.against(1.0), "above"),
            "most runs with large weights diverge": clearly(large.against(0.5), "above"),
            "most with small ones do not": clearly(small.against(0.5), "below"),
        },
        f"with recurrent weights of gain 2 the first gradient is 10^{longer} times as long as with "
        f"gain 1; {large} of the runs diverge, and {small} with gain 1",
        {"longer": longer.mean, "large": large.mean, "small": small.mean},
    )


def _judge_clipping(data: Sequence[Data]) -> Finding:
    without, clipped = (_fraction(data, "gain 2", clip) for clip in CLIPS)
    why = f"fraction of runs that diverge: {without} without clipping, {clipped} with it"
    if without.against(0.5) != "above":
        return not_tested(why, ["without clipping, most runs that diverge"])
    return decide(
        {"most clipped runs do not": clearly(clipped.against(0.5), "below")}, why,
        {"without": without.mean, "clipped": clipped.mean},
    )  # fmt: skip


def _draw_explosion(data: Sequence[Data]) -> Lines:
    steps = data[0]["steps"]
    shown = list(range(0, steps, max(steps // 12, 1)))
    return Lines(
        "Loss by step with exploding gradients", Axis("step", tuple(map(str, shown))),
        "training loss",
        {f"{gain}, {clip}": 10.0 ** average(data, gain, clip, "losses").numpy()[shown]
         for gain in reversed(GAINS) for clip in CLIPS},
        logarithmic=True, note=f"mean of the logarithms; above 10^{MOST:.0f} as that",
    )  # fmt: skip


explosion = Experiment.described(
    "exploding-gradients",
    _explosion,
    _draw_explosion,
    {"C22": _judge_explosion, "C32": _judge_clipping},
)


LENGTH = 40  # symbols: an RNN with torch's initialisation rarely learns to recall the first of 40
THRESHOLDS = {"not clipped": NEVER_CLIP, "clipped at 1": 1.0, "clipped at 0.1": 0.1}
LENGTHS = tuple(10.0**power for power in range(-8, 5))  # of gradients
ROUNDING = 1e-6


def _vanishing(seed: int, quick: bool) -> Data:
    """Train an RNN that forgets, with clipping and without. Measure the accuracy, the fraction of
    steps that were clipped and, after training, log10 of the gradient that reaches each symbol,
    starting with the last symbol."""
    measured = {label: _trained(seed, clip, 60 if quick else 800)
                for label, clip in THRESHOLDS.items()}  # fmt: skip
    return {**measured, "factors": _factors(seed)}


def _factors(seed: int) -> dict[str, list[float]]:
    """The factors by which clipping at 1 multiplies random gradients of many norms."""
    generator = torch.Generator().manual_seed(seed)
    factors: dict[str, list[float]] = {"lengths": list(LENGTHS), "factor": []}
    for length in LENGTHS:
        weight = nn.Parameter(torch.zeros(50, dtype=torch.float64))
        way = torch.randn(50, generator=generator, dtype=torch.float64)
        weight.grad = length * way / way.norm()
        nn.utils.clip_grad_norm_([weight], 1.0)
        factors["factor"].append(float(weight.grad.norm()) / length)
    return factors


def _trained(seed: int, clip: float, steps: int) -> dict[str, Any]:
    net = made(seed, PLAIN[RNN_UNIFORM])
    history = train(net, recall(LENGTH), seed=seed, steps=steps, clip=clip)
    return {
        "accuracy": accuracy(net, recall(LENGTH), seed),
        "fired": float(np.mean(np.array(history.norms) > clip)),
        "reach": _reach(net, seed),
    }


def _reach(net: nn.Module, seed: int) -> list[float]:
    """log10 of the mean norm of the gradient with respect to each symbol's vector."""
    batch = recall(LENGTH)(torch.Generator().manual_seed(seed), 64)
    trace = Trace("encoder.embedding.lookup")
    loss = cross_entropy(net.double()(batch.inputs["ids"], trace=trace), batch.targets)
    (slopes,) = torch.autograd.grad(loss, trace["encoder.embedding.lookup"])
    sizes: list[float] = slopes.norm(dim=-1).mean(dim=0).flip(0).log10().tolist()
    return sizes


def _judge_vanishing(data: Sequence[Data]) -> Finding:
    factors = [(length, factor) for run in data
               for length, factor in zip(run["factors"]["lengths"], run["factors"]["factor"],
                                         strict=True)]  # fmt: skip
    largest = max(factor for _, factor in factors)
    small = [abs(factor - 1) for length, factor in factors if length <= 1]
    parts = []
    for name in THRESHOLDS:
        recalled = median_of(column(data, name, "accuracy"))
        parts.append(f"{name} {recalled}")
    return decide(
        {"some gradient is longer afterwards": largest > 1 + ROUNDING},
        f"clipping multiplies a gradient by min(1, c / its length), which is never more than 1: at "
        f"most {largest:.6g} over lengths from {LENGTHS[0]:.0e} to {LENGTHS[-1]:.0e}, and "
        f"gradients shorter than c stay as they are (within {max(small):.0e}). As an illustration, "
        f"an RNN that forgets recalls the first of {LENGTH} symbols, {', '.join(parts)}",
        {"largest": largest},
    )


def _draw_vanishing(data: Sequence[Data]) -> Lines:
    return Lines(
        "The gradient that reaches each symbol, with clipping and without",
        Axis("steps back", tuple(map(str, range(LENGTH)))), "norm, after training",
        {name: 10.0 ** average(data, name, "reach").numpy() for name in THRESHOLDS},
        logarithmic=True, note=f"an RNN that is to recall the first of {LENGTH} symbols",
    )  # fmt: skip


clipping_and_vanishing = Experiment.described(
    "clipping-and-vanishing", _vanishing, _draw_vanishing, {"C31": _judge_vanishing}
)
