"""Exercise: a network with one hidden layer: forward, loss, backward, gradient descent.

The formulas of the gradients are defined here; the numbers come from autograd on the real model.
"""

import math
from copy import deepcopy
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.core.spelling import Missing, quoted
from translucid.core.trace import Trace
from translucid.models.mlp import MLP, MLPConfig
from translucid.parts.activations import ACTIVATIONS, SYMBOLS
from translucid.worked import plain as in_numpy
from translucid.worked.activations import SLOPES
from translucid.worked.board import Board, check_rate, compare, gradient, squared_loss, write_update
from translucid.worked.gradcheck import verdict, write_check
from translucid.worked.net import Net, loss_of, read_net, read_target, with_example
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable, Value, plain
from translucid.worked.solution.numbers import Number, Numbers, many, vector, whole
from translucid.worked.solution.solution import Solution

_STEPS = 6  # of the sweep


def mlp(
    x: Numbers | None = None,
    w: Numbers | None = None,
    b: Numbers | None = None,
    v: Numbers | None = None,
    c: Numbers | None = None,
    y: Numbers | None = None,
    rate: Number | None = None,
    *,
    rates: Numbers | None = None,
    steps: int | str | None = None,
    check: bool = False,
    activation: Literal["relu", "tanh", "sigmoid", "identity", "gelu", "silu"] | None = None,
    digits: int = 4,
) -> Solution:
    """A network with one hidden layer.

    Computes ŷ = vᵀ act(W x + b) + c, the loss 1/(2n) Σ (y - ŷ)² over n inputs, the gradients, and
    the loss after SGD steps.

    x: The input; for several inputs, one row each.
    w: W, one row for each unit.
    b: b, one number for each unit [default: 0].
    v: v, the weights from the units to the output; for several outputs, one row each.
    c: c, the bias of the output [default: 0].
    y: The target, for the loss and the gradients; for several inputs, one for each row.
    rate: Make one SGD step with this learning rate.
    rates: Compare these learning rates over several SGD steps, such as "0.01 0.1 1".
    steps: Number of SGD steps for each of the rates [default: 6].
    check: Compare the gradients with central differences.

    Example: translucid work mlp --x "1 0 2" --w "1 -1 0; 0 2 1" --b "0 1" --v "2 -1" --y 3
    --rate 0.02

    Example: translucid work mlp --rates "0.001 0.02 0.05 0.1" --check
    """
    given = {"x": x, "w": w, "b": b, "v": v, "c": c, "y": y, "rate": rate}
    numbers = with_example(given)
    net = read_net(numbers, activation or "relu")
    outputs, target = net.output.out_features, read_target(numbers, net)
    speed = check_rate(rate if rates is not None else numbers["rate"], "y", target)
    sweep = _sweep_of(rates, steps, target)
    if check and target is None:
        raise Missing(
            "check needs y, because without a target there is no gradient", ("check", "y")
        )

    board = Board(digits)
    _given(board, net, target, speed)
    program = _program(net, target, speed)
    closing = _work(board, net, target, speed, sweep, check)
    rows = f" for {net.rows} rows of $X$" if net.rows > 1 else ""
    return board.solution(
        title=f"A network of {many(net.x.shape[1], 'input')}, "
        f"{many(net.hidden.out_features, 'hidden unit')} and {many(outputs, 'output')}{rows}",
        closing=closing,
        next="translucid work gradcheck" if speed == 0.1 else "translucid work mlp --rate 0.1",
        more="" if speed == 0.1 or sweep else _more(target, net),
        program=program,
        example=numbers.example,
        asked=numbers.asked or check or bool(sweep) or activation is not None,
    )


def _program(net: Net, target: Tensor | None, rate: Tensor | None) -> Program | None:
    if target is None or rate is None or not net.plain:
        return None
    given = {"x": net.x[0], **net.weights(), "y": target.flatten(), "rate": rate}
    return Program(in_numpy.mlp, given)


