"""C76: what the feed-forward block adds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from translucid.models import TransformerConfig, build
from translucid.parts.feedforward import FeedForward
from translucid.see.pictures import Bars
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import fit
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Interval,
    Rule,
    all_hold,
    average,
    by_case,
    column,
    has_learned,
    mean_of,
    median_of,
)

MODULUS = 17
SUMS = MODULUS**2
HALF = 0.5  # of the mistakes
WIDENINGS = {1: 12, 2: 10, 8: 6}  # d_model that gives a layer about as many weights as 4 and 8 do
# name: d_model, widening, activation (None: no feed-forward block)
FEEDFORWARDS: dict[str, tuple[int, int, Any]] = {
    "none": (8, 1, None),
    "none, but wider": (14, 1, None),  # a layer of equal size
    "linear": (8, 4, "identity"),
    "ReLU": (8, 4, "relu"),
    "GELU": (8, 4, "gelu"),
    **{f"ReLU, {wide}×": (size, wide, "relu") for wide, size in WIDENINGS.items()},
}
LACKING, HAVING = tuple(FEEDFORWARDS)[:3], tuple(FEEDFORWARDS)[3:5]


def _expressive(seed: int, quick: bool) -> Data:
    """The fraction of all sums a + b mod 17 that one layer gets right after training on them."""
    names = list(FEEDFORWARDS)[:5] if quick else list(FEEDFORWARDS)
    return {"accuracy": {name: _sums(seed, name, 60 if quick else 300) for name in names}}


def _sums(seed: int, name: str, steps: int) -> float:
    torch.manual_seed(seed)
    d_model, wide, activation = FEEDFORWARDS[name]
    net = build(TransformerConfig(
        shape="encoder", head="classify", outputs=MODULUS, vocab=MODULUS, d_model=d_model, heads=2,
        layers=1, d_ff=wide * d_model, dropout=0.0, activation=activation or "relu",
    ))  # fmt: skip
    if activation is None:
        _silence(net)
    pairs = torch.cartesian_prod(torch.arange(MODULUS), torch.arange(MODULUS))
    sums = pairs.sum(dim=1) % MODULUS
    fit(net, lambda: F.cross_entropy(net(pairs), sums), steps=steps, learning_rate=3e-3)
    with torch.no_grad():
        return float((net.eval()(pairs).argmax(dim=-1) == sums).float().mean())


def _silence(net: nn.Module) -> None:
    """A feed-forward block that adds 0 for ever is none."""
    for block in (module for module in net.modules() if isinstance(module, FeedForward)):
        for weight in block.parameters():
            weight.requires_grad_(False)
            weight.zero_()


def _judge_expressive(data: Sequence[Data]) -> Finding:
    accuracies = {name: column(data, "accuracy", name) for name in data[0]["accuracy"]}
    cases: dict[str, bool | None] = {}
    parts = []
    for lacking in LACKING:
        fewer = [_mistakes_left(accuracies[having], accuracies[lacking]) for having in HAVING]
        cases[lacking] = all_hold([
            True if left.against(HALF) == "below" else False if left.against(1.0) == "above" else
            None for left in fewer
        ])  # fmt: skip
        parts.append(f"against {lacking} {fewer[0]} (ReLU) and {fewer[1]} (GELU)")
    summary = ", ".join(f"{name} {median_of(values)}" for name, values in accuracies.items())
    return by_case(
        cases, f"mistakes left with a block of four times the width: {'; '.join(parts)}; fraction "
        f"of sums right: {summary}", "what stands in the block's place",
        learned={"sums with ReLU and GELU": all(has_learned(accuracies[name], 0.9)
                                                for name in HAVING)},
    )  # fmt: skip


def _mistakes_left(having: Sequence[float], lacking: Sequence[float]) -> Interval:
    """Against those without the block, seed by seed, one more counted on both sides: an accuracy
    near 1 leaves no room for a difference, but for a ratio of mistakes."""
    pairs = zip(having, lacking, strict=True)
    return mean_of([(1 + SUMS * (1 - a)) / (1 + SUMS * (1 - b)) for a, b in pairs], "rank")


def _draw_expressive(data: Sequence[Data]) -> Bars:
    names = tuple(data[0]["accuracy"])
    return Bars(
        f"a + b mod {MODULUS} with one layer", "fraction of all sums right", names,
        np.array([float(average(data, "accuracy", name)) for name in names]),
        note="width 8, or as wide as makes layers of about equal size",
    )  # fmt: skip


feedforward = Experiment(
    name="feed-forward",
    title="What the feed-forward block adds",
    varies="no feed-forward block, none in a wider layer, a linear one, ReLU, GELU; widenings",
    measures="the fraction of all sums a + b mod 17 that one layer learns to get right",
    claims={
        "C76": Rule(
            "Holds against no block, against no block in a wider layer of equal size, and against "
            "a linear block if ReLU and GELU blocks, four times as wide, both leave clearly less "
            "than half of the mistakes, seed by seed; fails if one clearly leaves more than all of "
            "them. Not tested unless both get 0.9 of the sums right in eight of ten seeds. "
            "Supported if it holds against all three, refuted if against none, depends if against "
            "some.",
            _judge_expressive,
        )
    },
    run=_expressive,
    draw=_draw_expressive,
    seconds=10.0,
    references=("https://arxiv.org/abs/2012.14913",),
)
