"""C31: does clipping help against vanishing?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from translucid.core.trace import Trace
from translucid.see.pictures import Axis, Lines
from translucid.tasks.loss import cross_entropy
from translucid_lab.claims.recurrent.cells import PLAIN, RNN_UNIFORM, made
from translucid_lab.claims.shared.sequence_tasks import NEVER_CLIP, accuracy, recall, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    column,
    decide,
    median_of,
)

LENGTH = 40  # symbols, over which an RNN with torch's start rarely learns to recall; over 20 it may
THRESHOLDS = {"not clipped": NEVER_CLIP, "clipped at 1": 1.0, "clipped at 0.1": 0.1}
LENGTHS = tuple(10.0**power for power in range(-8, 5))  # of gradients
ROUNDING = 1e-6


def _vanishing(seed: int, quick: bool) -> Data:
    """An RNN that forgets, trained with clipping and without: accuracy, the fraction of steps that
    were clipped, and log10 of the gradient that reaches each symbol afterwards, last one first."""
    measured = {label: _trained(seed, clip, 60 if quick else 800)
                for label, clip in THRESHOLDS.items()}  # fmt: skip
    return {**measured, "factors": _factors(seed)}


def _factors(seed: int) -> dict[str, list[float]]:
    """By what clipping at 1 multiplies random gradients of very small to very large lengths."""
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
    """log10 of the mean length of the gradient with respect to each symbol's vector."""
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


clipping_and_vanishing = Experiment(
    name="clipping-and-vanishing",
    title="Clipping, where gradients vanish",
    varies="the length at which gradients are clipped",
    measures="accuracy of recall, and the gradient that reaches the first symbol after training",
    claims={
        "C31": Rule(
            "By its definition clipping multiplies a gradient by min(1, c / length): an identity, "
            "asked of the library's own clipping with gradients of 1e-8 to 1e4. Supported if one "
            "is longer after it, refuted if none is. What training does with clipping and without "
            "is shown as an illustration, and decides nothing.",
            _judge_vanishing,
            label="identity",
        )
    },
    run=_vanishing,
    draw=_draw_vanishing,
    seconds=15.0,
    references=("https://arxiv.org/abs/1211.5063",),
)