def _more(target: Tensor | None, net: Net) -> str:
    row = " ".join(["1"] * net.output.out_features)
    right = f"--y {quoted('; '.join([row] * net.rows))} " if target is None else ""
    return f"{right}--rate 0.1"


def _sweep_of(
    rates: Numbers | None, steps: int | str | None, target: Tensor | None
) -> tuple[list[float], int] | None:
    """The learning rates to compare, and the number of steps; None if there are no rates."""
    if rates is None:
        if steps is not None:
            raise Missing("steps needs rates, the learning rates to compare", ("steps", "rates"))
        return None
    if target is None:
        raise Missing("rates needs y, because without a target there is no loss", ("rates", "y"))
    values = vector(rates, "rates").tolist()
    for value in values:
        if value <= 0:
            raise InputError(f"rates: {value:g} must be greater than 0, such as 0.02")
    return values, _STEPS if steps is None else whole(steps, "steps")


def _given(board: Board, net: Net, target: Tensor | None, rate: Tensor | None) -> None:
    board.state("x" if net.rows == 1 else "X", net.x[0] if net.rows == 1 else net.x)
    for symbol, value in net.weights().items():
        board.state(symbol, value)
    if target is not None:
        board.state("y" if target.dim() == 1 else "Y", target)
    if rate is not None:
        board.state(r"\eta", rate, name="rate")


def _work(
    board: Board,
    net: Net,
    target: Tensor | None,
    rate: Tensor | None,
    sweep: tuple[list[float], int] | None,
    check: bool,
) -> str:
    """Write all steps of the exercise; return the result as a sentence."""
    board.section = "Forward" if target is not None or net.activation == "identity" else ""
    trace, loss = _forward(board, net, target)
    if net.activation == "identity":
        _collapse(board, net)
    if target is None or loss is None:
        output = trace["output.dense.preactivation"]
        rows = "; ".join(", ".join(map(board.number, row)) for row in output.tolist())
        return f"The {'output is' if output.numel() == 1 else 'outputs are'} {rows}."
    start = deepcopy(net)  # with which the sweep begins
    backward(board, net, trace, loss, target)
    closing = f"The loss is {board.number(loss.item())}."
    if check:
        closing = verdict(*write_check(board, net, target, net.slopes()))
    if rate is not None:
        descend(board, net, rate)
        board.section = "Forward again, with the new parameters"
        _, after = _forward(board, net, target)
        assert after is not None
        closing = compare(board, loss, after)
    if sweep is not None:
        closing = _sweep(board, start, target, *sweep)
    return closing


# The steps with one input, written as a column x, and with several, the rows of X. `many`: with
# several outputs, whose weights are the matrix V.
_ONE = {
    "delta": "<out> - <y>", "v": "<delta> <h>", "V": r"<delta> <h>^{\top}", "c": "<delta>",
    "h": "<delta> <v>", "h of many": r"<v>^{\top} <delta>", "W": r"<dz> <x>^{\top}", "b": "<dz>",
}  # fmt: skip
_ROWS = {
    "delta": "(<out> - <y>) / <n>", "v": r"<h>^{\top} <delta>", "V": r"<delta>^{\top} <h>",
    "c": r"<delta>^{\top} <ones>", "h": r"<delta> <v>^{\top}", "h of many": "<delta> <v>",
    "W": r"<dz>^{\top} <x>", "b": r"<dz>^{\top} <ones>",
}  # fmt: skip


def _symbols(net: Net) -> dict[str, str]:
    """The symbols of the values; for several inputs, those of matrices with one row for each."""
    if net.rows == 1:
        return {"x": "x", "z": "z", "h": "h", "y": "y", "out": r"\hat{y}"}
    outputs = ("y", r"\hat{y}") if net.one else ("Y", r"\hat{Y}")
    return {"x": "X", "z": "Z", "h": "H", "y": outputs[0], "out": outputs[1]}


