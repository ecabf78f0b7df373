"""What attention by one head and by several share: reading the weights, writing one head."""

from collections.abc import Mapping

import torch
from torch import Tensor

from translucid.core.catalogue import CATALOGUE
from translucid.core.errors import InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.worked.board import Board
from translucid.worked.solution.numbers import Numbers, matrix, shape

INSIDE = (
    "scores", "scale", "scaled", "mask", "masked", "shift", "exponentials", "normaliser",
    "pattern", "mixed",
)  # fmt: skip

NO_BIAS = ("b_Q", "b_K", "b_V", "b_O")  # exercises give none

_NOTES = {
    "mask": "Causal: a query sees its own position and the earlier ones (1), not the later (0).",
    "pattern": "Each row is divided by its own sum.",
}


def _read_weights(
    tables: Mapping[str, Numbers | None], x: Tensor, identity: bool, square: bool
) -> dict[str, Tensor]:
    symbols, d_model = [f"W_{name[1:].upper()}" for name in tables], x.shape[1]
    names = [name for name, table in tables.items() if table is not None]
    if identity:
        if names:
            raise InputError(
                f"{names[0]} and identity: give the weights, or identity for weights of 1 and 0"
            )
        return {symbol: torch.eye(d_model, dtype=torch.float64) for symbol in symbols}
    missing = [name for name in tables if name not in names]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise Missing(
            f"{', '.join(missing)} {are} missing: x needs {', '.join(tables)}, or identity",
            ("x", *tables, "identity"),
        )
    weights = [matrix(table, name) for name, table in tables.items() if table is not None]
    for name, weight in zip(tables, weights, strict=True):
        if weight.shape[0] != d_model:
            raise InputError(
                f"x is {shape(x)} and {name} is {shape(weight)}: {name} must have as many rows "
                f"as x has columns ({d_model})"
            )
        if square and weight.shape[1] != d_model:
            raise InputError(
                f"{name} is {shape(weight)}: with several heads it must be {d_model} x {d_model}, "
                f"all heads side by side"
            )
    return dict(zip(symbols, weights, strict=True))


def state_inputs(
    board: Board,
    x: Tensor,
    tables: Mapping[str, Numbers | None],
    identity: bool,
    square: bool = False,
) -> tuple[dict[str, Tensor], dict[str, Tensor | str]]:
    """Write down X and its weights; they by their symbols, and what a formula shows of them."""
    weights = _read_weights(tables, x, identity, square)
    board.state("X", x)
    if identity:
        board.state(" = ".join(weights), "I", name="identity")
        return weights, dict.fromkeys(weights, "I")
    for symbol, weight in weights.items():
        board.state(symbol, weight)
    return weights, dict(weights)


def write_head(
    board: Board,
    values: Mapping[str, Tensor | str],
    head: str = "",
    *,
    causal: bool,
    unscaled: bool,
    textbook: bool,
) -> None:
    """From the scores to the mixture of the values, for one head."""
    names = (*INSIDE, "query", "key", "value")
    symbols = {n: CATALOGUE[f"attention.{n}"].symbol + head for n in names}
    symbols |= {n: CATALOGUE[f"attention.{n}"].symbol for n in ("scale", "mask")}
    if unscaled:
        symbols["scaled"] = symbols["scores"]
    if not causal:
        symbols["masked"] = symbols["scaled"]
    skipped = {"scale", "scaled"} if unscaled else set()
    skipped |= set() if causal else {"mask", "masked"}
    skipped |= {"shift"} if textbook else set()
    skipped |= {"scale", "mask"} if head not in ("", "_1") else set()  # the same for all heads
    for name in INSIDE:
        if name not in skipped:
            note = _NOTES.get(name, "")
            absent = ["shift"] if textbook else []
            board.point(f"attention.{name}", values, symbols, absent, note=note)


def head_values(trace: Trace, head: int) -> dict[str, Tensor | str]:
    """The values of one head, by the names of their points."""
    values: dict[str, Tensor | str] = {}
    for name in trace.names("attention.*"):
        if name == "attention.output":  # all heads together
            continue
        value = trace[name].detach()
        values[name.partition(".")[2]] = value[0, head] if value.dim() == 4 else value
    query = values["query"]
    assert isinstance(query, Tensor)
    return values | {"d_head": torch.tensor(query.shape[-1])}


def title(name: str, causal: bool, unscaled: bool) -> str:
    extras = [word for word, on in (("causal", causal), ("unscaled", unscaled)) if on]
    return name + (f" ({', '.join(extras)})" if extras else "")
