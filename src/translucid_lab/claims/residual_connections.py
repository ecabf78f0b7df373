"""Depth with and without residual connections (C61); post-norm, pre-norm or no norm, with and
without warm-up (C63).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from translucid.models import Layer, TransformerConfig, build
from translucid.parts import NormName, Placement
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, FitStep, Interval, fit
from translucid_lab.claims.small_nets import Deep, mean_square, smooth_target
from translucid_lab.claims.toyland_text import next_words
from translucid_lab.engine.intervals import clearly, difference_of, mean_of, median_of, ratio_of
from translucid_lab.engine.verdict import all_hold, average, by_case, column, has_learned

ORDERS: dict[str, tuple[NormName, Placement]] = {
    "post": ("layer", "post"),
    "pre": ("layer", "pre"),
    "none": ("none", "pre"),
}
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
STARTS = (0.5, 3.0)  # factors on the layers' initial weights, at the middle rate
SETTINGS = ("no warm-up", "warm-up", "other starts")


def _order(seed: int, quick: bool) -> Data:
    """Measure the final training loss of a language model of Toyland: for each learning rate, with
    and without warm-up, and for each scale of the initial weights."""
    steps, rates = (16, RATES[1::2]) if quick else (120, RATES)
    measured: dict[str, Any] = {"rates": list(rates), "starts": list(STARTS)}
    for order in ORDERS:
        measured[order] = {
            "no warm-up": [_language(seed, order, rate, steps, 0) for rate in rates],
            "warm-up": [_language(seed, order, rate, steps, steps // 4) for rate in rates],
            "other starts": [_language(seed, order, 1e-3, steps, 0, start) for start in STARTS],
        }
    return measured


def _language(
    seed: int, order: str, most: float, steps: int, warmup: int, start: float = 1.0
) -> float:
    """Train a language model; return the mean loss over the last tenth of the steps, or the loss of
    guessing if that is smaller."""
    text = next_words(seed)
    torch.manual_seed(seed)
    norm, placement = ORDERS[order]
    net = build(TransformerConfig(
        shape="decoder", head="language", vocab=text.vocab, d_model=32, heads=4, layers=4,
        d_ff=64, dropout=0.0, norm=norm, placement=placement,
    ))  # fmt: skip
    _scale_layers(net, start)
    history = fit(net, lambda: text.loss(net), steps=steps, learning_rate=most, warmup=warmup)
    last = [step.loss for step in history[-max(steps // 10, 1) :]]
    end, guessing = float(np.mean(last)), float(np.log(text.vocab))
    return end if end < guessing else guessing  # a diverged run has learned nothing


def _scale_layers(net: nn.Module, start: float) -> None:
    with torch.no_grad():
        for layer in (module for module in net.modules() if isinstance(module, Layer)):
            for linear in (module for module in layer.modules() if isinstance(module, nn.Linear)):
                linear.weight.mul_(start)


def _over(data: Sequence[Data], order: str, setting: str) -> list[float]:
    return [float(np.mean(run[order][setting])) for run in data]


def _sensitivity(data: Sequence[Data], order: str, setting: str) -> list[float]:
    """How far apart the losses are that rates, or starts, lead to."""
    return [max(run[order][setting]) - min(run[order][setting]) for run in data]


def _judge_order(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts: list[str] = []
    # The start was varied without warm-up only.
    for case, starts in (("no warm-up", True), ("warm-up", False)):
        better = difference_of(_over(data, "post", case), _over(data, "none", case), "rank")
        spread = {"learning rates": _spread(data, case)}
        if starts:
            spread["starts"] = _spread(data, "other starts")
        cases[f"with {case}"] = all_hold((
            clearly(better.against(0.0), "below"),
            *(clearly(ratio.against(1.0), "below") for ratio in spread.values()),
        ))  # fmt: skip
        parts.append(
            f"with {case}, the loss differs by {better} nats"
            + "".join(f", its spread over {name} is {ratio} times as large"
                      for name, ratio in spread.items())
        )  # fmt: skip
    gain = {order: median_of(np.subtract(_over(data, order, "no warm-up"),
                                         _over(data, order, "warm-up")).tolist())
            for order in ORDERS}  # fmt: skip
    return by_case(
        cases, f"post-norm against no norm: {'; '.join(parts)}. Warm-up lowers the loss by "
        f"{gain['post']} with post-norm, {gain['pre']} with pre-norm, {gain['none']} with no norm",
        "warm-up",
    )  # fmt: skip


def _spread(data: Sequence[Data], setting: str) -> Interval:
    return ratio_of(_sensitivity(data, "post", setting), _sensitivity(data, "none", setting))


def _draw_order(data: Sequence[Data]) -> Lines:
    names = {"post": "norm after the sum", "pre": "norm before the block", "none": "no norm"}
    return Lines(
        "Loss after training, by learning rate",
        Axis("learning rate", tuple(f"{rate:g}" for rate in data[0]["rates"])),
        "nats for each word",
        {f"{label}, {setting}": average(data, order, setting).numpy()
         for setting in SETTINGS[:2] for order, label in names.items()},
        note="4 layers, toyland; what diverged counts as guessing",
    )  # fmt: skip


norm_order = Experiment.described("norm-order", _order, _draw_order, {"C63": _judge_order})


DEPTHS = (4, 40, 120)  # 40 blocks still learn without residual connections
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "residual": {"residual": True},
    "residual, small branches": {"residual": True},  # times 1 / sqrt(depth)
    "norm": {"norm": "layer"},
    "norm and residual": {"norm": "layer", "residual": True},
}
PAIRS = {  # without residual connections, and with them
    "nothing else": ("plain", "residual"),
    "branches scaled by 1 / √depth": ("plain", "residual, small branches"),
    "a norm in every block": ("norm", "norm and residual"),
}
HALF = 0.5  # of the loss without residual connections
LEARNS = 0.5  # of the target's variance, required at the smallest depth


def _depth(seed: int, quick: bool) -> Data:
    """For every kind of block and every depth: the final training loss at the better of two
    learning rates, and the gradient of the first block before training."""
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

    def look(step: FitStep) -> bool:
        if step.done == 1:
            slopes.append(float(first.grad.norm()) if first.grad is not None else 0.0)
        return False

    history = fit(net, lambda: mean_square(net(x), y), steps=steps, learning_rate=rate, until=look)
    end = float(np.mean([step.loss for step in history[-10:]]))
    return (end if end < 1e3 else 1e3), slopes[0]  # NaN counts as 1000


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


depth = Experiment.described("depth", _depth, _draw_depth, {"C61": _judge_depth})