def _forward(board: Board, net: Net, target: Tensor | None) -> tuple[Trace, Tensor | None]:
    trace = Trace()
    output = net.model(net.x, trace)
    weights, act, symbols = net.weights(), SYMBOLS[net.activation], _symbols(net)
    z, h = (trace[f"layers.0.dense.{n}"].detach() for n in ("preactivation", "activation"))
    if net.rows == 1:
        values: dict[str, Tensor | str] = {"W": weights["W"], "x": net.x[0], "b": weights["b"]}
        values |= {"preactivation": z[0], "activation": h[0], "act": act}
        for point in ("preactivation", "activation"):
            board.point(f"layers.0.dense.{point}", values, {"act": act})
        values = {"W": net.output.weight.detach(), "x": h[0], "b": weights["c"]}
        board.point(
            "output.dense.preactivation",
            values | {"preactivation": output[0].detach()},
            {
                "W": r"v^{\top}" if net.one else "V",
                "x": "h",
                "b": "c",
                "preactivation": r"\hat{y}",
            },
            label="Output",
        )
    else:
        _forward_rows(board, net, z, h, output.detach())
    if target is None:
        return trace, None
    if net.rows == 1:
        return trace, squared_loss(board, r"\hat{y}", output[0], target, "y")
    loss = loss_of(output, target)
    board.step(
        "Loss: half the squared distance to the targets, averaged over the inputs",
        "L",
        r"\lVert <target> - <output> \rVert^2 / (2 \cdot <n>)",
        loss.detach(),
        {
            "target": target,
            "output": output.detach().reshape(target.shape),
            "n": torch.tensor(float(net.rows)),
        },
        symbols={"target": symbols["y"], "output": symbols["out"]},
        name="loss",
    )
    return trace, loss


def _forward_rows(board: Board, net: Net, z: Tensor, h: Tensor, output: Tensor) -> None:
    """Write the forward pass of several inputs as matrices with one row for each."""
    weights, symbols = net.weights(), _symbols(net)
    act = SYMBOLS[net.activation]
    values: dict[str, Tensor | str] = {"x": net.x, "W": weights["W"], "b": weights["b"][None]}
    values |= {"z": z, "h": h, "V": weights[net.out], "c": weights["c"][None], "act": act}
    symbols |= {"V": net.out, "act": act}
    points = ("layers.0.dense.preactivation", "layers.0.dense.activation")
    last = "<h> <V>" if net.one else r"<h> <V>^{\top}"
    for name, label, symbol, template, value in (
        (points[0], "Preactivation", "z", r"<x> <W>^{\top} + <b>", z),
        (points[1], "Activation", "h", "<act>(<z>)", h),
        ("output.dense.preactivation", "Output", "out", f"{last} + <c>", output),
    ):
        board.step(
            f"{label}: {describe(name).meaning}",
            symbols[symbol],
            "<z>" if symbol == "h" and net.activation == "identity" else template,
            value[:, 0] if symbol == "out" and net.one else value,
            values,
            symbols=symbols,
            name=name,
            note="$b$ is added to every row." if symbol == "z" else "",
        )


