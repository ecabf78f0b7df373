"""The numbers of layers that act on each position alone: norms, residual sums, feed-forward, dense
layers, the perceptron."""

from collections.abc import Callable

from torch import Tensor

from translucid.models.mlp import MLP
from translucid.parts.activations import ACTIVATIONS
from translucid.parts.feedforward import Dense, FeedForward, GatedFeedForward
from translucid.parts.lora import LoRA
from translucid.parts.norms import BatchNorm, NoNorm, RMSNorm
from translucid.see.terms import wiring
from translucid.see.terms.computation import Computation, Index, Terms, dot, joined
from translucid.see.terms.expression import Expression, add, apply, constant, minus, over, times


def activation(function: Callable[[Tensor], Tensor], x: Expression) -> Expression:
    """act(x), by the name of the activation."""
    return apply(next(name for name, known in ACTIVATIONS.items() if known is function), x)


def norm(c: Computation, scope: str, point: str, index: Index) -> Expression:
    part, read = c.module(scope), wiring.into_norm(c, scope)
    *place, d = index
    x = c.number("x", read, *place, d if point in ("normalised", "output") else 0)
    if isinstance(part, NoNorm):
        return x
    if isinstance(part, BatchNorm) and point in ("mean", "variance"):
        return c.number(point, f"{scope}.running_{point}", d)
    whole = c.vector("x", read, *place, None)
    n = constant("n", len(whole.values))
    eps = constant("epsilon", part.eps)  # type: ignore[arg-type]

    def here(label: str) -> Expression:
        return c.number(label, f"{scope}.{label}", *index)

    match point:
        case "mean":
            return over(c.total(whole), n)
        case "variance":
            mean = here("mean")
            apart = Terms(
                (whole.values - whole.values.mean()) ** 2,
                lambda i: apply("^", minus(whole.at(i), mean), constant("2", 2)),
            )
            return over(c.total(apart), n)
        case "rms":
            squares = Terms(whole.values**2, lambda i: apply("^", whole.at(i), constant("2", 2)))
            return apply("sqrt", add(over(c.total(squares), n), eps))
        case "normalised":
            if isinstance(part, RMSNorm):
                return over(x, here("rms"))
            return over(minus(x, here("mean")), apply("sqrt", add(here("variance"), eps)))
        case "output":
            scaled = times(c.number("gain", f"{scope}.gain", d), here("normalised"))
            if getattr(part, "shift", None) is None:
                return scaled
            return add(scaled, c.number("beta", f"{scope}.shift", d))
    raise NotImplementedError(point)


def residual(c: Computation, scope: str, point: str, index: Index) -> Expression:
    match point:
        case "skip":
            return c.number("x", wiring.into_frame(c, scope), *index)
        case "branch":
            return c.number("f", f"{scope.removesuffix('_residual')}.output", *index)
    skip, branch = (c.number(name, f"{scope}.{name}", *index) for name in ("skip", "branch"))
    return add(skip, branch)


def feedforward(c: Computation, scope: str, point: str, index: Index) -> Expression:
    part = c.module(scope)
    assert isinstance(part, FeedForward | GatedFeedForward)
    row, place, d = index
    gated = isinstance(part, GatedFeedForward)

    def here(label: str) -> Expression:
        return c.number(label, f"{scope}.{label}", *index)

    def expanded(first: int, weight: str, bias: str) -> Expression:
        x = c.vector("x", wiring.into_part(c, scope), row, place, None)
        return c.linear(f"{scope}.expand", first + d, x, weight, bias)

    match point:
        case "hidden":  # the gate's rows come first
            return expanded(part.output.in_features if gated else 0, "W_1", "b_1")
        case "gate":
            return activation(part.activation, expanded(0, "W_g", "b_g"))
        case "activated" if gated:
            return times(here("gate"), here("hidden"))
        case "activated":
            return activation(part.activation, here("hidden"))
    activated = c.vector("activated", f"{scope}.activated", row, place, None)
    return c.linear(f"{scope}.output", d, activated, "W_2", "b_2")


def lora(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """An adapter, which reads what the layer reads beside which it stands."""
    (*place, d), part = index, c.module(scope)
    assert isinstance(part, LoRA)
    if point == "up":
        down = c.vector("down", f"{scope}.down", *place, None)
        return times(constant("scale", part.scale), c.linear(f"{scope}.up", d, down, "B"))
    read = wiring.into_linear(c, scope.removesuffix(".lora"))
    if not read.endswith(".mixed"):
        x = c.vector("activated" if read.endswith(".activated") else "x", read, *place, None)
    else:
        row, query = place
        count = c.tensor(read).shape[1]
        x = joined(*(c.vector("mixed", read, row, head, query, None) for head in range(count)))
    return c.linear(f"{scope}.down", d, x, "A")


def dense(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """A layer of an MLP."""
    path = scope.removesuffix(".dense")
    part, (*place, d) = c.module(path), index
    assert isinstance(part, Dense)
    match point:
        case "preactivation":
            x = c.vector("x", _into_dense(c, path), *place, None)
            return c.linear(f"{path}.linear", d, x)
        case "activation":
            return activation(
                part.activation, c.number("preactivation", f"{scope}.preactivation", *index)
            )
        case "skip":
            return c.number("x", _into_dense(c, path), *index)
    return add(*(c.number(name, f"{scope}.{name}", *index) for name in ("skip", "activation")))


def _into_dense(c: Computation, path: str) -> str:
    """What a layer of an MLP reads: the layer before, or the input."""
    network = c.network
    assert isinstance(network, MLP)
    number = len(network.layers) if path == "output" else int(path.rpartition(".")[2])
    if number == 0:
        return "standardise.output" if network.standardise is not None else "x"
    before = network.layers[number - 1]
    assert isinstance(before, Dense)
    return f"layers.{number - 1}.dense.{'sum' if before.residual else 'activation'}"


def standardise(c: Computation, scope: str, point: str, index: Index) -> Expression:
    x = c.number("x", "x", *index)
    mean, deviation = (
        c.number(name, f"{scope}.{name}", index[-1]) for name in ("mean", "deviation")
    )
    return over(minus(x, mean), deviation)


def perceptron(c: Computation, scope: str, point: str, index: Index) -> Expression:
    if point == "output":
        return apply(">", c.number("sum", f"{scope}.sum", *index), constant("0", 0))
    product = dot(c.vector("w", "weight", None), c.vector("x", "x", *index, None))
    return c.total(product, c.number("b", "bias"))
