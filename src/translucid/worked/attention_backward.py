"""The backward pass of attention, with the Jacobian of the softmax.

The formulas are defined here; the numbers come from autograd on the real part.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from translucid.core.catalogue import fill
from translucid.core.trace import Trace
from translucid.parts.activations import softmax
from translucid.worked.board import Board, gradient, squared_loss

_JACOBIAN = 8  # with more keys than this, the Jacobian of one row is not written out


@dataclass(frozen=True)
class AttentionGraph:
    """Queries, keys and values, and what they were computed from, with their autograd graph."""

    query: Tensor
    key: Tensor
    value: Tensor
    x: Tensor | None = None
    layers: Mapping[str, Tensor] = field(default_factory=dict)  # as in a layer: the transpose of W

    @property
    def points(self) -> dict[str, Tensor]:
        return {"Q": self.query, "K": self.key, "V": self.value}


def backward(
    board: Board,
    graph: AttentionGraph,
    trace: Trace,
    values: Mapping[str, Tensor | str],
    target: Tensor,
) -> str:
    """Write the gradients from the loss back to the inputs; return the result as a sentence."""
    board.section = "Loss"
    mixed = trace["attention.mixed"][0, 0]
    loss = squared_loss(board, "Y", mixed, target, "T")
    points = {n: trace[f"attention.{n}"] for n in ("mixed", "pattern", "masked", "scores")}
    leaves = [] if graph.x is None else [graph.x, *graph.layers.values()]
    gradients = torch.autograd.grad(loss, [*points.values(), *graph.points.values(), *leaves])
    d_points = {n: g[0, 0] for n, g in zip(points, gradients, strict=False)}
    d_query, d_key, d_value, *leaf_gradients = gradients[len(points) :]
    pattern = trace["attention.pattern"][0, 0].detach()

    last = _last_scores(trace)
    weighted = (pattern * d_points["pattern"]).sum(dim=1, keepdim=True)
    known = {
        "A": pattern, "Y": mixed.detach(), "T": target, "dY": d_points["mixed"],
        "dA": d_points["pattern"], "dM": d_points["masked"], "dS": d_points["scores"],
        "r": weighted, "s": trace["attention.scale"], "dQ": d_query, "dK": d_key, "dV": d_value,
        **{name: tensor.detach() for name, tensor in graph.points.items()},
    }  # fmt: skip
    symbols = {name: name for name in known}
    symbols |= {f"d{name}": gradient(name) for name in "YASQKV"} | {"dM": gradient(last)}

    def write(symbol: str, title: str, template: str, value: Tensor, name: str) -> None:
        board.step(
            title, symbol, template, value, known | dict(values), symbols=symbols, name=name,
            noise=0.0,
        )  # fmt: skip

    def grad(of: str, title: str, template: str, value: Tensor) -> None:
        write(gradient(of), f"Gradient of ${of}$: {title}", template, value, f"dL/d{of}")

    board.section = "Backward through the weighted mean"
    grad("Y", "the distance to the target", "<Y> - <T>", d_points["mixed"])
    grad("V", "each value by its weight in each output", r"<A>^{\top} <dY>", d_value)
    grad("A", "how well each value matches each error", r"<dY> <V>^{\top}", d_points["pattern"])

    board.section = "Backward through the softmax, row by row"
    scores = trace["attention.masked"][0, 0].detach()
    _write_jacobian(board, scores, pattern, d_points["pattern"], d_points["masked"], last)
    title = r"Mean of each row of $\frac{\partial L}{\partial A}$, weighted by $A$"
    write("r", title, r"\textstyle\sum_k (<A> \odot <dA>)", weighted, "r")
    title = "all rows at once, the same as the Jacobian of each row"
    grad(last, title, r"<A> \odot (<dA> - <r>)", d_points["masked"])

    board.section = "Backward through the scores"
    if last != "S":
        hidden = ", and 0 where the mask hides a key" if last == "S''" else ""
        scaled = float(trace["attention.scale"]) != 1
        template = r"<s> \cdot <dM>" if scaled else "<dM>"
        title = "times the scale" if scaled else "unchanged"
        grad("S", title + hidden, template, d_points["scores"])
    grad("Q", "each query gets back the keys, weighted by the gradients of its scores", "<dS> <K>", d_query)
    grad("K", "each key gets back the queries", r"<dS>^{\top} <Q>", d_key)
    if graph.x is not None:
        board.section = "Backward through the projections"
        _write_projections(board, graph, values, known, symbols, leaf_gradients)
    return f"The loss is {board.number(loss.item())}."


def _last_scores(trace: Trace) -> str:
    """The symbol of the scores that enter the softmax."""
    hidden = not bool(trace["attention.mask"].all())
    scaled = float(trace["attention.scale"]) != 1
    return "S''" if hidden else "S'" if scaled else "S"


def _write_jacobian(
    board: Board, scores: Tensor, pattern: Tensor, d_a: Tensor, d_s: Tensor, symbol: str
) -> None:
    """Write the Jacobian of the softmax for the second row, and the gradient through it."""
    if pattern.shape[1] > _JACOBIAN:
        return
    row = min(1, len(pattern) - 1)
    index = row + 1
    jacobian = torch.autograd.functional.jacobian(lambda s: softmax(s, Trace()), scores[row])
    values = {"a": pattern[row], "da": d_a[row], "J": jacobian}
    symbols = {"a": f"a_{index}", "J": f"J_{index}", "da": gradient(f"a_{index}")}
    board.step(
        f"Jacobian of the softmax for row {index}: row {index} of $A$ as a vector $a_{index}$",
        symbols["J"],
        r"\mathrm{diag}(<a>) - <a> <a>^{\top}",
        jacobian,
        values,
        symbols=symbols,
        name="jacobian",
        note="Entry (i, j) says how weight i changes with score j; each row and column sums to 0.",
        noise=1e-15,
    )
    vector = symbol.replace("S", "s", 1)
    base, primes = vector[0], vector[1:]
    board.step(
        f"Gradient of row {index} of the scores: through the Jacobian",
        gradient(f"{base}{primes}_{index}"),
        "<J> <da>",
        d_s[row],
        values,
        symbols=symbols,
        name=f"dL/ds_{index}",
        noise=0.0,
    )


def _write_projections(
    board: Board,
    graph: AttentionGraph,
    values: Mapping[str, Tensor | str],
    known: Mapping[str, Tensor],
    symbols: Mapping[str, str],
    gradients: list[Tensor],
) -> None:
    """Write the gradients of the weights and of X."""
    d_x, *d_layers = gradients
    assert graph.x is not None
    every: dict[str, Tensor | str] = {**known, **values, "X": graph.x.detach()}
    symbols = {**symbols, "X": "X", **{name: name for name in graph.layers}}
    for name, d_layer in zip(graph.layers, d_layers, strict=True):
        board.step(
            f"Gradient of ${name}$: each input times each gradient",
            gradient(name),
            rf"<X>^{{\top}} <d{name[-1]}>",
            d_layer.T,
            every,
            symbols=symbols,
            name=f"dL/d{name}",
            noise=0.0,
        )
    paths = [
        f"<d{name[-1]}>" if every[name] == "I" else rf"<d{name[-1]}> <{name}>^{{\top}}"
        for name in graph.layers
    ]
    formula = " + ".join(rf"<d{name[-1]}> <{name}>^{{\top}}" for name in graph.layers)
    board.step(
        "Gradient of $X$: all three paths",
        gradient("X"),
        " + ".join(paths),
        d_x,
        every,
        symbols=symbols,
        formula=fill(formula, "", symbols),
        name="dL/dX",
        noise=0.0,
    )
