"""Exercise: a network with one hidden layer: forward, loss, backward, one gradient descent step.

The formulas of the gradients are defined here; the numbers come from autograd on the real model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError, nearest
from translucid.core.spelling import quoted
from translucid.core.trace import Trace
from translucid.models.mlp import MLP, MLPConfig
from translucid.parts.activations import ACTIVATIONS, SYMBOLS, ActivationName
from translucid.parts.feedforward import Dense
from translucid.worked.board import Board, check_rate, compare, gradient, squared_loss, write_update
from translucid.worked.solution.numbers import (
    Completed,
    Number,
    Numbers,
    complete,
    many,
    matrix,
    shape,
    vector,
)
from translucid.worked.solution.solution import Solution

_SLOPES: dict[ActivationName, str] = {
    "identity": "1",
    "sigmoid": r"\sigma(<z>) \odot (1 - \sigma(<z>))",
    "tanh": r"1 - \tanh(<z>)^2",
    "relu": r"\mathbf{1}(<z> > 0)",
    "gelu": "",  # has no short form
    "silu": "",
    "gelu_tanh": "",
    "quick_gelu": "",
    "relu_squared": r"2 \max(0, <z>)",
}
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

    Computes ŷ = vᵀ act(W x + b) + c, the loss (y - ŷ)²/2, the gradients, and the loss after one SGD
    step.

    x: The input.
    w: W, one row for each unit.
    b: b, one number for each unit [default: 0].
    v: v, the weights from the units to the output; for several outputs, one row each.
    c: c, the bias of the output [default: 0].
    y: The target, for the loss and the gradients.
    rate: Make one SGD step with this learning rate.

    Example: translucid work mlp --x "1 0 2" --w "1 -1 0; 0 2 1" --b "0 1" --v "2 -1" --y 3
    --rate 0.02
    """
    given = {"x": x, "w": w, "b": b, "v": v, "c": c, "y": y, "rate": rate}
    numbers = complete(given, EXAMPLE, ("x", "w", "v"))
    net = read_net(numbers, activation or "relu")
    y, rate = numbers["y"], numbers["rate"]
    outputs = net.output.out_features
    target = None if y is None else vector(y, "y")
    if target is not None and len(target) != outputs:
        with numbers.fitting():
            raise InputError(f"y has {many(len(target))}, but v has {many(outputs, 'output')}")
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
        example=numbers.example,
        asked=numbers.asked or activation is not None,
    )


def _more(target: Tensor | None, outputs: int) -> str:
    right = f"--y {quoted(' '.join(['1'] * outputs))} " if target is None else ""
    return f"{right}--rate 0.1"