def _collapse(board: Board, net: Net) -> None:
    """Write the single affine layer that computes the same as the two layers."""
    board.section = "Two layers without an activation are one layer"
    weights = net.weights()
    weight = net.output.weight.detach() @ weights["W"]
    bias = net.output.weight.detach() @ weights["b"] + weights["c"]
    one = MLP(MLPConfig(inputs=net.x.shape[1], hidden=(), outputs=len(bias))).double()
    with torch.no_grad():
        one.output.linear.weight.copy_(weight)
        one.output.linear.bias.copy_(bias)
        output = one(net.x)
    values: dict[str, Tensor | str] = {"W": weights["W"], "b": weights["b"], "c": weights["c"]}
    values |= {"V": net.output.weight.detach(), "x": net.x if net.rows > 1 else net.x[0]}
    values |= {"W1": weight, "b1": bias[None] if net.rows > 1 else bias}
    symbols = {"V": r"v^{\top}" if net.one else "V", "W1": "W'", "b1": "b'"}
    symbols |= {"x": _symbols(net)["x"]}
    last = r"<x> <W1>^{\top} + <b1>" if net.rows > 1 else "<W1> <x> + <b1>"
    for symbol, title, template, value, name in (
        ("W'", "Collapsed weights: the product of the two matrices", "<V> <W>", weight,
         "collapsed W"),
        ("b'", "Collapsed bias: the first bias, passed through the second layer", "<V> <b> + <c>",
         bias, "collapsed b"),
        (_symbols(net)["out"], "Output of the single layer: the same as above", last,
         output if net.rows > 1 else output[0], "collapsed output"),
    ):  # fmt: skip
        board.step(title, symbol, template, value, values, symbols=symbols, name=name)


def backward(board: Board, net: Net, trace: Trace, loss: Tensor, target: Tensor) -> None:
    """Write the gradients from the loss back to every parameter, and set their `.grad`."""
    z, h = trace["layers.0.dense.preactivation"], trace["layers.0.dense.activation"]
    out = trace["output.dense.preactivation"]
    d_tensors = torch.autograd.grad(loss, [out, h, z], retain_graph=True)
    (slope,) = torch.autograd.grad(ACTIVATIONS[net.activation](z).sum(), z, retain_graph=True)
    loss.backward()
    tensors = {"x": net.x, "h": h, "z": z, "out": out, "delta": d_tensors[0], "dh": d_tensors[1]}
    tensors |= {"dz": d_tensors[2], "slope": slope}
    values: dict[str, Tensor | str] = {
        name: value.detach()[0] if net.rows == 1 else value.detach()
        for name, value in tensors.items()
    }
    if net.rows > 1 and net.one:  # columns, as vectors
        values |= {name: tensors[name].detach()[:, 0] for name in ("out", "delta")}
    values |= {"y": target, "v": net.weights()[net.out]}
    values |= {"n": torch.tensor(float(net.rows)), "ones": torch.ones(net.rows)}
    templates, act = _ONE if net.rows == 1 else _ROWS, SYMBOLS[net.activation]
    symbols = _symbols(net)
    symbols |= {"delta": r"\delta", "slope": f"{act}'({symbols['z']})", "v": net.out}
    symbols |= {"dh": gradient(symbols["h"]), "dz": gradient(symbols["z"]), "ones": r"\mathbf{1}"}

    def write(symbol: str, title: str, template: str, value: Tensor | str, name: str) -> None:
        assert isinstance(value, Tensor)
        board.step(title, symbol, template, value, values, symbols=symbols, name=name)

    def grad(of: str, title: str, template: str, value: Tensor | str) -> None:
        letter = symbols.get(of, of)
        write(gradient(letter), f"Gradient of ${letter}$: {title}", template, value, f"dL/d{of}")

    slopes = net.slopes()
    summed = "" if net.rows == 1 else ", summed over the inputs"
    board.section = "Backward"
    title = "Delta: the error of the output, which is the gradient of the loss with respect to it"
    write(r"\delta", title, templates["delta"], values["delta"], "delta")
    grad(net.out, f"the error times the input of the layer{summed}", templates[net.out],
         slopes[net.out])  # fmt: skip
    grad("c", f"the error itself{summed}", templates["c"], slopes["c"])
    back = templates["h" if net.one else "h of many"]
    grad("h", "the error, propagated back through the weights", back, values["dh"])
    title = f"Slope of the activation at ${symbols['z']}$"
    write(symbols["slope"], title, SLOPES[net.activation], values["slope"], "slope")
    grad("z", "through the activation, entry by entry", r"<dh> \odot <slope>", values["dz"])
    grad("W", f"each error times each input{summed}", templates["W"], slopes["W"])
    grad("b", f"the same without the input{summed}", templates["b"], slopes["b"])


