"""A network with one hidden layer, as an exercise gives it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError, nearest
from translucid.core.spelling import Missing
from translucid.models.mlp import MLP, MLPConfig
from translucid.parts.activations import ActivationName
from translucid.parts.feedforward import Dense
from translucid.worked.solution.numbers import Numbers, many, matrix, shape, vector


@dataclass(frozen=True)
class Net:
    """The real model, its input, and its parameters as a person writes them."""

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
        """Is there a single output? Then its weights are a column v, else a matrix V."""
        return self.output.out_features == 1

    @property
    def out(self) -> str:
        return "v" if self.one else "V"

    def weights(self) -> dict[str, Tensor]:
        """The parameters, as they are now."""
        return self._named(lambda parameter: parameter.detach().clone())

    def slopes(self) -> dict[str, Tensor]:
        """Their gradients, after a backward pass."""

        def slope(parameter: Tensor) -> Tensor:
            assert parameter.grad is not None
            return parameter.grad

        return self._named(slope)

    def _named(self, read: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        last = read(self.output.weight)
        hidden = {"W": read(self.hidden.weight), "b": read(self.hidden.bias)}
        return hidden | {self.out: last[0] if self.one else last, "c": read(self.output.bias)}


def read_net(
    x: Numbers | None,
    w: Numbers | None,
    b: Numbers | None,
    v: Numbers | None,
    c: Numbers | None,
    activation: str,
) -> Net:
    """The network with the given weights; b and c are 0 unless given."""
    act = _activation(activation)
    missing = [name for name, numbers in (("x", x), ("w", w), ("v", v)) if numbers is None]
    if x is None or w is None or v is None:
        are = "is" if len(missing) == 1 else "are"
        raise Missing(
            f"{' and '.join(missing)} {are} missing: a network needs x, w and v", ("x", "w", "v")
        )
    if _is_stack(w):
        raise InputError("w holds several matrices, but one hidden layer is worked out here")
    inputs, weight, out = vector(x, "x"), matrix(w, "w"), matrix(v, "v")
    hidden = weight.shape[0]
    if out.numel() == hidden and 1 in out.shape:  # one output, as a row or as a column
        out = out.reshape(1, hidden)
    bias = torch.zeros(hidden, dtype=torch.float64) if b is None else vector(b, "b")
    last = torch.zeros(len(out), dtype=torch.float64) if c is None else vector(c, "c")
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
        raise InputError(f"v is {shape(v)} and c has {many(len(c))}: c needs one for each output")


def _activation(name: str) -> ActivationName:
    names: tuple[ActivationName, ...] = get_args(ActivationName)
    for known in names:
        if known == name:
            return known
    close = nearest(name, names, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise InputError(f"activation = {name}: there are {', '.join(names)}{hint}")


def _is_stack(w: Numbers) -> bool:
    """Several matrices, one for each of several layers?"""
    if isinstance(w, Tensor):
        return w.dim() > 2
    first = w[0] if isinstance(w, Sequence) and not isinstance(w, str) and len(w) else None
    return isinstance(first, Sequence) and bool(first) and isinstance(first[0], Sequence)
