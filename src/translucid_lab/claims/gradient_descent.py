"""Gradient descent by hand, on a net of one hidden layer and one sample: the gradient of the output
weights (C9), the first step (C10), and the learning rate of the following steps (C11).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from translucid import Trace
from translucid.models import MLP, MLPConfig
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.small_nets import layers_of, set_weights
from translucid_lab.engine.intervals import clearly, fraction_of, mean_of
from translucid_lab.engine.verdict import column, decide


@dataclass(frozen=True)
class Problem:
    """A network and the single sample that it should fit."""

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
        """Take one step of gradient descent; return ŷ - y before it."""
        weights = list(self.net.parameters())
        error = self.output() - self.y
        gradients = torch.autograd.grad(error.square() / 2, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(rate * gradient)
        return float(error.detach())


def worked() -> Problem:
    """The worked example of the course notes; its loss is 8."""
    net = MLP(MLPConfig(inputs=3, hidden=(2,))).double()
    set_weights(net, [[[1, -1, 0], [0, 2, 1]], [[2, -1]]], [[0, 1], [0]])
    return Problem(net, torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64), 3.0)


def random_problem(generator: torch.Generator, units: int = 2) -> Problem:
    """A random problem with at least one active unit; without one, only the output bias c could
    learn."""
    while True:
        drawn = torch.randn(5 * units + 5, generator=generator, dtype=torch.float64)
        w, b, v, (c, y), x = drawn.split([3 * units, units, units, 2, 3])
        net = MLP(MLPConfig(inputs=3, hidden=(units,))).double()
        set_weights(net, [w.view(units, 3), v[None]], [b, c[None]])
        problem = Problem(net, 2 * x[None], 3 * float(y))
        if (problem.seen("activation") > 0).any():
            return problem


TINY = 1e-4


# ---- C10: the first step ----


FIRST_RATES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4)
CLAIMED, CLAIMED_RATE = 0.2876, 0.02


def _first_step(seed: int, quick: bool) -> Data:
    """Losses of the worked example, and how many random starts one step improves or worsens."""
    book, losses = worked(), []
    for _ in range(21):
        losses.append(float(book.loss().detach()))
        book.step(CLAIMED_RATE)
    starts = 20 if quick else 100
    fell, rose = [0] * len(FIRST_RATES), [0] * len(FIRST_RATES)
    for place, rate in enumerate(FIRST_RATES):
        generator = torch.Generator().manual_seed(seed)  # the same starts for every rate
        for _ in range(starts):
            problem = random_problem(generator)
            before = float(problem.loss().detach())
            problem.step(rate)
            after = float(problem.loss().detach())
            fell[place] += after < before
            rose[place] += after > before
    return {"worked": losses, "starts": starts, "fell": fell, "rose": rose}


def _judge_first_step(data: Sequence[Data]) -> Finding:
    losses = data[0]["worked"]
    starts = int(sum(column(data, "starts")))
    fell, rose = (
        [int(sum(column(data, name, place))) for place in range(len(FIRST_RATES))]
        for name in ("fell", "rose")
    )
    there = FIRST_RATES.index(CLAIMED_RATE)
    return decide(
        {
            f"from 8 to {CLAIMED}": abs(losses[0] - 8) < 1e-9 and abs(losses[1] - CLAIMED) < 5e-5,
            f"at rate {FIRST_RATES[-1]:g} every start gets better":
                False if rose[-1] else True if fell[-1] == starts else None,
        },
        f"loss {losses[0]:.4g}, then {losses[1]:.6g}, after 20 steps {losses[20]:.1e}; of {starts} "
        f"random starts the first step makes better {fraction_of(fell[there], starts)} at rate "
        f"{CLAIMED_RATE}, {fraction_of(fell[0], starts)} at {FIRST_RATES[0]} and "
        f"{fraction_of(fell[-1], starts)} at {FIRST_RATES[-1]:g}",
        {"loss": losses[1], "fell": fell},
    )  # fmt: skip


def _draw_first_step(data: Sequence[Data]) -> Lines:
    starts = sum(column(data, "starts"))
    fell = np.sum([run["fell"] for run in data], axis=0) / starts
    return Lines(
        "How often the first step lowers the loss",
        Axis("learning rate", tuple(f"{rate:g}" for rate in FIRST_RATES)),
        "fraction of random starts", {"loss fell": fell},
        note=f"In the worked example it falls from {data[0]['worked'][0]:g} to "
        f"{data[0]['worked'][1]:.4f} at rate {CLAIMED_RATE}.",
    )  # fmt: skip


first_step = Experiment.described(
    "first-step", _first_step, _draw_first_step, {"C10": _judge_first_step}
)


# ---- C11: rates too large and too small ----


# Learning rates up to 1.024. On a parabola, the rates that oscillate span a factor of 2, so the
# ladder contains at least one of them.
LADDER = tuple(0.001 * 2 ** (k / 2) for k in range(21))
STEPS = 20
SHOWN_RATES, SHOWN_STEPS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2), 8


def _rates(seed: int, quick: bool) -> Data:
    """Count the random starts that settle at some learning rate: the error shrinks tenfold without
    oscillating. Of these, count those that are slow at a smaller rate, those that oscillate at a
    larger rate, and those that diverge or lose all active units at a larger rate. Also run the
    worked example at a few rates."""
    generator = torch.Generator().manual_seed(seed)
    starts = 4 if quick else 30
    measured = {"settles": 0, "slow": 0, "oscillates": 0, "otherwise": 0}
    for _ in range(starts):
        outcomes = _outcomes(random_problem(generator))
        if "settles" not in outcomes:
            continue
        first = outcomes.index("settles")
        measured["settles"] += 1
        measured["slow"] += "slow" in outcomes[:first]
        measured["oscillates"] += "oscillates" in outcomes[first:]
        measured["otherwise"] += bool({"dead", "diverges"} & set(outcomes[first:]))
    return measured | {"starts": starts, "worked": [_worked(rate) for rate in SHOWN_RATES]}


def _worked(rate: float) -> Data:
    errors, active = descend(worked(), rate)
    return {
        "rate": rate,
        "losses": [error**2 / 2 for error in errors[: SHOWN_STEPS + 1]],
        "outcome": outcome(errors, active),
    }


def _outcomes(problem: Problem) -> list[str]:
    start = {name: value.clone() for name, value in problem.net.state_dict().items()}
    outcomes = []
    for rate in LADDER:
        problem.net.load_state_dict(start)
        outcomes.append(outcome(*descend(problem, rate)))
    return outcomes


def descend(problem: Problem, rate: float) -> tuple[list[float], int]:
    """The errors ŷ - y before each step and after the last, and the number of units that are active
    at the end."""
    errors = [problem.step(rate) for _ in range(STEPS)]
    errors.append(float(problem.output().detach()) - problem.y)
    return errors, int((problem.seen("activation") > 0).sum())


def outcome(errors: Sequence[float], active: int) -> str:
    """How the descent ended: diverges, dead (no active unit), oscillates, settles or slow. Signs of
    errors at rounding level are ignored."""
    if not abs(errors[-1]) <= abs(errors[0]):  # larger, or not a number
        return "diverges"
    if not active:
        return "dead"
    signs = np.sign([error for error in errors if abs(error) > 1e-6 * abs(errors[0])])
    if (signs[1:] != signs[:-1]).sum() >= 3:
        return "oscillates"
    return "settles" if abs(errors[-1]) < 0.1 * abs(errors[0]) else "slow"


def _judge_rates(data: Sequence[Data]) -> Finding:
    tries = int(sum(column(data, "settles")))
    if not tries:
        return Finding("undecided", "no start settles at any rate")
    fractions = {
        name: fraction_of(int(sum(column(data, name))), tries)
        for name in ("slow", "oscillates", "otherwise")
    }
    slow, oscillates, otherwise = (
        clearly(fraction.against(0.5), "above") for fraction in fractions.values()
    )
    example = ", ".join(f"{step['rate']:g} {step['outcome']}" for step in data[0]["worked"])
    why = (
        f"of {tries} starts that settle at some rate, {fractions['slow']} are slow at a smaller "
        f"one; at a larger one {fractions['oscillates']} oscillate, and {fractions['otherwise']} "
        f"diverge or lose all their ReLU units; the worked example: {example}"
    )
    if slow and oscillates and otherwise:
        return Finding("depends", f"it depends on how much too large the rate is: {why}")
    return decide(
        {"slow below": slow, "oscillates above": oscillates,
         "and nothing else happens there": None if otherwise is None else not otherwise or None},
        why,
    )  # fmt: skip


def _draw_rates(data: Sequence[Data]) -> Lines:
    return Lines(
        "The same start at six learning rates",
        Axis("step", tuple(map(str, range(SHOWN_STEPS + 1)))), "loss",
        {f"{value['rate']:g}: {value['outcome']}":
         np.mean([seed["worked"][place]["losses"] for seed in data], axis=0)
         for place, value in enumerate(data[0]["worked"])},
        logarithmic=True,
        note="The worked example; dead: no ReLU unit is active any more, and only the last bias "
        "learns.",
    )  # fmt: skip


learning_rates = Experiment.described("learning-rates", _rates, _draw_rates, {"C11": _judge_rates})


def _output_gradient(seed: int, quick: bool) -> Data:
    """Compare two formulas for the gradient of the output weights v, δ v and δ h, with central
    differences: the relative distance, averaged over random networks. Also return the numbers of
    the worked example."""
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
    """The distance of two vectors divided by the larger norm: 0 to 2."""
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


output_gradient = Experiment.described(
    "output-gradient", _output_gradient, _draw_output_gradient, {"C9": _judge_output_gradient}
)
