"""Exercises: attention with one head and with several heads."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from translucid.core.catalogue import CATALOGUE
from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.parts.attention import Layout, SelfAttention, attend
from translucid.worked.board import SHIFTED, STABLE, Board, run_softmax
from translucid.worked.solution.numbers import Numbers, many, matrix, shape, whole
from translucid.worked.solution.solution import Solution

INSIDE = (
    "scores", "scale", "scaled", "mask", "masked", "shift", "exponentials", "normaliser",
    "pattern", "mixed",
)  # fmt: skip
NO_BIAS = ("b_Q", "b_K", "b_V", "b_O")  # not used in exercises
_NOTES = {
    "mask": "Causal: a query attends to its own and earlier positions (1), not to later ones (0).",
    "pattern": "Each row is divided by its own sum.",
}
EXAMPLE_HEADS = "1 0 1 0; 0 1 0 1; 1 1 0 0"
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
    """Attention with one head.

    Computes softmax(Q Kᵀ / √d_k) V from Q, K and V, or from X and its projections. For several
    heads, see `multihead`.

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
    unscaled: Omit the division by √d_k.
    heads: Use several heads, as in `work multihead`.

    Example: translucid work attention --x "1 0; 0 1; 1 1" --identity
    """
    if heads is not None:
        if not all(table is None for table in (q, k, v)):
            raise Missing(
                "heads needs x instead of q, k and v: each head uses its own columns of the "
                "projections of x", ("x",),
            )  # fmt: skip
        return multihead(
            x, heads, wq=wq, wk=wk, wv=wv, wo=wo,
            identity=identity, causal=causal, unscaled=unscaled, digits=digits,
        )  # fmt: skip
    if wo is not None:
        raise Missing(
            "wo needs heads, because it combines the outputs of more than one head", ("wo", "heads")
        )
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
            raise InputError("pass either q, k and v, or x with its weights, not both")
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
    else:  # between two sequences there is no causal order
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


@torch.no_grad()
def _project(x: Tensor, weight: Tensor) -> Tensor:
    """Compute x W with a linear layer, as a model does."""
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
            f"{stray[0]} needs x, because it projects x to queries, keys or values", (stray[0], "x")
        )
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise Missing(
            f"{' and '.join(missing)} {are} missing; pass q, k and v, or x with identity, "
            f"or x with wq, wk and wv",
            (*tables, "x", "identity", *weights),
        )
    return [matrix(table, name) for name, table in tables.items() if table is not None]


def _check(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> None:
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
    """Attention with several heads.

    Each head uses its own columns of Q, K and V; W_O then combines the outputs of all heads.

    x: Inputs, with rows separated by ";", such as "1 0; 0 1; 1 1".
    heads: Number of heads [default: 2].
    wq: W_Q, as in Q = X W_Q.
    wk: W_K, as in K = X W_K.
    wv: W_V, as in V = X W_V.
    wo: W_O, which combines the heads.
    identity: Use the identity for every weight matrix.
    causal: Hide later keys from each query.
    unscaled: Omit the division by √d_k.

    Example: translucid work multihead --x "1 0 1 0; 0 1 0 1; 1 1 0 0" --heads 2 --identity
    """
    tables = {"wq": wq, "wk": wk, "wv": wv, "wo": wo}
    example = x is None and all(table is None for table in tables.values())
    asked = identity or causal or unscaled or heads is not None
    if example:
        x, identity = EXAMPLE_HEADS, True
    if x is None:
        raise Missing("x is missing; pass the inputs, one row for each position", ("x",))
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
    """Join the heads: (1, heads, positions, d_head) -> (positions, heads * d_head)."""
    return x[0].transpose(0, 1).flatten(1)


def _read_weights(
    tables: Mapping[str, Numbers | None], x: Tensor, identity: bool, square: bool
) -> dict[str, Tensor]:
    symbols, d_model = [f"W_{name[1:].upper()}" for name in tables], x.shape[1]
    names = [name for name, table in tables.items() if table is not None]
    if identity:
        if names:
            raise InputError(
                f"got both {names[0]} and identity; pass either the weights or identity"
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
    """Write X and its weights as given values. Return the weights by symbol, and their symbols in
    formulas."""
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
    """Write the steps of one head, from the scores to the weighted mean of the values."""
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
    """The values of one head, by point name."""
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
