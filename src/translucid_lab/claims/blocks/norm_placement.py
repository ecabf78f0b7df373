"""C63: post-norm, pre-norm or no norm; with and without warm-up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from translucid.models import TransformerConfig, build
from translucid.models.transformer import Layer
from translucid.parts.norms import NormName, Placement
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.toyland_text import next_words
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import fit
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    by_case,
    clearly,
    difference_of,
    mean_of,
)

ORDERS: dict[str, tuple[NormName, Placement]] = {
    "post": ("layer", "post"),
    "pre": ("layer", "pre"),
    "none": ("none", "pre"),
}
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
STARTS = (0.5, 3.0)  # times the usual first weights of the layers, at the middle rate
SETTINGS = ("no warm-up", "warm-up", "other starts")
NEED = 0.05  # nats


def _order(seed: int, quick: bool) -> Data:
    """The loss at the end of training a language model on toyland: [rate] with and without
    warm-up, and [start]."""
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
    """The mean loss of the last tenth of training, at most that of guessing."""
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
    return end if end < guessing else guessing  # what diverged has learned nothing


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
    better = {f"lower loss, {setting}": difference_of(_over(data, "post", setting),
                                                      _over(data, "none", setting))
              for setting in SETTINGS}  # fmt: skip
    better |= {f"less sensitive to {name}": difference_of(_sensitivity(data, "post", setting),
                                                          _sensitivity(data, "none", setting))
               for name, setting in (("the rate", SETTINGS[0]),
                                     ("the start", SETTINGS[2]))}  # fmt: skip
    cases = {case: clearly(interval.against(0.0), "below") for case, interval in better.items()}
    gain = {order: np.subtract(_over(data, order, "no warm-up"), _over(data, order, "warm-up"))
            for order in ORDERS}  # fmt: skip
    more = difference_of(gain["post"].tolist(), gain["pre"].tolist())
    cases["no more warm-up than pre-norm"] = clearly(more.against(NEED), "below")
    return by_case(
        cases, "post-norm less no norm: "
        + ", ".join(f"{case} {value}" for case, value in better.items())
        + f"; warm-up gains post-norm {mean_of(gain['post'].tolist())} and pre-norm "
        f"{mean_of(gain['pre'].tolist())}, {more} more",
        "what is asked: the loss, how much rate and start matter, or warm-up", {"needs": more.mean},
    )  # fmt: skip


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


norm_order = Experiment(
    name="norm-order",
    title="Norm after the sum, before the block, or none, over learning rates",
    varies="where layer norm stands; the learning rate; warm-up; the scale of the first weights",
    measures="the loss at the end of training a 4-layer language model on toyland",
    claims={
        "C63": Rule(
            "Six things, against the same net without norms, after equal steps. Stable and fast: "
            "the mean loss over learning rates is clearly lower, without warm-up, with it, and "
            "with weights that start smaller and larger. Less sensitive: the losses of different "
            "rates, and of different starts, lie clearly less far apart. And warm-up gains "
            "post-norm clearly less than 0.05 nats more than it gains pre-norm. Each fails if "
            "clearly otherwise. Supported if all hold, refuted if none, depends if some.",
            _judge_order,
        )
    },
    run=_order,
    draw=_draw_order,
    seconds=50.0,
    references=("https://arxiv.org/abs/2002.04745", "https://arxiv.org/abs/2004.08249"),
)
