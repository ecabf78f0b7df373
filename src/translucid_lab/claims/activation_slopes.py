"""The slopes of sigmoid and tanh (C5), a sigmoid that starts on the wrong side (C6), and whether
the loss of a ReLU net is piecewise linear (C8).

Shapes: x (batch, width).
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from translucid.parts import ActivationName, Dense
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, clearly, column, decide, median_of
from translucid_lab.claims.gradient_descent import (
    TINY,
    Problem,
    random_problem,
    worked,
)
from translucid_lab.claims.small_nets import layers_of
from translucid_lab.claims.vanishing_gradients import slope

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
    return decide({f"{name} stays below 1": side for name, side in below.items()}, why, largest)


def _draw_slopes(data: Sequence[Data]) -> Lines:
    return Lines(
        "The slopes of three activations", Axis("z", tuple(f"{z:.3g}" for z in SEEN)), "derivative",
        {name: np.mean([run["curves"][name] for run in data], axis=0) for name in SLOPED},
    )  # fmt: skip


slopes = Experiment.described("activation-slopes", _slopes, _draw_slopes, {"C5": _judge_slopes})


# ---- C6: a sigmoid that starts on the wrong side ----


OFFSETS = (0.0, 2.5, 5.0, 7.5, 10.0)
GOAL, RATE, PATIENCE = 0.01, 4.0, 40_000


def _saturation(seed: int, quick: bool) -> Data:
    """For each starting value of a unit's input z: the slope of the sigmoid there, and the number
    of steps of gradient descent until the unit, whose target is 0, has a small error."""
    return {
        "slopes": slope("sigmoid", torch.tensor(OFFSETS, dtype=torch.float64)).tolist(),
        "squared": [_steps(offset, "squared") for offset in OFFSETS],
        "cross_entropy": [_steps(offset, "cross_entropy") for offset in OFFSETS],
    }


def _steps(offset: float, loss: str) -> int:
    """The number of steps of gradient descent on the bias until the squared error is small."""
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


saturation = Experiment.described(
    "saturation", _saturation, _draw_saturation, {"C6": _judge_saturation}
)


BIASES = np.linspace(-3, 3, 25)


def _kinks(seed: int, quick: bool) -> Data:
    """Measure the curvature of output and loss inside a linear region, the fraction of negative
    inputs z, and how much the output's slope changes where z is 0 and where it is not."""
    generator = torch.Generator().manual_seed(seed)
    nets = [random_problem(generator, units=8) for _ in range(5 if quick else 20)]
    return {
        "curvature_output": float(np.mean([_curvature(net, "output") for net in nets])),
        "curvature_loss": float(np.mean([_curvature(net, "loss") for net in nets])),
        "negative": float(np.mean([float((net.seen("preactivation") < 0).double().mean())
                                   for net in nets])),
        "kink": float(np.mean([_slope_jump(net, at_zero=True) for net in nets])),
        "elsewhere": float(np.mean([_slope_jump(net, at_zero=False) for net in nets])),
        "along": {what: [_at_bias(worked(), float(b), what) for b in BIASES]
                  for what in ("output", "loss")},
    }  # fmt: skip


@torch.no_grad()
def _at_bias(problem: Problem, value: float, what: str, unit: int = 0) -> float:
    """The output or the loss with the bias of one unit set to this value."""
    layers_of(problem.net)[0].linear.bias[unit] = value
    return float(problem.output() if what == "output" else problem.loss())


def _curvature(problem: Problem, what: str) -> float:
    """The second derivative along the bias of the most active unit, by finite differences."""
    unit = int(problem.seen("preactivation").argmax())
    bias = problem.bias(unit)
    left, here, right = (_at_bias(problem, bias + move, what, unit) for move in (-TINY, 0.0, TINY))
    _at_bias(problem, bias, what, unit)  # restore it
    return abs(left - 2 * here + right) / TINY**2


def _slope_jump(problem: Problem, *, at_zero: bool) -> float:
    """How much the output's slope along a unit's bias changes at one value of the bias: where z is
    0, or where z is 1."""
    unit = int(problem.seen("preactivation").argmax())
    bias = problem.bias(unit)
    place = bias - float(problem.seen("preactivation")[unit]) + (0.0 if at_zero else 1.0)
    left, here, right = (
        _at_bias(problem, place + move, "output", unit) for move in (-TINY, 0.0, TINY)
    )
    _at_bias(problem, bias, "output", unit)
    return abs((right - here) - (here - left)) / TINY


def _judge_kinks(data: Sequence[Data]) -> Finding:
    loss, output, negative, kink, elsewhere = (
        median_of(column(data, name))
        for name in ("curvature_loss", "curvature_output", "negative", "kink", "elsewhere")
    )
    return decide(
        {
            "the loss has no curvature inside a region": clearly(loss.against(1e-3), "below"),
            "no entry of Wx + b is negative": clearly(negative.against(1e-3), "below"),
            "the slope jumps where a z is 0": clearly(kink.against(1e-3), "above"),
            "and does not elsewhere": clearly(elsewhere.against(1e-3), "below"),
        },
        f"curvature inside a region: output {output}, loss {loss}; fraction of negative z "
        f"{negative}; change of slope at z = 0 {kink}, elsewhere {elsewhere}",
    )


def _draw_kinks(data: Sequence[Data]) -> Lines:
    return Lines(
        "The output is piecewise linear, the squared loss is not",
        Axis("bias of the first unit", tuple(f"{b:g}" for b in BIASES)), "value",
        {label: np.mean([run["along"][name] for run in data], axis=0)
         for name, label in (("output", "output ŷ"), ("loss", "loss (ŷ - 3)² / 2"))},
        note="The unit's z is 0 at -1: to the left it is off, and both lines are flat.",
    )  # fmt: skip


relu_kinks = Experiment.described("relu-kinks", _kinks, _draw_kinks, {"C8": _judge_kinks})
