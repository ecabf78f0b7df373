"""Exercise: attention, forward and backward."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.parts.attention import attend
from translucid.worked import plain as in_numpy
from translucid.worked.attention_backward import AttentionGraph, backward
from translucid.worked.board import SHIFTED, STABLE, Board, run_softmax
from translucid.worked.heads import (
    NO_BIAS,
    complete_weights,
    head_values,
    mask_note,
    read_layout,
    read_target,
    state_inputs,
    title,
    visible,
    write_head,
)
from translucid.worked.multihead import multihead
from translucid.worked.plain import Program
from translucid.worked.solution.numbers import Numbers, complete, matrix, shape
from translucid.worked.solution.solution import Solution

EXAMPLE = "1 0; 0 1; 1 1"
EXAMPLE_TARGET = "1 0; 0 1; 0 0"


def attention(
    q: Numbers | None = None,
    k: Numbers | None = None,
    v: Numbers | None = None,
    *,
    x: Numbers | None = None,
    wq: Numbers | None = None,
    wk: Numbers | None = None,
    wv: Numbers | None = None,
    wo: Numbers | None = None,
    identity: bool = False,
    causal: bool = False,
    mask: Numbers | None = None,
    unscaled: bool = False,
    target: Numbers | None = None,
    heads: int | str | None = None,
    digits: int = 3,
) -> Solution:
    """Attention, forward and backward.

    Computes softmax(Q Kᵀ / √d_k) V from Q, K and V, or from X and its projections.

    q: Queries, one row each.
    k: Keys, one row each.
    v: Values, one row for each key.
    x: Inputs, with rows separated by ";", such as "1 0; 0 1; 1 1".
    wq: W_Q, as in Q = X W_Q.
    wk: W_K, as in K = X W_K.
    wv: W_V, as in V = X W_V.
    wo: W_O, which combines several heads.
    identity: Use the identity for every weight matrix.
    causal: Hide later keys from each query.
    mask: Visible keys: 1, or 0 for padding, such as "1 1 0"; or one such row for each query.
    unscaled: Omit the division by √d_k.
    target: Also compute loss and gradients for this target of the output, one row for each query.
    heads: Number of heads, as in `work multihead`.

    Example: translucid work attention --x "1 0; 0 1; 1 1" --identity

    Example: translucid work attention --target "1 0; 0 1; 0 0"
    """
    if heads is not None:
        if not all(table is None for table in (q, k, v)):
            raise Missing(
                "heads needs x instead of q, k and v: each head uses its own columns of the "
                "projections of x", ("x",),
            )  # fmt: skip
        return multihead(
            x, heads, wq=wq, wk=wk, wv=wv, wo=wo,
            identity=identity, causal=causal, mask=mask, unscaled=unscaled, target=target,
            digits=digits,
        )  # fmt: skip
    if wo is not None:
        raise Missing(
            "wo needs heads, because it combines the outputs of more than one head", ("wo", "heads")
        )
    board = Board(digits)
    weights = {"wq": wq, "wk": wk, "wv": wv}
    three = {"q": q, "k": k, "v": v}
    sources: dict[str, Tensor | str] = {}
    if all(table is None for table in three.values()):
        numbers = complete_weights(x, weights, EXAMPLE, identity)
        inputs = matrix(numbers["x"], "x")
        with numbers.fitting():
            tensors, shown = state_inputs(board, inputs, {n: numbers[n] for n in weights})
        graph = _project(inputs, tensors)
        sources = {"x": inputs, **shown}
    else:
        _refuse_projections(x, weights, identity)
        numbers = complete(three, dict.fromkeys(three, EXAMPLE), tuple(three))
        query, key, value = (matrix(numbers[n], n).requires_grad_() for n in three)
        graph = AttentionGraph(query, key, value)
        for symbol in ("Q", "K", "V"):
            board.state(symbol, graph.points[symbol].detach())
    with numbers.fitting():
        _check(graph, causal)
        layout = read_layout(causal, mask, len(graph.query), len(graph.key))
        wanted = (
            None if target is None else read_target(target, len(graph.query), graph.value.shape[1])
        )

    def run(trace: Trace) -> None:
        scope = trace.at("attention")
        rows = {"query": graph.query, "key": graph.key, "value": graph.value}
        q, k, v = (scope(name, row[None, None]) for name, row in rows.items())
        scope("mixed", attend(q, k, v, layout, scaled=not unscaled, trace=scope))

    trace, textbook = run_softmax(run)
    values = sources | head_values(trace, 0)
    note = mask_note(causal, mask) if causal or mask is not None else ""
    if wanted is not None:
        board.state("T", wanted, name="target")
        board.section = "Forward"
    if sources:
        for name in ("query", "key", "value"):
            board.point(f"attention.{name}", values, {"x": "X"}, NO_BIAS)
    write_head(board, values, note=note, unscaled=unscaled, textbook=textbook)
    closing = _fractions(board, trace["attention.pattern"][0, 0])
    if wanted is not None:
        closing = backward(board, graph, trace, values, wanted)
    more = _more(graph, target, causal, unscaled)
    options = {"visible": visible(trace), "scaled": not unscaled}
    return board.solution(
        title=title("Attention", causal, mask, unscaled),
        notes=(STABLE if textbook else SHIFTED,),
        closing=closing,
        next=f"translucid work attention {more}" if more else "translucid work multihead",
        more=more,
        program=Program(
            in_numpy.attention, {"Q": graph.query, "K": graph.key, "V": graph.value, **options}
        ),
        example=numbers.example,
        asked=numbers.asked or causal or unscaled or mask is not None or target is not None,
    )


def _more(graph: AttentionGraph, target: Numbers | None, causal: bool, unscaled: bool) -> str:
    if len(graph.query) == len(graph.key):
        fits = graph.value.shape == matrix(EXAMPLE_TARGET, "target").shape
        backward = f'--target "{EXAMPLE_TARGET}"' if fits else ""
        return "" if target is not None else backward if causal else "--causal"
    return "" if unscaled else "--unscaled"  # between two sequences there is no causal order


def _fractions(board: Board, pattern: Tensor) -> str:
    """Describe the second row of the attention pattern in words; textbooks usually compute this row
    by hand."""
    row = min(1, pattern.shape[0] - 1)
    if pattern.shape[1] > 6:
        return ""
    weights = pattern[row].tolist()
    fractions = [f"{board.number(weight)} of value {i}" for i, weight in enumerate(weights, 1)]
    text = (
        ", ".join(fractions[:-1]) + " and " + fractions[-1] if len(fractions) > 1 else fractions[0]
    )
    return f"Output {row + 1} is {text}."


def _project(x: Tensor, weights: Mapping[str, Tensor]) -> AttentionGraph:
    """Compute Q = X W_Q, K = X W_K and V = X W_V with linear layers, as a model does."""
    x = x.clone().requires_grad_()
    layers: dict[str, nn.Linear] = {}
    for symbol, weight in weights.items():
        layer = nn.Linear(weight.shape[0], weight.shape[1], bias=False, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(weight.T)
        layers[symbol] = layer
    query, key, value = (layer(x) for layer in layers.values())
    return AttentionGraph(query, key, value, x, {s: layer.weight for s, layer in layers.items()})


def _refuse_projections(
    x: Numbers | None, weights: Mapping[str, Numbers | None], identity: bool
) -> None:
    """Raise an error if q, k or v are given together with something that computes them from x."""
    if x is not None:
        raise InputError("pass either q, k and v, or x with its weights, not both")
    stray = [name for name, table in weights.items() if table is not None]
    stray += ["identity"] if identity else []
    if stray:
        raise Missing(
            f"{stray[0]} needs x instead of q, k and v, because it projects x", (stray[0], "x")
        )


def _check(graph: AttentionGraph, causal: bool) -> None:
    q, k, v = graph.query, graph.key, graph.value
    if q.shape[1] != k.shape[1]:
        raise InputError(
            f"q is {shape(q)} and k is {shape(k)}: both must have the same number of columns"
        )
    if k.shape[0] != v.shape[0]:
        raise InputError(f"k is {shape(k)} and v is {shape(v)}: every key needs a value (row)")
    if causal and q.shape[0] != k.shape[0]:
        raise InputError(
            f"q is {shape(q)} and k is {shape(k)}: causal attention works within one sequence, "
            "so there must be as many queries as keys"
        )
