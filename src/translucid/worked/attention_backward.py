"""The backward pass of attention, with the Jacobian of the softmax.

The formulas are defined here; the numbers come from autograd on the real part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from translucid.core.catalogue import fill
from translucid.core.trace import Trace
from translucid.parts.activations import softmax
from translucid.parts.attention import SelfAttention
from translucid.worked.board import Board, gradient, squared_loss
from translucid.worked.heads import columns, join_heads

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


_SYMBOLS = {"mixed": "Y", "pattern": "A", "masked": "M", "scores": "S"}  # of the trace points


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
    points = [trace[f"attention.{name}"] for name in _SYMBOLS]
    leaves = [] if graph.x is None else [graph.x, *graph.layers.values()]
    gradients = torch.autograd.grad(loss, [*points, *graph.points.values(), *leaves])
    slopes = {s: g[0, 0] for s, g in zip(_SYMBOLS.values(), gradients, strict=False)}
    slopes |= dict(zip("QKV", gradients[len(points) :], strict=False))
    board.section = "Backward through the weighted mean"
    _write_error(board, "Y", mixed, target, slopes["Y"])
    rows = {name: tensor.detach() for name, tensor in graph.points.items()}
    _write_head(board, trace, 0, rows, slopes)
    if graph.x is not None:
        board.section = "Backward through the projections"
        leaf_gradients = list(gradients[len(points) + 3 :])
        _write_projections(board, graph.x, list(graph.layers), values, slopes, leaf_gradients)
    return f"The loss is {board.number(loss.item())}."


def backward_of_heads(
    board: Board,
    part: SelfAttention,
    x: Tensor,
    trace: Trace,
    values: Mapping[str, Tensor | str],
    target: Tensor,
) -> str:
    """Write the gradients of several heads, from the loss back to the weights and x; return the
    result as a sentence. values: the weights by symbol, or their symbols."""
    board.section = "Loss"
    output = trace["attention.output"][0]
    loss = squared_loss(board, "O", output, target, "T")
    names = [*_SYMBOLS, "query", "key", "value"]
    points = [trace[f"attention.{name}"] for name in names]
    weights = [part.qkv.weight, part.output.weight]
    gradients = torch.autograd.grad(loss, [output, *points, x, *weights])
    d_output, of_points, (d_x, d_qkv, d_w_o) = gradients[0], gradients[1:-3], gradients[-3:]
    symbols = [*_SYMBOLS.values(), *"QKV"]
    every = {s: g[0] for s, g in zip(symbols, of_points, strict=True)}  # (heads, ...)

    board.section = "Backward through the output"
    _write_error(board, "O", output, target, d_output)
    d_mixed = join_heads(every["Y"][None])
    owners = ", ".join(
        f"{columns(part, i)} are ${gradient(f'Y_{i + 1}')}$" for i in range(part.heads)
    )
    known = {"C": join_heads(trace["attention.mixed"].detach()), "dO": d_output, **values}
    for of, title, template, value, note in (
        (
            "W_O",
            "the outputs of the heads, side by side, times the errors",
            r"<C>^{\top} <dO>",
            d_w_o.T,
            rf"$C = \mathrm{{concat}}({', '.join(f'Y_{i + 1}' for i in range(part.heads))})$.",
        ),
        (
            "C",
            "the error of every head, through its own rows of $W_O$",
            "<dO>" if values["W_O"] == "I" else r"<dO> <W_O>^{\top}",
            d_mixed,
            f"{owners[0].upper()}{owners[1:]}.",
        ),
    ):
        board.step(
            f"Gradient of ${of}$: {title}", gradient(of), template, value, known,
            symbols={"C": "C", "dO": gradient("O"), "W_O": "W_O"}, name=f"dL/d{of}", noise=0.0,
            note=note,
        )  # fmt: skip
    for i in range(part.heads):
        board.section = f"Backward through head {i + 1}"
        rows = {s: trace[f"attention.{name}"][0, i].detach()
                for s, name in zip("QKV", ("query", "key", "value"), strict=True)}  # fmt: skip
        _write_head(board, trace, i, rows, {s: g[i] for s, g in every.items()}, f"_{i + 1}")
    board.section = "Backward through the projections, all heads side by side"
    joined = {s: join_heads(every[s][None]) for s in "QKV"}
    leaf_gradients = [d_x, *d_qkv.chunk(3)]
    _write_projections(board, x, ["W_Q", "W_K", "W_V"], values, joined, leaf_gradients)
    return f"The loss is {board.number(loss.item())}."


def _write_error(board: Board, symbol: str, output: Tensor, target: Tensor, slope: Tensor) -> None:
    board.step(
        f"Gradient of ${symbol}$: the distance to the target", gradient(symbol), "<Y> - <T>", slope,
        {"Y": output.detach(), "T": target}, symbols={"Y": symbol, "T": "T"},
        name=f"dL/d{symbol}", noise=0.0,
    )  # fmt: skip


def _write_head(
    board: Board,
    trace: Trace,
    head: int,
    rows: Mapping[str, Tensor],
    slopes: Mapping[str, Tensor],
    suffix: str = "",
) -> None:
    """Write the gradients of one head, from its output to its queries and keys.

    rows: Q, K and V. slopes: the gradients by symbol. suffix: added to symbols if there are several
    heads, whose steps then have one section.
    """
    pattern = trace["attention.pattern"][0, head].detach()
    last = _last_scores(trace)
    weighted = (pattern * slopes["A"]).sum(dim=1, keepdim=True)
    known = {"A": pattern, "r": weighted, "s": trace["attention.scale"], **rows}
    known |= {f"d{symbol}": slope for symbol, slope in slopes.items()}
    symbols = {name: f"{name}{suffix}" for name in known} | {"s": "s"}
    symbols |= {f"d{name}": gradient(f"{name}{suffix}") for name in slopes}
    symbols["dM"] = gradient(f"{last}{suffix}")

    def section(title: str) -> None:
        if not suffix:
            board.section = title

    def write(symbol: str, title: str, template: str, value: Tensor, name: str) -> None:
        board.step(
            title, symbol, template, value, known, symbols=symbols, name=f"{name}{suffix}",
            noise=0.0,
        )  # fmt: skip

    def grad(of: str, title: str, template: str) -> None:
        shown = f"{last if of == 'M' else of}{suffix}"
        name = f"dL/d{last if of == 'M' else of}"
        write(gradient(shown), f"Gradient of ${shown}$: {title}", template, slopes[of], name)

    grad("V", "each value by its weight in each output", r"<A>^{\top} <dY>")
    grad("A", "how well each value matches each error", r"<dY> <V>^{\top}")

    section("Backward through the softmax, row by row")
    if not suffix:
        scores = trace["attention.masked"][0, head].detach()
        _write_jacobian(board, scores, pattern, slopes["A"], slopes["M"], last)
    title = rf"Mean of each row of ${symbols['dA']}$, weighted by ${symbols['A']}$"
    write(symbols["r"], title, r"\textstyle\sum_k (<A> \odot <dA>)", weighted, "r")
    same = "" if suffix else ", the same as the Jacobian of each row"
    grad("M", f"all rows at once{same}", r"<A> \odot (<dA> - <r>)")

    section("Backward through the scores")
    if last != "S":
        hidden = ", and 0 where the mask hides a key" if last == "S''" else ""
        scaled = float(trace["attention.scale"]) != 1
        title = "times the scale" if scaled else "unchanged"
        grad("S", title + hidden, r"<s> \cdot <dM>" if scaled else "<dM>")
    grad("Q", "each query gets back the keys, weighted by the gradients of its scores", "<dS> <K>")
    grad("K", "each key gets back the queries", r"<dS>^{\top} <Q>")


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
    x: Tensor,
    names: Sequence[str],
    values: Mapping[str, Tensor | str],
    slopes: Mapping[str, Tensor],
    gradients: list[Tensor],
) -> None:
    """Write the gradients of the weights and of X. slopes: of Q, K and V."""
    d_x, *d_layers = gradients
    every: dict[str, Tensor | str] = {f"d{symbol}": slope for symbol, slope in slopes.items()}
    every |= {**values, "X": x.detach()}
    symbols = {"X": "X", **{f"d{symbol}": gradient(symbol) for symbol in slopes}}
    symbols |= {name: name for name in names}
    for name, d_layer in zip(names, d_layers, strict=True):
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
        for name in names
    ]
    formula = " + ".join(rf"<d{name[-1]}> <{name}>^{{\top}}" for name in names)
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
