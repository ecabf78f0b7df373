"""Attention by several heads."""

import torch
from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.parts.attention import Layout, SelfAttention
from translucid.worked.board import SHIFTED, STABLE, Board, run_softmax
from translucid.worked.heads import (
    NO_BIAS,
    head_values,
    state_inputs,
    title,
    write_head,
)
from translucid.worked.solution.numbers import Numbers, many, matrix, whole
from translucid.worked.solution.solution import Solution

EXAMPLE = "1 0 1 0; 0 1 0 1; 1 1 0 0"


def multihead(
    x: Numbers | None = None,
    heads: int | str | None = None,
    *,
    wq: Numbers | None = None,
    wk: Numbers | None = None,
    wv: Numbers | None = None,
    wo: Numbers | None = None,
    identity: bool = False,
    causal: bool = False,
    unscaled: bool = False,
    digits: int = 3,
) -> Solution:
    """Attention by several heads.

    Each head with its own columns of Q, K and V, then all joined and mixed by W_O.

    x: Inputs, rows by ";": "1 0; 0 1; 1 1".
    heads: How many heads (2).
    wq: W_Q, as in Q = X W_Q.
    wk: W_K, as in K = X W_K.
    wv: W_V, as in V = X W_V.
    wo: W_O, which mixes the heads.
    identity: Every weight matrix is the identity.
    causal: A query sees no later key.
    unscaled: Leave out the division by √d_k.

    Example: translucid work multihead --x "1 0 1 0; 0 1 0 1; 1 1 0 0" --heads 2 --identity
    """
    tables = {"wq": wq, "wk": wk, "wv": wv, "wo": wo}
    example = x is None and all(table is None for table in tables.values())
    asked = identity or causal or unscaled or heads is not None
    if example:
        x, identity = EXAMPLE, True
    if x is None:
        raise Missing("x is missing: give the inputs, one row for each position", ("x",))
    inputs = matrix(x, "x")
    d_model = inputs.shape[1]
    board = Board(digits)
    weights, shown = state_inputs(board, inputs, tables, identity, square=True)
    count = 2 if heads is None else whole(heads, "heads")
    try:
        part = SelfAttention(d_model, count, bias=False, scaled=not unscaled).double()
    except ConfigError as error:
        raise InputError(f"heads = {count}: x has {d_model} columns, and {error}") from None
    with torch.no_grad():
        part.qkv.weight.copy_(torch.cat([weights[name].T for name in ("W_Q", "W_K", "W_V")]))
        part.output.weight.copy_(weights["W_O"].T)

    @torch.no_grad()
    def run(trace: Trace) -> None:
        part(inputs[None], Layout(causal=causal), trace=trace.at("attention"))

    trace, textbook = run_softmax(run)
    board.state("h", str(count), name="heads")
    board.section = "All heads at once"
    joined = {n: _join(trace[f"attention.{n}"]) for n in ("query", "key", "value")}
    for name in joined:
        board.point(f"attention.{name}", {"x": inputs} | shown | joined, {"x": "X"}, NO_BIAS)
    for head in range(count):
        first, last = head * part.d_head + 1, (head + 1) * part.d_head
        columns = f"column {first}" if first == last else f"columns {first} to {last}"
        board.section = f"Head {head + 1}: {columns} of $Q$, $K$ and $V$"
        write_head(
            board, head_values(trace, head), f"_{head + 1}",
            causal=causal, unscaled=unscaled, textbook=textbook,
        )  # fmt: skip
    board.section = "All heads together"
    mixed = [board.writer.value(trace["attention.mixed"][0, i]) for i in range(count)]
    board.point(
        "attention.output",
        shown | {"mixed": ", ".join(mixed), "output": trace["attention.output"][0]},
        {"mixed": ", ".join(f"Y_{i + 1}" for i in range(count))},
        absent=NO_BIAS,
    )
    return board.solution(
        title=title(f"Multi-head attention with {many(count, 'head')}", causal, unscaled),
        notes=(STABLE if textbook else SHIFTED,),
        closing=f"Each head works on {part.d_head} of the {d_model} columns: $d_k = "
        rf"d_{{\mathrm{{model}}}} / h = {d_model} / {count} = {part.d_head}$.",
        next="translucid work params --d-model 768 --heads 12",
        example=example,
        asked=asked,
    )


def _join(x: Tensor) -> Tensor:
    """(1, heads, positions, d_head) -> (positions, heads * d_head)"""
    return x[0].transpose(0, 1).flatten(1)