@dataclass(frozen=True)
class Net:
    """The model, its input, and its parameters by their usual symbols."""

    model: MLP
    x: Tensor  # (inputs,)
    activation: ActivationName

    @property
    def hidden(self) -> nn.Linear:
        layer = self.model.layers[0]
        assert isinstance(layer, Dense)
        return layer.linear

    @property
    def output(self) -> nn.Linear:
        return self.model.output.linear

    @property
    def one(self) -> bool:
        """Whether there is a single output, with weights v instead of a matrix V."""
        return self.output.out_features == 1

    @property
    def out(self) -> str:
        return "v" if self.one else "V"

    def weights(self) -> dict[str, Tensor]:
        """The current parameters, by symbol."""
        return self._named(lambda parameter: parameter.detach().clone())

    def slopes(self) -> dict[str, Tensor]:
        """The gradients of the parameters, by symbol, after a backward pass."""

        def slope(parameter: Tensor) -> Tensor:
            assert parameter.grad is not None
            return parameter.grad

        return self._named(slope)

    def _named(self, read: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        last = read(self.output.weight)
        hidden = {"W": read(self.hidden.weight), "b": read(self.hidden.bias)}
        return hidden | {self.out: last[0] if self.one else last, "c": read(self.output.bias)}


def read_net(numbers: Completed, activation: str) -> Net:
    """Build the network with the given weights; b and c default to 0."""
    act = _activation(activation)
    x, w, b, v, c = (numbers[name] for name in ("x", "w", "b", "v", "c"))
    if _is_stack(w):
        raise InputError("w contains several matrices, but this exercise has one hidden layer")
    inputs, weight, out = vector(x, "x"), matrix(w, "w"), matrix(v, "v")
    hidden = weight.shape[0]
    if out.numel() == hidden and 1 in out.shape:  # one output, as a row or as a column
        out = out.reshape(1, hidden)
    bias = torch.zeros(hidden, dtype=torch.float64) if b is None else vector(b, "b")
    last = torch.zeros(len(out), dtype=torch.float64) if c is None else vector(c, "c")
    with numbers.fitting():
        _check(inputs, weight, bias, out, last)
    config = MLPConfig(inputs=len(inputs), hidden=(hidden,), outputs=len(out), activation=act)
    net = Net(MLP(config).double(), inputs, act)
    with torch.no_grad():
        net.hidden.weight.copy_(weight)
        net.hidden.bias.copy_(bias)
        net.output.weight.copy_(out)
        net.output.bias.copy_(last)
    return net


def _check(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor) -> None:
    if w.shape[1] != len(x):
        raise InputError(
            f"x has {many(len(x))} and w is {shape(w)}: w needs one column for each number of x"
        )
    if v.shape[1] != len(w):
        raise InputError(
            f"w is {shape(w)} and v is {shape(v)}: v needs one number for each row of w ({len(w)})"
        )
    if len(b) != len(w):
        raise InputError(
            f"w is {shape(w)} and b has {many(len(b))}: b needs one number for each row of w"
        )
    if len(c) != len(v):
        raise InputError(
            f"v is {shape(v)} and c has {many(len(c))}: c needs one number for each output"
        )


def _activation(name: str) -> ActivationName:
    names: tuple[ActivationName, ...] = get_args(ActivationName)
    if name in names:
        return names[names.index(name)]
    close = nearest(name, names, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise InputError(f"activation = {name}: expected one of {', '.join(names)}{hint}")


def _is_stack(w: Numbers) -> bool:
    """Whether w contains several matrices, one for each layer."""
    if isinstance(w, Tensor):
        return w.dim() > 2
    first = w[0] if isinstance(w, Sequence) and not isinstance(w, str) and len(w) else None
    return isinstance(first, Sequence) and bool(first) and isinstance(first[0], Sequence)


def _given(board: Board, net: Net, target: Tensor | None, rate: Tensor | None) -> None:
    board.state("x", net.x)
    for symbol, value in net.weights().items():
        board.state(symbol, value)
    if target is not None:
        board.state("y", target)
    if rate is not None:
        board.state(r"\eta", rate, name="rate")


def _work(board: Board, net: Net, target: Tensor | None, rate: Tensor | None) -> str:
    """Write all steps of the exercise; return the result as a sentence."""
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


def backward(board: Board, net: Net, trace: Trace, loss: Tensor, target: Tensor) -> None:
    """Write the gradients from the loss back to every parameter, and set their `.grad`."""
    z, h = trace["layers.0.dense.preactivation"], trace["layers.0.dense.activation"]
    out = trace["output.dense.preactivation"]
    d_out, d_h, d_z = (g[0] for g in torch.autograd.grad(loss, [out, h, z], retain_graph=True))
    (slope,) = torch.autograd.grad(ACTIVATIONS[net.activation](z).sum(), z, retain_graph=True)
    loss.backward()
    values: dict[str, Tensor | str] = {
        "x": net.x, "h": h[0].detach(), "z": z[0].detach(), "y": target, "out": out[0].detach(),
        "v": net.weights()[net.out], "delta": d_out, "dh": d_h, "dz": d_z, "slope": slope[0],
    }  # fmt: skip
    act = SYMBOLS[net.activation]
    symbols = {"delta": r"\delta", "out": r"\hat{y}", "slope": f"{act}'(z)", "v": net.out}
    symbols |= {"dh": gradient("h"), "dz": gradient("z")}

    def write(symbol: str, title: str, template: str, value: Tensor, name: str) -> None:
        board.step(title, symbol, template, value, values, symbols=symbols, name=name)

    def grad(of: str, title: str, template: str, value: Tensor) -> None:
        write(gradient(of), f"Gradient of ${of}$: {title}", template, value, f"dL/d{of}")

    slopes = net.slopes()
    board.section = "Backward"
    title = "Delta: the error of the output, which is the gradient of the loss with respect to it"
    write(r"\delta", title, "<out> - <y>", d_out, "delta")
    template = "<delta> <h>" if net.one else r"<delta> <h>^{\top}"
    grad(net.out, "the error times the input of the layer", template, slopes[net.out])
    grad("c", "the error itself", "<delta>", slopes["c"])
    template = "<delta> <v>" if net.one else r"<v>^{\top} <delta>"
    grad("h", "the error, propagated back through the weights", template, d_h)
    title = "Slope of the activation at $z$"
    write(symbols["slope"], title, _SLOPES[net.activation], slope[0], "slope")
    grad("z", "through the activation, entry by entry", r"<dh> \odot <slope>", d_z)
    grad("W", "each error times each input", r"<dz> <x>^{\top}", slopes["W"])
    grad("b", "the same without the input", "<dz>", slopes["b"])


def descend(board: Board, net: Net, rate: Tensor) -> None:
    """Write one step of gradient descent, computed by torch's SGD."""
    board.section = "One step of gradient descent"
    before, slopes = net.weights(), net.slopes()
    torch.optim.SGD(net.model.parameters(), lr=rate.item()).step()
    for name, after in net.weights().items():
        write_update(board, name, before[name], slopes[name], rate, after)
