"""C63: post-norm, pre-norm or no norm; with and without warm-up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from translucid.lab.claims.shared.toyland_text import next_words
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.fit import fit
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    Verdict,
    average,
    clearly,
    difference_of,
    mean_of,
)
from translucid.models import TransformerConfig, build
from translucid.models.transformer import Layer
from translucid.parts.norms import NormName
from translucid.parts.residual import Placement
from translucid.see.picture_data import Axis
from translucid.see.pictures import Lines

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


def _judge_order(data: Sequence[Data]) -> Finding:
    better = {setting: difference_of(_over(data, "post", setting), _over(data, "none", setting))
              for setting in SETTINGS}  # fmt: skip
    wins = {
        setting: clearly(interval.against(0.0), "below") for setting, interval in better.items()
    }
    gain = {order: np.subtract(_over(data, order, "no warm-up"), _over(data, order, "warm-up"))
            for order in ORDERS}  # fmt: skip
    more = difference_of(gain["post"].tolist(), gain["pre"].tolist())
    needs = clearly(more.against(NEED), "above")
    verdict: Verdict = "undecided"
    if all(value is False for value in wins.values()):
        verdict = "refuted"
    elif all(wins.values()) and needs is False:
        verdict = "supported"
    elif True in wins.values() and (False in wins.values() or needs is True):
        verdict = "depends"
    why = (
        "loss of post-norm less that of no norm: "
        + ", ".join(f"{setting} {value}" for setting, value in better.items())
        + f"; warm-up gains post-norm {mean_of(gain['post'].tolist())} and pre-norm "
        f"{mean_of(gain['pre'].tolist())}, {more} more"
    )
    if verdict == "depends":
        lost = [setting for setting, won in wins.items() if won is False]
        on = ["on warm-up, which pre-norm needs less"] if needs else []
        on += [f"on the setting, for it loses with {' and '.join(lost)}"] if lost else []
        why += f"; it depends {' and '.join(on)}"
    return Finding(verdict, why, {"needs": more.mean})


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
            "Post-norm wins in a setting (rates without warm-up, rates with it, other starts) if "
            "its mean loss is clearly below that without norms. Refuted if it clearly loses in all "
            "three. Supported if it wins in all, and warm-up does not gain it 0.05 nats more than "
            "pre-norm. Depends if it wins in some and loses in others, or wins but needs warm-up "
            "by 0.05 nats more than pre-norm does.",
            _judge_order,
        )
    },
    run=_order,
    draw=_draw_order,
    seconds=50.0,
    references=("https://arxiv.org/abs/2002.04745", "https://arxiv.org/abs/2004.08249"),
)
