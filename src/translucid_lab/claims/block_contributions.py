"""Removing one block of a trained network (C62), and feed-forward blocks (C76)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.models import TransformerConfig, build
from translucid.parts import FeedForward
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding, Interval, fit
from translucid_lab.claims.attention_tasks import silent
from translucid_lab.claims.small_nets import Deep, mean_square, smooth_target
from translucid_lab.engine.intervals import clearly, mean_of, median_of
from translucid_lab.engine.verdict import all_hold, average, by_case, column, has_learned

MODULUS = 17
SUMS = MODULUS**2
HALF = 0.5  # of the mistakes
WIDENINGS = {1: 12, 2: 10, 8: 6}  # d_model for about as many weights as widening 4 at d_model 8
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
    """Training accuracy on all sums a + b mod 17, for networks with one layer."""
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
        silent(net, FeedForward)
    pairs = torch.cartesian_prod(torch.arange(MODULUS), torch.arange(MODULUS))
    sums = pairs.sum(dim=1) % MODULUS
    fit(net, lambda: F.cross_entropy(net(pairs), sums), steps=steps, learning_rate=3e-3)
    with torch.no_grad():
        return float((net.eval()(pairs).argmax(dim=-1) == sums).float().mean())


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


feedforward = Experiment.described(
    "feed-forward", _expressive, _draw_expressive, {"C76": _judge_expressive}
)


DEPTHS = (12, 36)  # blocks: about as many as needed, and more
NETS = ("residual", "residual, small branches", "plain")


def _deletion(seed: int, quick: bool) -> Data:
    """Train networks of 12 and 36 blocks with layer norm, then remove one block at a time. Return
    the increase of the loss as a fraction of the target's variance; 1 is the loss of predicting the
    mean."""
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


deletion = Experiment.described(
    "leaving-out-blocks", _deletion, _draw_deletion, {"C62": _judge_deletion}
)
