"""Backpropagation by hand: a net of three inputs, two ReLU units and one output, and its likes.

z = W x + b; h = relu(z); ŷ = v · h + c; L = (ŷ - y)² / 2; δ = dL / dŷ = ŷ - y.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.verdict import Data, Finding, Rule, clearly, column, decide, mean_of
from translucid.lab.perceptron import layers_of, write
from translucid.models.mlp import MLP, MLPConfig
from translucid.see.pictures import Axis, Bars, Lines
from translucid.trace import Trace


@dataclass(frozen=True)
class Problem:
    """A net and the one sample that it should fit."""

    net: MLP
    x: Tensor  # (1, inputs)
    y: float

    def output(self) -> Tensor:
        return self.net(self.x)[0, 0]

    def bias(self, unit: int) -> float:
        return float(layers_of(self.net)[0].linear.bias.detach()[unit])

    def loss(self) -> Tensor:
        return (self.output() - self.y).square() / 2

    @torch.no_grad()
    def seen(self, point: str) -> Tensor:
        trace = Trace("*")
        self.net(self.x, trace=trace)
        return trace[f"layers.0.dense.{point}"][0]  # (units,)

    def step(self, rate: float) -> float:
        """One step of gradient descent; ŷ - y before it."""
        weights = list(self.net.parameters())
        error = self.output() - self.y
        gradients = torch.autograd.grad(error.square() / 2, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(rate * gradient)
        return float(error.detach())


def worked() -> Problem:
    """The exercise that can be done with pencil and paper; its loss is 8."""
    net = MLP(MLPConfig(inputs=3, hidden=(2,))).double()
    write(net, [[[1, -1, 0], [0, 2, 1]], [[2, -1]]], [[0, 1], [0]])
    return Problem(net, torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64), 3.0)


def random_problem(chance: torch.Generator, units: int = 2) -> Problem:
    """One of like size, in which at least one unit is active: else nothing but c could learn."""
    while True:
        drawn = torch.randn(5 * units + 5, generator=chance, dtype=torch.float64)
        w, b, v, (c, y), x = drawn.split([3 * units, units, units, 2, 3])
        net = MLP(MLPConfig(inputs=3, hidden=(units,))).double()
        write(net, [w.view(units, 3), v[None]], [b, c[None]])
        found = Problem(net, 2 * x[None], 3 * float(y))
        if (found.seen("activation") > 0).any():
            return found


# ---- C8: is the loss piecewise linear? ----

BIASES = np.linspace(-3, 3, 25)
TINY = 1e-4


def _kinks(seed: int, quick: bool) -> Data:
    """Curvature inside a region, of the output and of the loss; z; and slopes on both sides of a
    place where one z is 0 and of one where none is."""
    chance = torch.Generator().manual_seed(seed)
    nets = [random_problem(chance, units=8) for _ in range(5 if quick else 20)]
    return {
        "curvature_output": float(np.mean([_curvature(each, "output") for each in nets])),
        "curvature_loss": float(np.mean([_curvature(each, "loss") for each in nets])),
        "negative": float(np.mean([float((each.seen("preactivation") < 0).double().mean())
                                   for each in nets])),
        "kink": float(np.mean([_slope_jump(each, at_zero=True) for each in nets])),
        "elsewhere": float(np.mean([_slope_jump(each, at_zero=False) for each in nets])),
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
        mean_of(column(data, name))
        for name in ("curvature_loss", "curvature_output", "negative", "kink", "elsewhere")
    )
    return decide(
        {
            "the loss has no curvature inside a region": clearly(loss.against(1e-3), "below"),
            "no entry of Wx + b is negative": clearly(negative.against(1e-3), "below"),
            "the slope jumps where a z is 0": clearly(kink.against(1e-3), "above"),
            "and does not elsewhere": clearly(elsewhere.against(1e-3), "below"),
        },
        f"curvature inside a region: output {output}, loss {loss}; share of negative z {negative}; "
        f"change of slope at z = 0 {kink}, elsewhere {elsewhere}",
    )


def _draw_kinks(data: Sequence[Data]) -> Lines:
    return Lines(
        "The output is piecewise linear, the squared loss is not",
        Axis("bias of the first unit", tuple(f"{b:g}" for b in BIASES)), "value",
        {said: np.mean([each["along"][name] for each in data], axis=0)
         for name, said in (("output", "output ŷ"), ("loss", "loss (ŷ - 3)² / 2"))},
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
        )
    },
    run=_kinks,
    draw=_draw_kinks,
    seconds=0.5,
    references=("https://arxiv.org/abs/1402.1869",),
)

# ---- C9: the gradient of the output weights ----


def _output_gradient(seed: int, quick: bool) -> Data:
    """Central differences for v against δ v and δ h: how far apart they are, relative to their
    size; and the numbers of the worked example."""
    chance = torch.Generator().manual_seed(seed)
    nets = [random_problem(chance) for _ in range(5 if quick else 20)]
    rows = [_candidates(each) for each in nets]
    numbers = _candidates(worked())
    return {
        **{name: float(np.mean([_distance(row[name], row["numeric"]) for row in rows]))
           for name in ("delta_v", "delta_h", "autograd")},
        "worked": {name: values.tolist() for name, values in numbers.items()},
    }  # fmt: skip


def _distance(given: Tensor, right: Tensor) -> float:
    """Of 0 to 2: over the larger of the two."""
    return float((given - right).norm() / max(given.norm(), right.norm()))


def _candidates(problem: Problem) -> dict[str, Tensor]:
    weight = problem.net.output.linear.weight  # (1, units)
    (gradient,) = torch.autograd.grad(problem.loss(), weight)
    delta = float(problem.output().detach()) - problem.y
    return {
        "numeric": _central_differences(problem, weight),
        "autograd": gradient[0],
        "delta_v": delta * weight[0].detach(),
        "delta_h": delta * problem.seen("activation"),
    }


@torch.no_grad()
def _central_differences(problem: Problem, weight: Tensor) -> Tensor:
    found = torch.zeros_like(weight[0])
    for place in range(weight.shape[1]):
        kept = float(weight[0, place])
        sides = []
        for move in (TINY, -TINY):
            weight[0, place] = kept + move
            sides.append(float(problem.loss()))
        weight[0, place] = kept
        found[place] = (sides[0] - sides[1]) / (2 * TINY)
    return found


def _judge_output_gradient(data: Sequence[Data]) -> Finding:
    v, h, autograd = (mean_of(column(data, name)) for name in ("delta_v", "delta_h", "autograd"))
    trusted = autograd.against(1e-6) == "below"
    matches = clearly(v.against(1e-6), "below") if v.high < 1e-6 or v.low > 0.01 else None
    worked = data[0]["worked"]
    return decide(
        {
            "differences and autograd agree": trusted or None,
            "δ v is the gradient": matches if trusted else None,
        },
        f"relative distance from the numeric gradient: δ v {v}, δ h {h}; in the worked "
        f"example the gradient is {_few(worked['numeric'])}, δ v {_few(worked['delta_v'])}, δ h "
        f"{_few(worked['delta_h'])}",
    )


def _few(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in values) + "]"


def _draw_output_gradient(data: Sequence[Data]) -> Bars:
    named = {"numeric": "measured", "delta_v": "δ v", "delta_h": "δ h"}
    rows = [
        (f"{said}, weight {place + 1}", np.mean([each["worked"][name][place] for each in data]))
        for place in range(2)
        for name, said in named.items()
    ]
    return Bars(
        "The gradient of the output weights: measured, and two formulas", "dL / dv",
        tuple(label for label, _ in rows), np.array([value for _, value in rows]), marked=(0, 3),
    )  # fmt: skip


output_gradient = Experiment(
    name="output-gradient",
    title="The gradient of the output weights",
    varies="the formula, δ v or δ h; the worked example and random nets",
    measures="how far each is from central differences",
    claims={
        "C9": Rule(
            "Supported if δ v lies within 1e-6 of the numeric gradient, relative to their size, "
            "over random nets; refuted if it is clearly more than a hundredth away. Undecided "
            "between, or if numeric gradient and autograd do not agree.",
            _judge_output_gradient,
        )
    },
    run=_output_gradient,
    draw=_draw_output_gradient,
    seconds=0.3,
    references=("Rumelhart, Hinton & Williams 1986",),
)
