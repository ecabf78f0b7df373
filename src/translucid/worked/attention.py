"""Attention by one head."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.parts.attention import Layout, attend
from translucid.worked.board import SHIFTED, STABLE, Board, run_softmax
from translucid.worked.heads import (
    NO_BIAS,
    head_values,
    state_inputs,
    title,
    write_head,
)
from translucid.worked.multihead import multihead
from translucid.worked.solution.numbers import Numbers, matrix, shape
from translucid.worked.solution.solution import Solution

EXAMPLE = "1 0; 0 1; 1 1"


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
    unscaled: bool = False,
    heads: int | str | None = None,
    digits: int = 3,
) -> Solution:
    """Attention by one head.

    softmax(Q Kᵀ / √d_k) V, from Q, K and V, or from X and its projections. With several heads it is
    `multihead`.

    q: Queries, one row each.
    k: Keys, one row each.
    v: Values, one row for each key.
    x: Inputs, rows by ";": "1 0; 0 1; 1 1".
    wq: W_Q, as in Q = X W_Q.
    wk: W_K, as in K = X W_K.
    wv: W_V, as in V = X W_V.
    wo: W_O, which mixes several heads.
    identity: Every weight matrix is the identity.
    causal: A query sees no later key.
    unscaled: Leave out the division by √d_k.
    heads: Several heads, as `work multihead`.

    Example: translucid work attention --x "1 0; 0 1; 1 1" --identity
    """
    if heads is not None:
        if not all(table is None for table in (q, k, v)):
            raise Missing("several heads need x: they are cut from its projections", ("x",))
        return multihead(
            x, heads, wq=wq, wk=wk, wv=wv, wo=wo,
            identity=identity, causal=causal, unscaled=unscaled, digits=digits,
        )  # fmt: skip
    if wo is not None:
        raise Missing("wo needs heads: it joins several", ("wo", "heads"))
    board = Board(digits)
    example = all(table is None for table in (q, k, v, x, wq, wk, wv))
    asked = identity or causal or unscaled
    if example:
        x, identity = EXAMPLE, True
    weights = {"wq": wq, "wk": wk, "wv": wv}
    sources: dict[str, Tensor | str] = {}
    if x is None:
        query, key, value = _three({"q": q, "k": k, "v": v}, weights)
        for symbol, table in (("Q", query), ("K", key), ("V", value)):
            board.state(symbol, table)
    else:
        if not all(table is None for table in (q, k, v)):
            raise InputError("give either q, k and v, or x with its weights, not both")
        inputs = matrix(x, "x")
        tensors, shown = state_inputs(board, inputs, weights, identity)
        query, key, value = (_project(inputs, weight) for weight in tensors.values())
        sources = {"x": inputs, **shown}
    _check(query, key, value, causal)

    def run(trace: Trace) -> None:
        scope = trace.at("attention")
        rows = {"query": query, "key": key, "value": value}
        q, k, v = (scope(name, row[None, None]) for name, row in rows.items())
        layout = Layout(causal=causal)
        scope("mixed", attend(q, k, v, layout, scaled=not unscaled, trace=scope))

    trace, textbook = run_softmax(run)
    values = sources | head_values(trace, 0)
    if x is not None:
        for name in ("query", "key", "value"):
            board.point(f"attention.{name}", values, {"x": "X"}, NO_BIAS)
    write_head(board, values, causal=causal, unscaled=unscaled, textbook=textbook)
    pattern = trace["attention.pattern"][0, 0]
    if len(query) == len(key):
        more = "" if causal else "--causal"
    else:  # of two sequences none comes later
        more = "" if unscaled else "--unscaled"
    return board.solution(
        title=title("Attention", causal, unscaled),
        notes=(STABLE if textbook else SHIFTED,),
        closing=_fractions(board, pattern),
        next=f"translucid work attention {more}" if more else "translucid work multihead",
        more=more,
        example=example,
        asked=asked,
    )


def _fractions(board: Board, pattern: Tensor) -> str:
    """The second row in words: what most sources compute by hand."""
    row = min(1, pattern.shape[0] - 1)
    if pattern.shape[1] > 6:
        return ""
    weights = pattern[row].tolist()
    fractions = [f"{board.number(weight)} of value {i}" for i, weight in enumerate(weights, 1)]
    text = (
        ", ".join(fractions[:-1]) + " and " + fractions[-1] if len(fractions) > 1 else fractions[0]
    )
    return f"Query {row + 1} takes {text}."


@torch.no_grad()
def _project(x: Tensor, weight: Tensor) -> Tensor:
    """x W, by the layer that does it in a model."""
    linear = nn.Linear(weight.shape[0], weight.shape[1], bias=False, dtype=torch.float64)
    linear.weight.copy_(weight.T)
    projected: Tensor = linear(x)
    return projected


def _three(
    tables: Mapping[str, Numbers | None], weights: Mapping[str, Numbers | None]
) -> list[Tensor]:
    stray = [name for name, table in weights.items() if table is not None]
    missing = [name for name, table in tables.items() if table is None]
    if stray:
        raise Missing(
            f"{stray[0]} needs x: it turns inputs into queries, keys or values", (stray[0], "x")
        )
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise Missing(
            f"{' and '.join(missing)} {are} missing: give q, k and v, or x with identity, "
            f"or x with wq, wk and wv",
            (*tables, "x", "identity", *weights),
        )
    return [matrix(table, name) for name, table in tables.items() if table is not None]


def _check(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> None:
    if q.shape[1] != k.shape[1]:
        raise InputError(
            f"q is {shape(q)} and k is {shape(k)}: queries and keys need the same number of columns"
        )
    if k.shape[0] != v.shape[0]:
        raise InputError(f"k is {shape(k)} and v is {shape(v)}: every key needs its value (row)")
    if causal and q.shape[0] != k.shape[0]:
        raise InputError(
            f"q is {shape(q)} and k is {shape(k)}: causal attention is over one sequence, "
            f"so it needs as many queries as keys"
        )
