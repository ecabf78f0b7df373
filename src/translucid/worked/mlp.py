"""A network with one hidden layer: forward, loss, backward, one step of gradient descent."""

from typing import Literal

from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.spelling import quoted
from translucid.core.trace import Trace
from translucid.parts.activations import SYMBOLS
from translucid.worked.backprop import backward, descend
from translucid.worked.board import Board
from translucid.worked.descent import check_rate, compare, squared_loss
from translucid.worked.net import Net, read_net
from translucid.worked.solution.numbers import Number, Numbers, many, vector
from translucid.worked.solution.solution import Solution

EXAMPLE = {
    "x": "1 0 2", "w": "1 -1 0; 0 2 1", "b": "0 1", "v": "2 -1", "c": "0", "y": "3", "rate": "0.02",
}  # fmt: skip


def mlp(
    x: Numbers | None = None,
    w: Numbers | None = None,
    b: Numbers | None = None,
    v: Numbers | None = None,
    c: Numbers | None = None,
    y: Numbers | None = None,
    rate: Number | None = None,
    *,
    activation: Literal["relu", "tanh", "sigmoid", "identity", "gelu", "silu"] | None = None,
    digits: int = 4,
) -> Solution:
    """A network with one hidden layer.

    Forward, ŷ = vᵀ act(W x + b) + c, loss (y - ŷ)²/2, backward, one SGD step, forward again.

    x: The input.
    w: W, one row for each unit.
    b: b, one number for each unit (0).
    v: v, from the units to the output; for several outputs one row for each.
    c: c, the bias of the output (0).
    y: The right answer: loss and gradients.
    rate: Learning rate: make one SGD step (no step).

    Example: translucid work mlp --x "1 0 2" --w "1 -1 0; 0 2 1" --b "0 1" --v "2 -1" --y 3
    --rate 0.02
    """
    example = all(numbers is None for numbers in (x, w, b, v, c, y))
    asked = rate is not None or activation is not None
    if example:
        x, w, b, v, c, y = (EXAMPLE[name] for name in ("x", "w", "b", "v", "c", "y"))
        rate = EXAMPLE["rate"] if rate is None else rate
    net = read_net(x, w, b, v, c, activation or "relu")
    outputs = net.output.out_features
    target = None if y is None else vector(y, "y")
    if target is not None and len(target) != outputs:
        raise InputError(f"y has {many(len(target))}, but v gives {many(outputs, 'output')}")
    speed = check_rate(rate, "y", target)

    board = Board(digits)
    _given(board, net, target, speed)
    closing = _work(board, net, target, speed)
    return board.solution(
        title=f"A network of {many(len(net.x), 'input')}, "
        f"{many(net.hidden.out_features, 'hidden unit')} and {many(outputs, 'output')}",
        closing=closing,
        next="translucid work rnn" if speed == 0.1 else "translucid work mlp --rate 0.1",
        more="" if speed == 0.1 else _more(target, outputs),
        example=example,
        asked=asked,
    )


def _more(target: Tensor | None, outputs: int) -> str:
    right = f"--y {quoted(' '.join(['1'] * outputs))} " if target is None else ""
    return f"{right}--rate 0.1"


def _work(board: Board, net: Net, target: Tensor | None, rate: Tensor | None) -> str:
    """All steps; what came of it, in a sentence."""
    board.section = "Forward" if target is not None else ""
    trace, loss = _forward(board, net, target)
    if target is None or loss is None:
        output = trace["output.dense.preactivation"][0].tolist()
        return f"The output is {', '.join(board.number(value) for value in output)}."
    backward(board, net, trace, loss, target)
    if rate is None:
        return f"The loss is {board.number(loss.item())}."
    descend(board, net, rate)
    board.section = "Forward again, with the new parameters"
    _, after = _forward(board, net, target)
    assert after is not None
    return compare(board, loss, after)


def _given(board: Board, net: Net, target: Tensor | None, rate: Tensor | None) -> None:
    board.state("x", net.x)
    for symbol, value in net.weights().items():
        board.state(symbol, value)
    if target is not None:
        board.state("y", target)
    if rate is not None:
        board.state(r"\eta", rate, name="rate")


def _forward(board: Board, net: Net, target: Tensor | None) -> tuple[Trace, Tensor | None]:
    trace = Trace()
    output = net.model(net.x[None], trace)[0]
    weights, act = net.weights(), SYMBOLS[net.activation]
    z, h = (trace[f"layers.0.dense.{n}"][0].detach() for n in ("preactivation", "activation"))
    values: dict[str, Tensor | str] = {"W": weights["W"], "x": net.x, "b": weights["b"]}
    values |= {"preactivation": z, "activation": h, "act": act}
    for point in ("preactivation", "activation"):
        board.point(f"layers.0.dense.{point}", values, {"act": act})
    board.point(
        "output.dense.preactivation",
        {
            "W": net.output.weight.detach(),
            "x": h,
            "b": weights["c"],
            "preactivation": output.detach(),
        },
        {
            "W": r"v^{\top}" if net.one else "V",
            "x": "h",
            "b": "c",
            "preactivation": r"\hat{y}",
        },
        label="Output",
    )
    if target is None:
        return trace, None
    return trace, squared_loss(board, r"\hat{y}", output, target, "y")