def descend(board: Board, net: Net, rate: Tensor) -> None:
    """Write one step of gradient descent, computed by torch's SGD."""
    board.section = "One step of gradient descent"
    before, slopes = net.weights(), net.slopes()
    torch.optim.SGD(net.model.parameters(), lr=rate.item()).step()
    for name, after in net.weights().items():
        write_update(board, name, before[name], slopes[name], rate, after)


def _sweep(board: Board, net: Net, target: Tensor, rates: list[float], steps: int) -> str:
    """Write the loss over several steps for each learning rate; return a closing sentence."""
    board.section = "Learning rates"
    runs = {rate: _descent(net, target, rate, steps) for rate in rates}
    header = ("step", *(rf"$\eta = {board.writer.number(rate)}$" for rate in rates))
    for name, title in (("loss", "Loss"), ("active", "Hidden units that are active")):
        if name == "active" and net.activation != "relu":
            continue
        rows = [
            (str(i), *(board.number(run[name][i], 0.0) for run in runs.values()))
            for i in range(steps + 1)
        ]
        board.table(
            f"{title} after each step of gradient descent",
            SolutionTable(header, tuple(rows)),
            name=f"sweep of the {name}" if name == "loss" else "active units",
            value=[_json(run[name]) for run in runs.values()],
        )
    last = {rate: run["loss"][-1] for rate, run in runs.items()}
    remarks = {rate: _remark(run) for rate, run in runs.items()}
    board.table(
        "How each learning rate behaves",
        SolutionTable(
            (r"$\eta$", "last loss", "behaviour"),
            tuple(
                (board.number(rate), board.number(last[rate], 0.0), remark)
                for rate, remark in remarks.items()
            ),
        ),
        name="sweep",
        value=[
            {"rate": rate, "behaviour": remarks[rate],
             **{name: _json(values) for name, values in run.items()}}
            for rate, run in runs.items()
        ],
    )  # fmt: skip
    best = min(rates, key=lambda rate: (math.isnan(last[rate]), last[rate]))
    return (
        f"After {many(steps, 'step')}, the loss is smallest with $\\eta$ = {board.number(best)}: "
        f"{board.number(last[best], 0.0)}."
    )


def _json(values: list[float]) -> Value:
    return plain(torch.tensor(values, dtype=torch.float64))


def _descent(net: Net, target: Tensor, rate: float, steps: int) -> dict[str, list[float]]:
    """Run SGD from the given parameters. Return the loss, the first output, and the number of units
    that any input activates, before the first step and after each step."""
    net = deepcopy(net)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=rate)
    run: dict[str, list[float]] = {"loss": [], "output": [], "active": []}
    for step in range(steps + 1):
        trace = Trace()
        output = net.model(net.x, trace)
        loss = loss_of(output, target)
        hidden = trace["layers.0.dense.activation"]
        run["loss"].append(loss.item())
        run["output"].append(output.flatten()[0].item())
        run["active"].append(float((hidden > 0).any(dim=0).sum()))
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return run


def _remark(run: dict[str, list[float]]) -> str:
    losses, active = run["loss"], run["active"]
    if not losses[-1] <= losses[0]:  # also if it is NaN
        return "diverges"
    if active[0] and not active[-1]:
        return f"from step {active.index(0)}, no unit is active and only c learns"
    rises = [i for i in range(1, len(losses)) if losses[i] > losses[i - 1] * (1 + 1e-9)]
    if rises:
        return f"the loss rises at step {rises[0]}"
    outputs = run["output"]
    if any((a - outputs[-1]) * (b - outputs[-1]) < 0 for a, b in pairwise(outputs[:-1])):
        return "overshoots, but converges"
    return "slow" if losses[-1] > losses[0] / 2 else "converges"
