"""The inputs, weights and mask of an attention exercise, and the steps of one head."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from translucid.core.catalogue import CATALOGUE
from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.parts import masks
from translucid.parts.attention import Layout, SelfAttention
from translucid.worked.board import Board
from translucid.worked.solution.numbers import Completed, Numbers, complete, many, matrix, shape

INSIDE = (
    "scores", "scale", "scaled", "mask", "masked", "shift", "exponentials", "normaliser",
    "pattern", "mixed",
)  # fmt: skip
NO_BIAS = ("b_Q", "b_K", "b_V", "b_O")  # not used in exercises
IDENTITY = "identity"  # as a weight: the identity matrix, which fits any input
CAUSAL = "Causal: a query attends to its own and earlier positions (1), not to later ones (0)."


def complete_weights(
    x: Numbers | None, tables: Mapping[str, Any], example: str, identity: bool
) -> Completed:
    """Complete X and its weights from an example whose weights are the identity."""
    names = [name for name, table in tables.items() if table is not None]
    if identity and names:
        raise InputError(f"got both {names[0]} and identity; pass either the weights or identity")
    tables = dict.fromkeys(tables, IDENTITY) if identity else tables
    built_in = {"x": example, **dict.fromkeys(tables, IDENTITY)}
    return complete({"x": x, **tables}, built_in, ("x", *tables))


def state_inputs(
    board: Board, x: Tensor, tables: Mapping[str, Any], square: bool = False
) -> tuple[dict[str, Tensor], dict[str, Tensor | str]]:
    """Write X and its weights as given values. Return the weights by symbol, and their symbols in
    formulas."""
    weights = {f"W_{name[-1].upper()}": read_weight(table, name, x.shape[1], square=square)
               for name, table in tables.items()}  # fmt: skip
    board.state("X", x)
    return weights, state_weights(board, weights, tables)


def state_weights(
    board: Board, weights: Mapping[str, Tensor], tables: Mapping[str, Any], superscript: str = ""
) -> dict[str, Tensor | str]:
    """Write weights as given values, all identity matrices together; return their symbols in
    formulas. superscript: added to the symbols of the given values."""
    shown: dict[str, Tensor | str] = {}
    for symbol, table in zip(weights, tables.values(), strict=True):
        shown[symbol] = "I" if table is IDENTITY else weights[symbol]
    units = [symbol for symbol, text in shown.items() if isinstance(text, str)]
    if units:
        board.state(" = ".join(unit + superscript for unit in units), "I", name="identity")
    for symbol, weight in shown.items():
        if not isinstance(weight, str):
            board.state(symbol + superscript, weight)
    return shown


def read_weight(table: Any, name: str, d_model: int, *, square: bool) -> Tensor:
    """Read a weight of x with d_model columns. square: the weight of several heads side by side."""
    if table is IDENTITY:
        return torch.eye(d_model, dtype=torch.float64)
    weight = matrix(table, name)
    if weight.shape[0] != d_model:
        raise InputError(
            f"x has {many(d_model, 'column')} and {name} is {shape(weight)}: {name} must have as "
            f"many rows as x has columns ({d_model})"
        )
    if square and weight.shape[1] != d_model:
        raise InputError(
            f"{name} is {shape(weight)}: it must be {d_model} x {d_model}, all heads side by side"
        )
    return weight


def read_layout(causal: bool, mask: Numbers | None, queries: int, keys: int) -> Layout:
    """The mask of an exercise, built by the real parts. mask: one row for all queries, or one row
    for each query, with 1 for each visible key and 0 for each hidden one."""
    if mask is None:
        return Layout(causal=causal)
    visible = matrix(mask, "mask")
    for number in visible.flatten().tolist():
        if number not in (0, 1):
            raise InputError(f"mask: {number:g} is not allowed; write 1 for a visible key, else 0")
    if visible.shape[1] != keys or visible.shape[0] not in (1, queries):
        raise InputError(
            f"mask is {shape(visible)}: it needs one number for each of the {keys} keys, in one "
            f"row or in one row for each of the {queries} queries"
        )
    allowed = masks.padding(visible.bool()) if len(visible) == 1 else visible.bool()[None, None]
    if causal:
        slots = torch.arange(keys)
        allowed = allowed & masks.causal(slots, slots)[None, None]
    return Layout(mask=allowed)


def read_target(target: Numbers, rows: int, columns: int) -> Tensor:
    """The target of an output with these rows and columns."""
    wanted = matrix(target, "target")
    if wanted.shape != (rows, columns):
        raise InputError(
            f"target is {shape(wanted)}: the output has {rows} x {columns} numbers, so the target "
            f"must be {rows} x {columns} too"
        )
    return wanted


def visible(trace: Trace) -> Tensor | None:
    """Which keys each query can see: (queries, keys), or None without a mask."""
    return trace["attention.mask"][0, 0].bool() if "attention.mask" in trace else None


def mask_note(causal: bool, mask: Numbers | None) -> str:
    """What the mask hides, in a sentence."""
    if mask is None:
        return CAUSAL
    given = matrix(mask, "mask")
    if len(given) > 1:
        return "The mask hides every key with a 0. " + CAUSAL * causal
    hidden = [str(i) for i, number in enumerate(given[0].tolist(), 1) if not number]
    some = f"key{'s' * (len(hidden) > 1)} {', '.join(hidden)} (padding)" if hidden else "no key"
    return f"The mask hides {some} from every query. " + CAUSAL * causal


def write_head(
    board: Board,
    values: Mapping[str, Tensor | str],
    head: str = "",
    *,
    note: str,
    unscaled: bool,
    textbook: bool,
    scope: str = "attention",
) -> None:
    """Write the steps of one head, from the scores to the weighted mean of the values. note: what
    the mask hides; empty without a mask."""
    names = (*INSIDE, "query", "key", "value")
    symbols = {n: CATALOGUE[f"attention.{n}"].symbol + head for n in names}
    symbols |= {n: CATALOGUE[f"attention.{n}"].symbol for n in ("scale", "mask")}
    if unscaled:
        symbols["scaled"] = symbols["scores"]
    if not note:
        symbols["masked"] = symbols["scaled"]
    skipped = {"scale", "scaled"} if unscaled else set()
    skipped |= set() if note else {"mask", "masked"}
    skipped |= {"shift"} if textbook else set()
    skipped |= {"scale", "mask"} if head not in ("", "_1") else set()  # the same for all heads
    blind = not bool(torch.as_tensor(values["normaliser"]).all())
    notes = {"mask": note, "pattern": "Each row is divided by its own sum."}
    notes["pattern"] += " A query without visible keys has only weights of 0." if blind else ""
    absent = ["shift"] if textbook else []
    for name in INSIDE:
        if name not in skipped:
            board.point(f"{scope}.{name}", values, symbols, absent, note=notes.get(name, ""))


def head_values(trace: Trace, head: int, scope: str = "attention") -> dict[str, Tensor | str]:
    """The values of one head, by point name."""
    values: dict[str, Tensor | str] = {}
    for name in trace.names(f"{scope}.*"):
        if name == f"{scope}.output":  # all heads together
            continue
        value = trace[name].detach()
        values[name.rpartition(".")[2]] = value[0, head] if value.dim() == 4 else value
    query = values["query"]
    assert isinstance(query, Tensor)
    return values | {"d_head": torch.tensor(query.shape[-1])}


def join_heads(x: Tensor) -> Tensor:
    """Join the heads: (1, heads, positions, d_head) -> (positions, heads * d_head)."""
    return x[0].transpose(0, 1).flatten(1)


def columns(part: SelfAttention, head: int) -> str:
    """The columns of a head in the matrices of all heads, counted from 1."""
    first, last = head * part.d_head + 1, (head + 1) * part.d_head
    return f"column {first}" if first == last else f"columns {first} to {last}"


def title(name: str, causal: bool, mask: Numbers | None, unscaled: bool) -> str:
    options = {"causal": causal, "masked": mask is not None, "unscaled": unscaled}
    extras = [word for word, on in options.items() if on]
    return name + (f" ({', '.join(extras)})" if extras else "")
