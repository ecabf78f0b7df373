"""The network of the exercises `mlp` and `gradcheck`: one hidden layer with the user's weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.errors import InputError, nearest
from translucid.models.mlp import MLP, MLPConfig
from translucid.parts.activations import ActivationName
from translucid.parts.feedforward import Dense
from translucid.worked.solution.numbers import (
    Completed,
    Numbers,
    complete,
    many,
    matrix,
    shape,
    vector,
)

EXAMPLE = {
    "x": "1 0 2", "w": "1 -1 0; 0 2 1", "b": "0 1", "v": "2 -1", "c": "0", "y": "3", "rate": "0.02",
}  # fmt: skip


def with_example(given: dict[str, Numbers | None]) -> Completed:
    """Complete the numbers of a network from the built-in example."""
    return complete(given, EXAMPLE, ("x", "w", "v"))


@dataclass(frozen=True)
class Net:
    """The model, its inputs, and its parameters by their usual symbols."""

    model: MLP
    x: Tensor  # (rows, inputs)
    activation: ActivationName

    @property
    def rows(self) -> int:
        """The number of inputs; the solution writes a single input as a column."""
        return len(self.x)

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
    def plain(self) -> bool:
        """Whether the plain numpy program covers this network: one input, one output and ReLU."""
        return self.rows == 1 and self.one and self.activation == "relu"

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
    weight, out = matrix(w, "w"), matrix(v, "v")
    inputs = matrix(x, "x")
    if inputs.shape[1] == 1 and weight.shape[1] == len(inputs):  # one input, as a column
        inputs = inputs.T
    hidden = weight.shape[0]
    if out.numel() == hidden and 1 in out.shape:  # one output, as a row or as a column
        out = out.reshape(1, hidden)
    bias = torch.zeros(hidden, dtype=torch.float64) if b is None else vector(b, "b")
    last = torch.zeros(len(out), dtype=torch.float64) if c is None else vector(c, "c")
    with numbers.fitting():
        _check(inputs, weight, bias, out, last)
    config = MLPConfig(inputs=inputs.shape[1], hidden=(hidden,), outputs=len(out), activation=act)
    net = Net(MLP(config).double(), inputs, act)
    with torch.no_grad():
        net.hidden.weight.copy_(weight)
        net.hidden.bias.copy_(bias)
        net.output.weight.copy_(out)
        net.output.bias.copy_(last)
    return net


def read_target(numbers: Completed, net: Net) -> Tensor | None:
    """The targets, one for each output and row of x, as (outputs,) or (rows, outputs)."""
    if numbers["y"] is None:
        return None
    target, outputs = matrix(numbers["y"], "y"), net.output.out_features
    if target.numel() == net.rows * outputs and 1 in (net.rows, outputs):
        target = target.reshape(net.rows, outputs)
    if target.shape != (net.rows, outputs):
        per_row = "" if net.rows == 1 else f" for each of the {net.rows} rows of x"
        got = f"has {many(target.numel())}" if 1 in target.shape else f"is {shape(target)}"
        with numbers.fitting():
            raise InputError(f"y {got}, but v has {many(outputs, 'output')}{per_row}")
    return target[0] if net.rows == 1 else target.squeeze(1)


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """Half the squared error, averaged over the rows: 1/(2n) Σ (y - ŷ)²."""
    return F.mse_loss(output, target.reshape(output.shape), reduction="sum") / (2 * len(output))


def _check(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor) -> None:
    if w.shape[1] != x.shape[1]:
        what = f"has {many(x.numel())}" if len(x) == 1 else f"is {shape(x)}"
        unit = "number" if len(x) == 1 else "column"
        raise InputError(f"x {what} and w is {shape(w)}: w needs one column for each {unit} of x")
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
