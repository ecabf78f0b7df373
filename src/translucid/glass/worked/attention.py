"""Attention, by one head and by several."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from translucid.errors import InputError
from translucid.glass.numbers import Numbers, matrix, shape, whole
from translucid.glass.solution import Solution
from translucid.glass.worked.board import SHIFTED, STABLE, Board, run_softmax
from translucid.parts.attention import Layout, SelfAttention, attend
from translucid.trace import Trace

EXAMPLE = "1 0; 0 1; 1 1"
EXAMPLE_HEADS = "1 0 1 0; 0 1 0 1; 1 1 0 0"
INSIDE = (
    "scores", "scale", "scaled", "mask", "masked", "shift", "exponentials", "normaliser",
    "pattern", "mixed",
)  # fmt: skip


def attention(
    q: Numbers | None = None,
    k: Numbers | None = None,
    v: Numbers | None = None,
    *,
    x: Numbers | None = None,
    wq: Numbers | None = None,
    wk: Numbers | None = None,
    wv: Numbers | None = None,
    identity: bool = False,
    causal: bool = False,
    unscaled: bool = False,
    digits: int = 3,
) -> Solution:
    """softmax(Q Kᵀ / √d_k) V, from Q, K and V, or from X and its projections.

    `identity` makes W_Q, W_K and W_V the identity matrix.
    """
    board = Board(digits)
    example = all(given is None for given in (q, k, v, x, wq, wk, wv))
    if example:
        x, identity = EXAMPLE, True
    trace_of: dict[str, Tensor | str] = {}
    if x is None:
        query, key, value = _three({"q": q, "k": k, "v": v}, {"wq": wq, "wk": wk, "wv": wv})
        for symbol, table in (("Q", query), ("K", key), ("V", value)):
            board.state(symbol, table)
    else:
        if not all(given is None for given in (q, k, v)):
            raise InputError("give either q, k and v, or x with its weights, not both")
        inputs = matrix(x, "x")
        weights = _weights({"wq": wq, "wk": wk, "wv": wv}, inputs, identity)
        _state(board, inputs, {"W_Q": weights[0], "W_K": weights[1], "W_V": weights[2]}, identity)
        query, key, value = (_project(inputs, weight) for weight in weights)
        trace_of = {"x": inputs} | {
            name: "I" if identity else weight
            for name, weight in zip(("W_Q", "W_K", "W_V"), weights, strict=True)
        }
    _check(query, key, value, causal)

    def run(trace: Trace) -> None:
        scope = trace.at("attention")
        rows = [scope(n, t[None, None]) for n, t in _names(query, key, value)]
        layout = Layout(causal=causal)
        scope("mixed", attend(*rows, layout, scaled=not unscaled, trace=scope))

    trace, textbook = run_softmax(run)
    values = trace_of | _head(trace, 0)
    if x is not None:
        for name in ("query", "key", "value"):
            board.point(f"attention.{name}", values, {"x": "X"})
    _inside(board, values, causal=causal, unscaled=unscaled, textbook=textbook)
    pattern = trace["attention.pattern"][0, 0]
    return Solution(
        title=_title("Attention", causal, unscaled),
        given=tuple(board.given),
        steps=tuple(board.steps),
        notes=(STABLE if textbook else SHIFTED,),
        closing=_shares(pattern, digits),
        next='translucid work attention --x "1 0; 0 1; 1 1" --identity --causal'
        if not causal
        else "translucid work multihead",
        example=example,
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
    """Several heads, each with its own columns of Q, K and V, joined and mixed by W_O."""
    given = {"wq": wq, "wk": wk, "wv": wv, "wo": wo}
    example = x is None and all(table is None for table in given.values())
    if example:
        x, identity = EXAMPLE_HEADS, True
    if x is None:
        raise InputError("x is missing: give the inputs, one row for each position")
    inputs = matrix(x, "x")
    d_model = inputs.shape[1]
    weights = _weights(given, inputs, identity, square=True)
    count = 2 if heads is None else whole(heads, "heads")
    part = SelfAttention(d_model, count, bias=False, scaled=not unscaled).double()
    with torch.no_grad():
        part.qkv.weight.copy_(torch.cat([w.T for w in weights[:3]]))
        part.output.weight.copy_(weights[3].T)

    @torch.no_grad()
    def run(trace: Trace) -> None:
        part(inputs[None], Layout(causal=causal), trace=trace.at("attention"))

    trace, textbook = run_softmax(run)
    board = Board(digits)
    named = dict(zip(("W_Q", "W_K", "W_V", "W_O"), weights, strict=True))
    _state(board, inputs, named, identity)
    board.state("h", str(count), name="heads")
    shown: dict[str, Tensor | str] = {n: "I" if identity else w for n, w in named.items()}

    board.section = "All heads at once"
    joined = {n: _join(trace[f"attention.{n}"]) for n in ("query", "key", "value")}
    for name in joined:
        board.point(f"attention.{name}", {"x": inputs} | shown | joined, {"x": "X"})
    for head in range(count):
        first, last = head * part.d_head + 1, (head + 1) * part.d_head
        columns = f"column {first}" if first == last else f"columns {first} to {last}"
        board.section = f"Head {head + 1}: {columns} of $Q$, $K$ and $V$"
        _inside(
            board, _head(trace, head), f"_{head + 1}",
            causal=causal, unscaled=unscaled, textbook=textbook,
        )  # fmt: skip
    board.section = "All heads together"
    mixed = [board.writer.value(trace["attention.mixed"][0, i]) for i in range(count)]
    board.point(
        "attention.output",
        shown | {"mixed": ", ".join(mixed), "output": trace["attention.output"][0]},
        {"mixed": ", ".join(f"Y_{i + 1}" for i in range(count))},
        absent=["b_O"],
    )
    return Solution(
        title=_title(f"Multi-head attention with {count} heads", causal, unscaled),
        given=tuple(board.given),
        steps=tuple(board.steps),
        notes=(STABLE if textbook else SHIFTED,),
        closing=f"Each head works on {part.d_head} of the {d_model} columns: $d_k = "
        rf"d_{{\mathrm{{model}}}} / h = {d_model} / {count} = {part.d_head}$.",
        next="translucid work params --d-model 768 --heads 12",
        example=example,
    )


def _inside(
    board: Board,
    values: Mapping[str, Tensor | str],
    head: str = "",
    *,
    causal: bool,
    unscaled: bool,
    textbook: bool,
) -> None:
    """From the scores to the mixture of the values, for one head."""
    letters = {"query": "Q", "key": "K", "value": "V", "scores": "S", "scaled": "S'"}
    letters |= {"masked": "S''", "exponentials": r"\mathcal{E}", "normaliser": "Z"}
    letters |= {"shift": "m", "pattern": "A", "mixed": "Y", "mask": "M", "scale": "s"}
    symbols = {n: s + head if n not in ("scale", "mask") else s for n, s in letters.items()}
    if unscaled:
        symbols["scaled"] = symbols["scores"]
    if not causal:
        symbols["masked"] = symbols["scaled"]
    skipped = {"scale", "scaled"} if unscaled else set()
    skipped |= set() if causal else {"mask", "masked"}
    skipped |= {"shift"} if textbook else set()
    for name in INSIDE:
        if name not in skipped:
            note = "Each row is divided by its own sum." if name == "pattern" else ""
            absent = ["shift"] if textbook else []
            board.point(f"attention.{name}", values, symbols, absent, note=note)


def _head(trace: Trace, head: int) -> dict[str, Tensor | str]:
    """The values of one head, by the names of their points."""
    found: dict[str, Tensor | str] = {}
    for name in trace.names("attention.*"):
        value = trace[name].detach()
        found[name.partition(".")[2]] = value[0, head] if value.dim() == 4 else value
    query = found["query"]
    assert isinstance(query, Tensor)
    return found | {"d_head": torch.tensor(query.shape[-1])}


def _names(q: Tensor, k: Tensor, v: Tensor) -> list[tuple[str, Tensor]]:
    return [("query", q), ("key", k), ("value", v)]


def _join(x: Tensor) -> Tensor:
    """(1, heads, positions, d_head) -> (positions, heads * d_head)"""
    return x[0].transpose(0, 1).flatten(1)


@torch.no_grad()
def _project(x: Tensor, weight: Tensor) -> Tensor:
    linear = nn.Linear(*weight.shape, bias=False, dtype=torch.float64)
    linear.weight.copy_(weight.T)
    return linear(x)  # type: ignore[no-any-return]


def _state(board: Board, x: Tensor, weights: Mapping[str, Tensor], identity: bool) -> None:
    board.state("X", x)
    if identity:
        board.state(" = ".join(weights), "I", name="identity")
    else:
        for symbol, weight in weights.items():
            board.state(symbol, weight)


def _three(
    given: Mapping[str, Numbers | None], weights: Mapping[str, Numbers | None]
) -> list[Tensor]:
    stray = [name for name, table in weights.items() if table is not None]
    missing = [name for name, table in given.items() if table is None]
    if stray:
        raise InputError(f"{stray[0]} needs x: it turns inputs into queries, keys or values")
    if missing:
        raise InputError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: give q, k and v, "
            f"or x with identity, or x with wq, wk and wv"
        )
    return [matrix(table, name) for name, table in given.items() if table is not None]


def _weights(
    given: Mapping[str, Numbers | None], x: Tensor, identity: bool, square: bool = False
) -> list[Tensor]:
    d_model = x.shape[1]
    names = [name for name, table in given.items() if table is not None]
    if identity:
        if names:
            raise InputError(
                f"{names[0]} and identity: give the weights, or identity for weights of 1 and 0"
            )
        return [torch.eye(d_model, dtype=torch.float64) for _ in given]
    missing = [name for name in given if name not in names]
    if missing:
        raise InputError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: x needs "
            f"{', '.join(given)}, or identity"
        )
    found = [matrix(table, name) for name, table in given.items() if table is not None]
    for name, weight in zip(given, found, strict=True):
        if weight.shape[0] != d_model:
            raise InputError(
                f"x is {shape(x)} and {name} is {shape(weight)}: {name} must have as many rows as x "
                f"has columns ({d_model})"
            )
        if square and weight.shape[1] != d_model:
            raise InputError(
                f"{name} is {shape(weight)}: with several heads it must be {d_model} x {d_model}, "
                f"all heads side by side"
            )
    return found


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


def _title(name: str, causal: bool, unscaled: bool) -> str:
    extras = [word for word, on in (("causal", causal), ("unscaled", unscaled)) if on]
    return name + (f" ({', '.join(extras)})" if extras else "")


def _shares(pattern: Tensor, digits: int) -> str:
    """The second row in words: what most sources compute by hand."""
    row = min(1, pattern.shape[0] - 1)
    if pattern.shape[1] > 6:
        return ""
    shares = [f"{w:.{digits}f} of value {i}" for i, w in enumerate(pattern[row].tolist(), 1)]
    text = ", ".join(shares[:-1]) + " and " + shares[-1] if len(shares) > 1 else shares[0]
    return f"Query {row + 1} takes {text}."
