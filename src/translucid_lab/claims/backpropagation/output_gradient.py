"""C9: the gradient of the output weights."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.see.pictures import Bars
from translucid_lab.claims.backpropagation.worked_example import (
    TINY,
    Problem,
    random_problem,
    worked,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, column, decide, mean_of


def _output_gradient(seed: int, quick: bool) -> Data:
    """Central differences for v against δ v and δ h: how far apart they are, relative to their
    size; and the numbers of the worked example."""
    generator = torch.Generator().manual_seed(seed)
    nets = [random_problem(generator) for _ in range(5 if quick else 20)]
    rows = [_candidates(net) for net in nets]
    numbers = _candidates(worked())
    return {
        **{name: float(np.mean([_distance(row[name], row["numeric"]) for row in rows]))
           for name in ("delta_v", "delta_h", "autograd")},
        "worked": {name: values.tolist() for name, values in numbers.items()},
    }  # fmt: skip


def _distance(formula: Tensor, right: Tensor) -> float:
    """Of 0 to 2: over the larger of the two."""
    return float((formula - right).norm() / max(formula.norm(), right.norm()))


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
    gradient = torch.zeros_like(weight[0])
    for place in range(weight.shape[1]):
        kept = float(weight[0, place])
        sides = []
        for move in (TINY, -TINY):
            weight[0, place] = kept + move
            sides.append(float(problem.loss()))
        weight[0, place] = kept
        gradient[place] = (sides[0] - sides[1]) / (2 * TINY)
    return gradient


def _judge_output_gradient(data: Sequence[Data]) -> Finding:
    v, h, autograd = (
        mean_of(column(data, name), "log") for name in ("delta_v", "delta_h", "autograd")
    )
    trusted = autograd.against(1e-6) == "below"
    matches = True if v.against(1e-6) == "below" else False if v.against(0.01) == "above" else None
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
        (f"{label}, weight {place + 1}", np.mean([run["worked"][name][place] for run in data]))
        for place in range(2)
        for name, label in named.items()
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
            label="identity",
        )
    },
    run=_output_gradient,
    draw=_draw_output_gradient,
    seconds=0.3,
    references=("Rumelhart, Hinton & Williams 1986",),
)
