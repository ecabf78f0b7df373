"""C2: XOR with a hidden layer."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from translucid.models.mlp import MLP, MLPConfig
from translucid.parts.activations import ActivationName
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.perceptron.threshold_unit import CORNERS, XOR
from translucid_lab.claims.shared.mlp_weights import set_weights
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import fit
from translucid_lab.engine.verdict import Data, Finding, Rule, clearly, column, decide, fraction_of

HIDDEN = (2, 4, 8)
BENDS: tuple[ActivationName, ...] = ("tanh", "relu", "identity")


def _hidden(seed: int, quick: bool) -> Data:
    """The fraction of starts from which training solves XOR; and a solution made by hand."""
    torch.manual_seed(seed)
    starts, steps = (10, 60) if quick else (20, 600)
    solved = {bend: [_solved(bend, width, starts, steps) for width in HIDDEN] for bend in BENDS}
    with torch.no_grad():
        error = float((xor_by_hand()(CORNERS)[:, 0] - XOR).abs().max())
    return {"solved": solved, "starts": starts, "by_hand": error}


def xor_by_hand() -> MLP:
    """relu(a + b) - 2 relu(a + b - 1)."""
    net = MLP(MLPConfig(inputs=2, hidden=(2,)))
    set_weights(net, [[[1, 1], [1, 1]], [[1, -2]]], [[0, -1], [0]])
    return net


def _solved(bend: ActivationName, width: int, starts: int, steps: int) -> int:
    """Of nets that are trained side by side, how many end with all four corners right."""
    nets = [MLP(MLPConfig(inputs=2, hidden=(width,), activation=bend)) for _ in range(starts)]
    stacked, _ = stack_module_state(nets)
    weights = nn.ParameterList(stacked.values())
    batched = vmap(lambda own: functional_call(nets[0], own, (CORNERS,))[:, 0])

    def logits() -> Tensor:
        result: Tensor = batched(dict(zip(stacked, weights, strict=True)))
        return result  # (starts, 4)

    def loss() -> Tensor:
        summary = logits()
        return F.binary_cross_entropy_with_logits(summary, XOR.expand_as(summary), reduction="sum")

    fit(weights, loss, steps=steps, learning_rate=0.1)
    with torch.no_grad():
        return int(((logits() > 0) == XOR.bool()).all(-1).sum())


def _judge_hidden(data: Sequence[Data]) -> Finding:
    tries = int(sum(column(data, "starts")))
    fractions = {
        (bend, width): fraction_of(int(sum(column(data, "solved", bend, place))), tries)
        for bend in BENDS
        for place, width in enumerate(HIDDEN)
    }
    sides = {key: clearly(fraction.against(0.5), "above") for key, fraction in fractions.items()}
    bent = [side for (bend, _), side in sides.items() if bend != "identity"]
    straight = [side for (bend, _), side in sides.items() if bend == "identity"]
    summary = "; ".join(
        f"{bend} " + ", ".join(f"{width}: {fractions[bend, width]}" for width in HIDDEN)
        for bend in BENDS
    )
    return decide(
        {
            "the solution made by hand is right": max(column(data, "by_hand")) < 1e-6,
            "training finds one": True if True in bent else None if None in bent else False,
            "without a non-linearity it finds none":
                False if True in straight else None if None in straight else True,
        },
        f"fraction of {tries} starts that solve XOR, by hidden units: {summary}",
        {f"{bend}-{width}": fraction.mean for (bend, width), fraction in fractions.items()},
    )  # fmt: skip


def _draw_hidden(data: Sequence[Data]) -> Lines:
    fractions = {
        "no activation" if bend == "identity" else str(bend):
            np.mean([np.array(run["solved"][bend]) / run["starts"] for run in data], axis=0)
        for bend in BENDS
    }  # fmt: skip
    return Lines(
        "How often training solves XOR", Axis("hidden units", tuple(map(str, HIDDEN))),
        "fraction of starts", fractions,
        note="Two ReLU units are enough: relu(a + b) - 2 relu(a + b - 1). Training often misses "
        "that, and finds it with units to spare.",
    )  # fmt: skip


xor_hidden = Experiment(
    name="xor-hidden",
    title="XOR with a hidden layer",
    varies="the number of hidden units; tanh, ReLU, no activation; the start",
    measures="the fraction of starts from which training gets all four corners right",
    claims={
        "C2": Rule(
            "Supported if a solution made by hand is right, some width and non-linearity solves "
            "XOR from clearly more than half of the starts, and without a non-linearity every "
            "width does from clearly less than half. Refuted if the solution by hand is wrong, all "
            "non-linear nets stay clearly below half, or a linear one comes clearly above.",
            _judge_hidden,
        )
    },
    run=_hidden,
    draw=_draw_hidden,
    seconds=10.0,
    references=("Rumelhart, Hinton & Williams 1986",),
)
