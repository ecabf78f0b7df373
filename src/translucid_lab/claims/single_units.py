"""What one threshold unit can compute (C1), and XOR with a hidden layer (C2)."""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from translucid.models import MLP, MLPConfig, Perceptron, PerceptronConfig
from translucid.parts import ActivationName
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.small_nets import set_weights
from translucid_lab.engine.intervals import clearly, fraction_of
from translucid_lab.engine.verdict import column, decide

CORNERS = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
XOR = torch.tensor([0.0, 1.0, 1.0, 0.0])


TABLES = tuple("".join(bits) for bits in itertools.product("01", repeat=4))  # at CORNERS, in order
NAMED = {"0001": "AND", "0111": "OR", "0110": "XOR", "1001": "not XOR"}


def _one_unit(seed: int, quick: bool) -> Data:
    """For each of the 16 functions of two bits: for how many of the four inputs one unit gives the
    right output. This is measured for the best unit on a grid of weights, and for a unit trained
    with the perceptron rule."""
    steps, epochs = (9, 100) if quick else (17, 1000)
    reached = _outputs_on_a_grid(steps)
    return {
        "grid": [max(sum(a == b for a, b in zip(table, row, strict=True)) for row in reached)
                 for table in TABLES],
        "learned": [_learned(table, epochs) for table in TABLES],
        "reached": len(reached),
    }  # fmt: skip


def _outputs_on_a_grid(steps: int) -> set[str]:
    unit = Perceptron(PerceptronConfig(inputs=2))
    weights = torch.linspace(-2, 2, steps).tolist()
    outputs = set()
    for first, second in itertools.product(weights, weights):
        unit.weight.copy_(torch.tensor([first, second]))
        for bias in torch.linspace(-3, 3, 3 * (steps - 1) // 2 + 1).tolist():
            unit.bias.fill_(bias)
            outputs.add("".join(str(int(y)) for y in unit(CORNERS)))
    return outputs


def _learned(table: str, epochs: int) -> int:
    """Train a unit with the perceptron rule; return the largest number of inputs that it got right
    after any epoch."""
    wanted = torch.tensor([float(bit) for bit in table])
    unit, best = Perceptron(PerceptronConfig(inputs=2)), 0
    for _ in range(epochs):
        mistakes = unit.learn(CORNERS, wanted)
        best = max(best, int((unit(CORNERS) == wanted).sum()))
        if not mistakes:
            break
    return best


def _judge_one_unit(data: Sequence[Data]) -> Finding:
    (only,) = data[:1]
    best = {
        name: max(only["grid"][place], only["learned"][place])
        for table, name in NAMED.items()
        for place in (TABLES.index(table),)
    }
    whole = sum(max(pair) == 4 for pair in zip(only["grid"], only["learned"], strict=True))
    return decide(
        {
            "XOR stays below 4 corners": best["XOR"] < 4,
            "the same search finds AND and OR": True if best["AND"] == best["OR"] == 4 else None,
        },
        f"corners right of 4: AND {best['AND']}, OR {best['OR']}, XOR {best['XOR']}; "
        f"{whole} of the 16 functions of two bits are reached",
        {"corners": best, "functions": whole},
    )


def _draw_one_unit(data: Sequence[Data]) -> Bars:
    (only,) = data[:1]
    return Bars(
        "How many corners one threshold unit gets right, for all 16 functions of two bits",
        "corners right of 4, at the best weights of a grid",
        tuple(f"{table}  {NAMED.get(table, '')}".rstrip() for table in TABLES),
        np.array(only["grid"], dtype=float),
        note="Read 0110 as the outputs wanted at (0,0), (0,1), (1,0), (1,1).",
        marked=tuple(place for place, right in enumerate(only["grid"]) if right < 4),
    )  # fmt: skip


one_unit = Experiment.described("one-unit", _one_unit, _draw_one_unit, {"C1": _judge_one_unit})


HIDDEN = (2, 4, 8)
BENDS: tuple[ActivationName, ...] = ("tanh", "relu", "identity")


def _hidden(seed: int, quick: bool) -> Data:
    """How many random starts learn XOR, by number of hidden units, and the error of a network whose
    weights are set by hand."""
    torch.manual_seed(seed)
    starts, steps = (10, 60) if quick else (20, 600)
    solved = {bend: [_solved(bend, width, starts, steps) for width in HIDDEN] for bend in BENDS}
    with torch.no_grad():
        error = float((xor_by_hand()(CORNERS)[:, 0] - XOR).abs().max())
    return {"solved": solved, "starts": starts, "by_hand": error}


def xor_by_hand() -> MLP:
    """A network for XOR with weights set by hand: relu(a + b) - 2 relu(a + b - 1)."""
    net = MLP(MLPConfig(inputs=2, hidden=(2,)))
    set_weights(net, [[[1, 1], [1, 1]], [[1, -2]]], [[0, -1], [0]])
    return net


def _solved(bend: ActivationName, width: int, starts: int, steps: int) -> int:
    """How many networks, trained in parallel, get all four corners right."""
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


xor_hidden = Experiment.described("xor-hidden", _hidden, _draw_hidden, {"C2": _judge_hidden})
