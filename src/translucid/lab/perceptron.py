"""One unit, one hidden layer, many linear ones: what they can compute, and what they learn."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.fit import fit
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    clearly,
    column,
    decide,
    ratio_of,
    share_of,
)
from translucid.models import PerceptronConfig
from translucid.models.mlp import MLP, MLPConfig
from translucid.models.perceptron import Perceptron
from translucid.parts.activations import ActivationName
from translucid.parts.feedforward import Dense
from translucid.see.pictures import Axis, Bars, Lines

CORNERS = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
XOR = torch.tensor([0.0, 1.0, 1.0, 0.0])

# ---- C1: what one threshold unit can compute ----

TABLES = tuple("".join(bits) for bits in itertools.product("01", repeat=4))  # at CORNERS, in order
NAMED = {"0001": "AND", "0111": "OR", "0110": "XOR", "1001": "not XOR"}


def _one_unit(seed: int, quick: bool) -> Data:
    """All 16 functions of two bits: how many of the 4 corners one unit gets right, at the best of
    a grid of weights, and after learning by its own rule."""
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
    found = set()
    for first, second in itertools.product(weights, weights):
        unit.weight.copy_(torch.tensor([first, second]))
        for bias in torch.linspace(-3, 3, 3 * (steps - 1) // 2 + 1).tolist():
            unit.bias.fill_(bias)
            found.add("".join(str(int(y)) for y in unit(CORNERS)))
    return found


def _learned(table: str, epochs: int) -> int:
    """The most corners right at the end of an epoch."""
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


one_unit = Experiment(
    name="one-unit",
    title="What one threshold unit can compute",
    varies="the function wanted (all 16 of two bits), the weights, and learning by the rule",
    measures="the largest number of the 4 corners that are right",
    claims={
        "C1": Rule(
            "Supported if the grid of weights and the perceptron rule reach all 4 corners for AND "
            "and OR and never for XOR; refuted if XOR is reached; undecided if the search is too "
            "weak to find AND and OR.",
            _judge_one_unit,
        )
    },
    run=_one_unit,
    draw=_draw_one_unit,
    seconds=2.0,
    seeds=1,
    references=("Minsky & Papert 1969, Perceptrons",),
)

# ---- C2: a hidden layer ----

HIDDEN = (2, 4, 8)
BENDS: tuple[ActivationName, ...] = ("tanh", "relu", "identity")


def _hidden(seed: int, quick: bool) -> Data:
    """The share of starts from which training solves XOR; and a solution made by hand."""
    torch.manual_seed(seed)
    starts, steps = (10, 60) if quick else (20, 600)
    solved = {bend: [_solved(bend, width, starts, steps) for width in HIDDEN] for bend in BENDS}
    with torch.no_grad():
        error = float((xor_by_hand()(CORNERS)[:, 0] - XOR).abs().max())
    return {"solved": solved, "starts": starts, "by_hand": error}


def xor_by_hand() -> MLP:
    """relu(a + b) - 2 relu(a + b - 1)."""
    net = MLP(MLPConfig(inputs=2, hidden=(2,)))
    write(net, [[[1, 1], [1, 1]], [[1, -2]]], [[0, -1], [0]])
    return net


def layers_of(net: MLP) -> list[Dense]:
    return [*(layer for layer in net.layers if isinstance(layer, Dense)), net.output]


@torch.no_grad()
def write(net: MLP, weights: Sequence[Any], biases: Sequence[Any]) -> None:
    """Put numbers into a net, layer by layer."""
    for layer, weight, bias in zip(layers_of(net), weights, biases, strict=True):
        layer.linear.weight.copy_(torch.as_tensor(weight, dtype=torch.float64))
        layer.linear.bias.copy_(torch.as_tensor(bias, dtype=torch.float64))


def _solved(bend: ActivationName, width: int, starts: int, steps: int) -> int:
    """Of nets that are trained side by side, how many end with all four corners right."""
    nets = [MLP(MLPConfig(inputs=2, hidden=(width,), activation=bend)) for _ in range(starts)]
    stacked, _ = stack_module_state(nets)
    weights = nn.ParameterList(stacked.values())
    each = vmap(lambda own: functional_call(nets[0], own, (CORNERS,))[:, 0])

    def logits() -> Tensor:
        found: Tensor = each(dict(zip(stacked, weights, strict=True)))
        return found  # (starts, 4)

    def loss() -> Tensor:
        said = logits()
        return F.binary_cross_entropy_with_logits(said, XOR.expand_as(said), reduction="sum")

    fit(weights, loss, steps=steps, learning_rate=0.1)
    with torch.no_grad():
        return int(((logits() > 0) == XOR.bool()).all(-1).sum())


def _judge_hidden(data: Sequence[Data]) -> Finding:
    tries = int(sum(column(data, "starts")))
    shares = {
        (bend, width): share_of(int(sum(column(data, "solved", bend, place))), tries)
        for bend in BENDS
        for place, width in enumerate(HIDDEN)
    }
    sides = {key: clearly(share.against(0.5), "above") for key, share in shares.items()}
    bent = [side for (bend, _), side in sides.items() if bend != "identity"]
    straight = [side for (bend, _), side in sides.items() if bend == "identity"]
    said = "; ".join(
        f"{bend} " + ", ".join(f"{width}: {shares[bend, width]}" for width in HIDDEN)
        for bend in BENDS
    )
    return decide(
        {
            "the solution made by hand is right": max(column(data, "by_hand")) < 1e-6,
            "training finds one": True if True in bent else None if None in bent else False,
            "without a non-linearity it finds none":
                False if True in straight else None if None in straight else True,
        },
        f"share of {tries} starts that solve XOR, by hidden units: {said}",
        {f"{bend}-{width}": share.mean for (bend, width), share in shares.items()},
    )  # fmt: skip


def _draw_hidden(data: Sequence[Data]) -> Lines:
    shares = {
        "no activation" if bend == "identity" else str(bend):
            np.mean([np.array(each["solved"][bend]) / each["starts"] for each in data], axis=0)
        for bend in BENDS
    }  # fmt: skip
    return Lines(
        "How often training solves XOR", Axis("hidden units", tuple(map(str, HIDDEN))),
        "share of starts", shares,
        note="Two ReLU units are enough: relu(a + b) - 2 relu(a + b - 1). Training often misses "
        "that, and finds it with units to spare.",
    )  # fmt: skip


xor_hidden = Experiment(
    name="xor-hidden",
    title="XOR with a hidden layer",
    varies="the number of hidden units; tanh, ReLU, no activation; the start",
    measures="the share of starts from which training gets all four corners right",
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

# ---- C3: stacked linear layers ----

DEPTHS = (1, 2, 4)
SAMPLES, WIDE = 64, 16


def _stack(seed: int, quick: bool) -> Data:
    """A curved target: what least squares, linear nets of several depths and a ReLU net leave."""
    torch.manual_seed(seed)
    x = torch.randn(SAMPLES, 2, dtype=torch.float64)
    y = (torch.sin(2 * x[:, :1]) + x[:, :1] * x[:, 1:] + x[:, 1:]).detach()
    steps = 100 if quick else 400
    made = torch.cat([x, torch.ones_like(y)], dim=1)
    # Not lstsq: its last digit changes with where the numbers lie in memory.
    left = y - made @ torch.linalg.solve(made.T @ made, made.T @ y)
    nets = [_fitted("identity", depth, x, y, steps) for depth in DEPTHS]
    return {
        "least_squares": float(left.square().mean()),
        "linear": [_error(net, x, y) for net in nets],
        "relu": _error(_fitted("relu", max(DEPTHS), x, y, steps), x, y),
        "collapse": max(_collapse_error(net, x) for net in nets),
    }


def _fitted(bend: ActivationName, depth: int, x: Tensor, y: Tensor, steps: int) -> MLP:
    net = MLP(MLPConfig(inputs=2, hidden=(WIDE,) * (depth - 1), activation=bend)).double()
    # No step of the library's optimizers: it looks for the end of a line, and asks again and again.
    optimiser = torch.optim.LBFGS(
        net.parameters(), max_iter=steps, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def again() -> Tensor:
        optimiser.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        return loss

    optimiser.step(again)
    return net


@torch.no_grad()
def _error(net: MLP, x: Tensor, y: Tensor) -> float:
    return float((net(x) - y).square().mean())


@torch.no_grad()
def _collapse_error(net: MLP, x: Tensor) -> float:
    """How far the net is from the one affine map that its layers multiply to."""
    weight, bias = collapsed(net)
    return float((net(x) - (x @ weight.T + bias)).abs().max())


def collapsed(net: MLP) -> tuple[Tensor, Tensor]:
    """W = W_n ... W_1, and the bias that goes with it."""
    weight = torch.eye(net.config.inputs, dtype=net.output.linear.weight.dtype)
    bias = torch.zeros(net.config.inputs, dtype=weight.dtype)
    for layer in layers_of(net):
        weight = layer.linear.weight @ weight
        bias = layer.linear.weight @ bias + layer.linear.bias
    return weight, bias


def _judge_stack(data: Sequence[Data]) -> Finding:
    floor = column(data, "least_squares")
    linear = [ratio_of(column(data, "linear", place), floor) for place in range(len(DEPTHS))]
    relu = ratio_of(column(data, "relu"), floor)
    collapse = max(column(data, "collapse"))
    beaten = any(each.against(0.99) == "below" for each in linear)
    arrived = all(each.against(1.01) == "below" for each in linear)
    said = ", ".join(f"{depth}: {each}" for depth, each in zip(DEPTHS, linear, strict=True))
    return decide(
        {
            "no linear net does better than least squares": not beaten,
            "each one gets there": True if arrived else None,
            "the target is curved: a ReLU net leaves less than half":
                clearly(relu.against(0.5), "below") or None,
            "every linear net is one affine map": collapse < 1e-9,
        },
        f"error over that of least squares, for linear nets of depth {said}; with ReLU {relu}; "
        f"linear nets and their collapsed matrix differ by at most {collapse:.1e}",
        {"linear": [each.mean for each in linear], "relu": relu.mean, "collapse": collapse},
    )  # fmt: skip


def _draw_stack(data: Sequence[Data]) -> Bars:
    linear = np.mean([each["linear"] for each in data], axis=0)
    ends = [np.mean(column(data, name)) for name in ("least_squares", "relu")]
    return Bars(
        "Linear layers on top of each other: no better than one", "mean squared error",
        ("least squares", *(f"{d} linear layer{'s' if d > 1 else ''}" for d in DEPTHS),
         f"{max(DEPTHS)} layers with ReLU"),
        np.array([ends[0], *linear, ends[1]]),
    )  # fmt: skip


linear_stack = Experiment(
    name="linear-stack",
    title="Linear layers on top of each other",
    varies="the depth of linear nets; ReLU between the layers",
    measures="the error left on a curved target; how far a linear net is from one matrix",
    claims={
        "C3": Rule(
            "Supported if linear nets of every depth end within 1 % of least squares, each equals "
            "the product of its matrices within 1e-9, and a ReLU net of that depth leaves clearly "
            "less than half the error. Refuted if a linear net is clearly more than 1 % better, or "
            "is not that product. What has not been trained to the end stays undecided.",
            _judge_stack,
        )
    },
    run=_stack,
    draw=_draw_stack,
    seconds=2.5,
    references=("https://arxiv.org/abs/1312.6120", "https://arxiv.org/abs/1802.06509"),
)
