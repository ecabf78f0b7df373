"""C5, C6: the slopes of sigmoid and tanh, and a sigmoid that starts on the wrong side.

Shapes: x (batch, width).
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from translucid.parts.activations import ActivationName
from translucid.parts.feedforward import Dense
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.backpropagation.vanishing_gradients import slope
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, decide

# ---- C5: the slopes of sigmoid and tanh ----


SLOPED: tuple[ActivationName, ...] = ("sigmoid", "tanh", "relu")
SEEN = np.linspace(-4, 4, 33)


def _slopes(seed: int, quick: bool) -> Data:
    fine = torch.arange(-8_000, 8_001, dtype=torch.float64) / 1000  # holds 0 itself
    return {
        "largest": {name: float(slope(name, fine).max()) for name in ("sigmoid", "tanh")},
        "curves": {name: slope(name, torch.tensor(SEEN)).tolist() for name in SLOPED},
    }


def _judge_slopes(data: Sequence[Data]) -> Finding:
    largest = data[0]["largest"]
    why = "; ".join(f"{name}: at most {value:.6g}" for name, value in largest.items())
    # On a grid, what comes close to 1 may reach it between the places.
    below = {name: False if value >= 1 else True if value < 1 - 1e-6 else None
             for name, value in largest.items()}  # fmt: skip
    if set(below.values()) == {True, False}:
        reached = ", ".join(name for name, side in below.items() if side is False)
        return Finding(
            "depends", f"it depends on the function, {reached} reaches 1: {why}", largest
        )
    return decide({f"{name} stays below 1": side for name, side in below.items()}, why, largest)


def _draw_slopes(data: Sequence[Data]) -> Lines:
    return Lines(
        "The slopes of three activations", Axis("z", tuple(f"{z:.3g}" for z in SEEN)), "derivative",
        {name: np.mean([run["curves"][name] for run in data], axis=0) for name in SLOPED},
    )  # fmt: skip


slopes = Experiment(
    name="activation-slopes",
    title="The slopes of sigmoid and tanh",
    varies="the activation, and where it is looked at",
    measures="the derivative on 16 001 places from -8 to 8",
    claims={
        "C5": Rule(
            "Supported if the largest derivatives of both functions are below 1; refuted if both "
            "reach it; depends on the function if one does. A maximum within 1e-6 of 1 that does "
            "not reach it stays undecided.",
            _judge_slopes,
            label="identity",
        )
    },
    run=_slopes,
    draw=_draw_slopes,
    seconds=0.1,
    seeds=1,
    references=("LeCun et al. 1998, Efficient BackProp",),
)


# ---- C6: a sigmoid that starts on the wrong side ----


OFFSETS = (0.0, 2.5, 5.0, 7.5, 10.0)
GOAL, RATE, PATIENCE = 0.01, 4.0, 40_000


def _saturation(seed: int, quick: bool) -> Data:
    """One unit that should say 0 and starts at this far above zero: steps until it does."""
    return {
        "slopes": slope("sigmoid", torch.tensor(OFFSETS, dtype=torch.float64)).tolist(),
        "squared": [_steps(offset, "squared") for offset in OFFSETS],
        "cross_entropy": [_steps(offset, "cross_entropy") for offset in OFFSETS],
    }


def _steps(offset: float, loss: str) -> int:
    """Steps on the bias until the squared error is small."""
    unit = Dense(1, 1, "sigmoid").double()
    nn.init.zeros_(unit.linear.weight)
    nn.init.constant_(unit.linear.bias, offset)
    x = torch.zeros(1, 1, dtype=torch.float64)
    bias = unit.linear.bias
    for step in range(PATIENCE):
        output = unit(x)
        error = output.square().mean() / 2
        if float(error.detach()) <= GOAL:
            return step
        wrong = F.binary_cross_entropy(output, x) if loss == "cross_entropy" else error
        (gradient,) = torch.autograd.grad(wrong, bias)
        with torch.no_grad():
            bias.sub_(RATE * gradient)
    return PATIENCE


def _judge_saturation(data: Sequence[Data]) -> Finding:
    (only,) = data[:1]
    none, five, ten = (OFFSETS.index(value) for value in (0.0, 5.0, 10.0))
    steps, others = only["squared"], only["cross_entropy"]
    slope_at_five = only["slopes"][five]
    growth = (steps[ten] - steps[five]) / max(steps[five] - steps[none], 1)
    return decide(
        {
            "the slope at 5 is below a tenth of its maximum": slope_at_five < 0.025,
            "the second 5 cost five times the steps of the first": True if growth > 5 else
                False if growth < 2 else None,
        },
        f"slope {slope_at_five:.4g} at 5; steps from 0, 5, 10: {steps[none]}, {steps[five]}, "
        f"{steps[ten]} with the squared error, {others[none]}, {others[five]}, {others[ten]} with "
        "cross-entropy, which takes the slope out again",
        {"growth": growth},
    )  # fmt: skip


def _draw_saturation(data: Sequence[Data]) -> Lines:
    return Lines(
        "A sigmoid that starts on the wrong side",
        Axis("how far it starts from zero", tuple(f"{z:g}" for z in OFFSETS)),
        "steps until it is right",
        {label: np.mean([run[name] for run in data], axis=0)
         for name, label in (("squared", "squared error"), ("cross_entropy", "cross-entropy"))},
        logarithmic=True,
    )  # fmt: skip


saturation = Experiment(
    name="saturation",
    title="A sigmoid that starts on the wrong side",
    varies="how far the unit starts from zero; the squared error or cross-entropy",
    measures="the derivative there, and steps until the squared error is 0.01",
    claims={
        "C6": Rule(
            "Supported if the derivative at 5 is below a tenth of its maximum 1/4, and starting at "
            "10 instead of 5 costs more than five times the steps that 5 instead of 0 costs; "
            "refuted if the derivative is not, or it costs less than twice; undecided between.",
            _judge_saturation,
            label="simulation",
        )
    },
    run=_saturation,
    draw=_draw_saturation,
    seconds=2.5,
    seeds=1,
    references=("https://proceedings.mlr.press/v9/glorot10a.html",),
)
