"""C8: is the loss piecewise linear?"""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.backpropagation.worked_example import (
    TINY,
    Problem,
    random_problem,
    worked,
)
from translucid_lab.claims.shared.mlp_weights import layers_of
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, clearly, column, decide, median_of

BIASES = np.linspace(-3, 3, 25)


def _kinks(seed: int, quick: bool) -> Data:
    """Curvature inside a region, of the output and of the loss; z; and slopes on both sides of a
    place where one z is 0 and of one where none is."""
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
    """The second difference along the bias of the most active unit, over the square of the step."""
    unit = int(problem.seen("preactivation").argmax())
    bias = problem.bias(unit)
    left, here, right = (_at_bias(problem, bias + move, what, unit) for move in (-TINY, 0.0, TINY))
    _at_bias(problem, bias, what, unit)  # as it was
    return abs(left - 2 * here + right) / TINY**2


def _slope_jump(problem: Problem, *, at_zero: bool) -> float:
    """By how much the output's slope along a unit's bias changes where z is 0, or is well above."""
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


relu_kinks = Experiment(
    name="relu-kinks",
    title="What ReLU makes of the loss",
    varies="the bias of one unit, inside a region and across z = 0; random nets and samples",
    measures="second differences of output and loss, the signs of z, one-sided slopes",
    claims={
        "C8": Rule(
            "Three things are said. Supported if inside a region the squared loss has no curvature "
            "(below 0.001), no entry of Wx + b is negative, and the output's slope jumps where a z "
            "is 0 and nowhere else; refuted if one of them clearly fails.",
            _judge_kinks,
            label="identity",
        )
    },
    run=_kinks,
    draw=_draw_kinks,
    seconds=0.5,
    references=("https://arxiv.org/abs/1402.1869",),
)
