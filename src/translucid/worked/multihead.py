"""Exercise: attention with several heads."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.core.trace import Trace
from translucid.parts.attention import SelfAttention
from translucid.worked import plain as in_numpy
from translucid.worked.attention_backward import backward_of_heads
from translucid.worked.board import SHIFTED, STABLE, Board, run_softmax
from translucid.worked.heads import (
    NO_BIAS,
    columns,
    complete_weights,
    head_values,
    join_heads,
    mask_note,
    read_layout,
    read_target,
    state_inputs,
    title,
    visible,
    write_head,
)
from translucid.worked.plain import Program
from translucid.worked.solution.numbers import Numbers, many, matrix, shape, whole
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
    mask: Numbers | None = None,
    unscaled: bool = False,
    target: Numbers | None = None,
    digits: int = 3,
) -> Solution:
    """Attention with several heads, forward and backward.

    Each head uses its own columns of Q, K and V; W_O then combines the outputs of all heads.

    x: Inputs, with rows separated by ";", such as "1 0; 0 1; 1 1".
    heads: Number of heads [default: 2].
    wq: W_Q, as in Q = X W_Q; or one matrix for each head, separated by "|".
    wk: W_K, as in K = X W_K; or one matrix for each head.
    wv: W_V, as in V = X W_V; or one matrix for each head.
    wo: W_O, which combines the heads.
    identity: Use the identity for every weight matrix.
    causal: Hide later keys from each query.
    mask: Visible keys: 1, or 0 for padding, such as "1 1 0"; or one such row for each query.
    unscaled: Omit the division by √d_k.
    target: Also compute loss and gradients for this target of the output, one row for each input.

    Example: translucid work multihead --x "1 0 1 0; 0 1 0 1; 1 1 0 0" --heads 2 --identity
    """
    backward = target is not None
    tables = {n: _side_by_side(w, n) for n, w in (("wq", wq), ("wk", wk), ("wv", wv), ("wo", wo))}
    asked = causal or unscaled or backward or heads is not None or mask is not None
    numbers = complete_weights(x, tables, EXAMPLE, identity)
    inputs = matrix(numbers["x"], "x")
    d_model = inputs.shape[1]
    board = Board(digits)
    with numbers.fitting():
        every = {name: numbers[name] for name in tables}
        weights, shown = state_inputs(board, inputs, every, square=True)
        layout = read_layout(causal, mask, len(inputs), len(inputs))
        wanted = None if target is None else read_target(target, *inputs.shape)
    count = _count(heads, (wq, wk, wv))
    try:
        part = SelfAttention(d_model, count, bias=False, scaled=not unscaled).double()
    except ConfigError as error:
        raise InputError(f"heads = {count}: x has {d_model} columns, and {error}") from None
    with torch.no_grad():
        part.qkv.weight.copy_(torch.cat([weights[name].T for name in ("W_Q", "W_K", "W_V")]))
        part.output.weight.copy_(weights["W_O"].T)

    inputs.requires_grad_(backward)

    def run(trace: Trace) -> None:
        part(inputs[None], layout, trace=trace.at("attention"))

    trace, textbook = run_softmax(run)
    note = mask_note(causal, mask) if causal or mask is not None else ""
    board.state("h", str(count), name="heads")
    if wanted is not None:
        board.state("T", wanted, name="target")
    board.section = "All heads at once"
    joined = {n: join_heads(trace[f"attention.{n}"].detach()) for n in ("query", "key", "value")}
    for name in joined:
        known = {"x": inputs.detach()} | shown | joined
        board.point(f"attention.{name}", known, {"x": "X"}, NO_BIAS)
    for head in range(count):
        board.section = f"Head {head + 1}: {columns(part, head)} of $Q$, $K$ and $V$"
        write_head(
            board, head_values(trace, head), f"_{head + 1}",
            note=note, unscaled=unscaled, textbook=textbook,
        )  # fmt: skip
    board.section = "All heads together"
    mixed = [board.writer.value(trace["attention.mixed"][0, i].detach()) for i in range(count)]
    board.point(
        "attention.output",
        shown | {"mixed": ", ".join(mixed), "output": trace["attention.output"][0].detach()},
        {"mixed": ", ".join(f"Y_{i + 1}" for i in range(count))},
        absent=NO_BIAS,
    )
    closing = (
        f"Each head works on {part.d_head} of the {d_model} columns: $d_k = "
        rf"d_{{\mathrm{{model}}}} / h = {d_model} / {count} = {part.d_head}$."
    )
    if wanted is not None:
        closing = backward_of_heads(board, part, inputs, trace, shown, wanted)
    options = {"heads": count, "visible": visible(trace), "scaled": not unscaled}
    return board.solution(
        title=title(f"Multi-head attention with {many(count, 'head')}", causal, mask, unscaled),
        notes=(STABLE if textbook else SHIFTED,),
        closing=closing,
        next="translucid work params --d-model 768 --heads 12",
        program=Program(
            in_numpy.multihead, {"X": inputs.detach(), **weights, "heads": count, **options}
        ),
        example=numbers.example,
        asked=numbers.asked or asked,
    )


def _of_heads(table: Any) -> list[Any]:
    """The matrices of the heads if there is one for each head; otherwise only the table."""
    if isinstance(table, str):
        return table.split("|")
    if isinstance(table, Tensor):
        return [*table] if table.dim() == 3 else [table]
    nested = isinstance(table, Sequence) and table and isinstance(table[0], Sequence)
    if nested and table[0] and isinstance(table[0][0], Sequence):
        return [*table]
    return [table]


def _side_by_side(table: Numbers | None, name: str) -> Numbers | None:
    """Join the matrices of the heads into the weight of the whole layer."""
    heads = _of_heads(table)
    if table is None or len(heads) == 1:
        return table
    blocks = [matrix(head, f"{name}, head {i}") for i, head in enumerate(heads, 1)]
    for i, block in enumerate(blocks, 1):
        if block.shape != blocks[0].shape:
            raise InputError(
                f"{name}: head {i} is {shape(block)}, but head 1 is {shape(blocks[0])}; all heads "
                "have the same size"
            )
    return torch.cat(blocks, dim=1)


def _count(heads: int | str | None, tables: Sequence[Numbers | None]) -> int:
    """The number of heads; by default, the number of matrices that were given, or 2."""
    given = {len(_of_heads(table)) for table in tables} - {1}
    if not given:
        return 2 if heads is None else whole(heads, "heads")
    if len(given) > 1 or (heads is not None and whole(heads, "heads") not in given):
        counts = ", ".join(str(count) for count in sorted(given))
        raise InputError(
            f"there are matrices for {counts} heads; pass as many for each of wq, wk and wv, and "
            "omit heads"
        )
    return given.pop()
