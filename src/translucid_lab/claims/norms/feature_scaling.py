"""C64: features on one scale, or not."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from translucid.models.mlp import MLP, MLPConfig
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.deep_net import mean_square
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import fit
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    mean_of,
    ratio_of,
)

SCALES = (1, 3, 10, 30)
RATES = tuple(float(rate) for rate in np.logspace(0, -4, 17))  # from the boldest down
PATIENCE = 20_000  # steps
GOAL = 0.001


def _scales(seed: int, quick: bool) -> Data:
    """Gradient descent on a line in two features, one of them `scale` times as wide: steps of the
    best rate until the error is small, with inputs as they are and standardised."""
    scales = SCALES[:3] if quick else SCALES
    rates = RATES[::2] if quick else RATES
    measured: dict[str, list[float]] = {"scales": [float(scale) for scale in scales]}
    for name in ("raw", "standardised"):
        measured[name] = []
        for scale in scales:
            generator = torch.Generator().manual_seed(seed)
            x = torch.randn(256, 2, generator=generator)
            y = x @ torch.randn(2, 1, generator=generator)  # of the features before they are scaled
            x = x * torch.tensor([1.0, float(scale)])
            measured[name].append(_best(x, y, rates, standardise=name != "raw"))
    return measured


def _best(x: Tensor, y: Tensor, rates: Sequence[float], *, standardise: bool) -> float:
    """Steps at the best rate; below it, lower rates only take longer."""
    best = PATIENCE
    for rate in rates:
        steps = _steps(x, y, rate, best, standardise=standardise)
        if steps == best < PATIENCE:
            break
        best = steps
    return float(best)


def _steps(x: Tensor, y: Tensor, rate: float, most: int, *, standardise: bool) -> int:
    """Steps until the mean squared error is at the goal; `most` if not by then."""
    net = MLP(MLPConfig(inputs=2, hidden=(), standardise=standardise))
    nn.init.zeros_(net.output.linear.weight)
    if net.standardise is not None:
        net.standardise.fit(x)
    history = fit(
        net, lambda: mean_square(net(x), y), steps=most, learning_rate=rate, optimizer="sgd",
        until=lambda step: step.loss <= GOAL or not step.loss < 1e6,  # there, or diverged
    )  # fmt: skip
    last = history[-1]
    return last.done - 1 if last.loss <= GOAL else most  # the loss is that before the step


def _judge_scales(data: Sequence[Data]) -> Finding:
    last = len(data[0]["scales"]) - 1
    raw, even = column(data, "raw", last), column(data, "standardised", last)
    ratio = ratio_of(raw, even)
    return decide(
        {"standardised features need fewer steps": clearly(ratio.against(1.0), "above")},
        f"with scales 1 and {data[0]['scales'][last]:g}, each with its best rate: "
        f"{mean_of(raw, 'log')} steps raw and {mean_of(even, 'log')} standardised, "
        f"{ratio} times as many",
        {"ratio": ratio.mean},
    )


def _draw_scales(data: Sequence[Data]) -> Lines:
    return Lines(
        "Steps of gradient descent, one feature wider than the other",
        Axis("scale of the second feature", tuple(f"{scale:g}" for scale in data[0]["scales"])),
        f"steps to an error of {GOAL:g}",
        {"as they are": average(data, "raw").numpy(),
         "standardised": average(data, "standardised").numpy()},
        logarithmic=True, note="each with the best of its learning rates",
    )  # fmt: skip


feature_scales = Experiment(
    name="feature-scales",
    title="Features on one scale, or not",
    varies="the scale of one of two features; inputs as they are, or standardised",
    measures="steps of gradient descent, at the best of a grid of rates, to a small error",
    claims={
        "C64": Rule(
            "Supported if raw features of the widest scale need clearly more steps than "
            "standardised ones, each at its best rate; refuted if clearly not more.",
            _judge_scales,
        )
    },
    run=_scales,
    draw=_draw_scales,
    seconds=10.0,
)
