"""C31: does clipping help against vanishing?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from translucid.lab.claims.recurrent.cells import PLAIN, RNN_UNIFORM, made
from translucid.lab.claims.shared.sequence_tasks import NEVER_CLIP, accuracy, recall, train
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    by_case,
    column,
    difference_of,
    mean_of,
)
from translucid.see.picture_data import Axis
from translucid.see.pictures import Lines
from translucid.tasks.batch import cross_entropy
from translucid.trace import Trace

LENGTH = 40  # symbols, over which an RNN with torch's start rarely learns to recall; over 20 it may
THRESHOLDS = {"not clipped": NEVER_CLIP, "clipped at 1": 1.0, "clipped at 0.1": 0.1}
TENFOLD = 1.0  # log10
MARGIN = 0.05  # of accuracy


def _vanishing(seed: int, quick: bool) -> Data:
    """An RNN that forgets, trained with clipping and without: accuracy, the fraction of steps that
    were clipped, and log10 of the gradient that reaches each symbol afterwards, last one first."""
    return {label: _trained(seed, clip, 60 if quick else 800) for label, clip in THRESHOLDS.items()}


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
    plain = mean_of(column(data, "not clipped", "accuracy"))
    cases: dict[str, bool | None] = {}
    parts = [f"without clipping an RNN recalls {plain} over {LENGTH} symbols"]
    for name in list(THRESHOLDS)[1:]:
        more, longer = (
            difference_of(column(data, name, *path), column(data, "not clipped", *path))
            for path in (("accuracy",), ("reach", LENGTH - 1))
        )
        fired = mean_of(column(data, name, "fired"))
        parts.append(f"{name} ({fired.mean:.0%} of the steps): accuracy by {more}, gradient at the "
                    f"first symbol by 10^{longer}")  # fmt: skip
        helps = more.against(MARGIN), longer.against(TENFOLD)
        cases[name] = True if "above" in helps else None if "across" in helps else False
    if plain.against(0.5) != "below":
        return Finding("undecided", f"{'; '.join(parts)} (it must clearly fail without clipping, "
                       "else there is nothing to mitigate)")  # fmt: skip
    return by_case(cases, "; ".join(parts), "where gradients are clipped")


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
            f"Without clipping, recall of the first of {LENGTH} symbols must be clearly below "
            "0.5, else there is nothing to mitigate and nothing is decided. Clipping at 1 or "
            "at 0.1 helps if it raises accuracy clearly by more than 0.05, or the gradient at"
            " the first symbol clearly more than tenfold; it does not if both are clearly "
            "less. Supported if both help, refuted if neither, depends (on the length) if one"
            " does.",
            _judge_vanishing,
        )
    },
    run=_vanishing,
    draw=_draw_vanishing,
    seconds=15.0,
    seeds=40,
    references=("https://arxiv.org/abs/1211.5063",),
)
