"""One number of a run with all its digits, and the sum that gave it."""

import math
from typing import Any

from torch import Tensor

from translucid.catalogue import describe
from translucid.errors import InputError
from translucid.studio.text_runs import Run

ATTENDED = ("scores", "scaled", "biased", "masked", "pattern")  # of each query and key, in order


def cell(run: Run, at: str, index: tuple[int, ...]) -> dict[str, Any]:
    """One number with all its digits, and how it came about."""
    value = run[at]
    value = value[0] if value.dim() else value  # a scale has no batch
    if len(index) != value.dim() or any(
        not 0 <= i < size for i, size in zip(index, value.shape, strict=False)
    ):
        raise InputError(f"index: {at} has the shape {tuple(value.shape)}; {index} is not in it")
    exact = float(value[index]) if index else float(value)
    return {
        "at": at, "index": index, "value": repr(exact), "meaning": describe(at).meaning,
        "worked": list(_worked(run, at, index)),
    }  # fmt: skip


def _worked(run: Run, at: str, index: tuple[int, ...]) -> Any:
    """The sum as a teacher writes it: name, what is done, the number."""
    scope, _, point = at.rpartition(".")
    part = scope.rpartition(".")[2]
    if part.endswith("attention") and point in ATTENDED:
        yield from _attention(run, scope, index, point)
    elif part == "alignment" and point in ("scores", "pattern"):
        yield from _softmax(run[f"{scope}.scores"][0, index[0]], index[1], point, "a(q, k)")
    elif part in ("lstm", "gru", "rnn") and len(index) == 2:
        yield from _recurrent(run, scope, point, index)


def _attention(run: Run, scope: str, index: tuple[int, ...], point: str) -> Any:
    head, query, key = index
    row = {
        name: run[f"{scope}.{name}"][0, head, query]
        for name in ATTENDED[:-1]
        if f"{scope}.{name}" in run.shapes
    }
    scale = float(run[f"{scope}.scale"]) if f"{scope}.scale" in run.shapes else 1.0
    yield _line("query · key", "q·k", float(row["scores"][key]))
    if point != "scores":
        yield _line("scaled", f"× {scale:.4g}", float(row["scaled"][key]))
    if point not in ("scores", "scaled") and "biased" in row:
        bias = float(row["biased"][key]) - float(row["scaled"][key])
        yield _line("biased", f"{'+' if bias > 0 else '−'} {abs(bias):.4g}",
                    float(row["biased"][key]))  # fmt: skip
    if point == "masked":
        seen = math.isfinite(float(row["masked"][key]))
        yield _line("masked", "may be seen" if seen else "not seen", float(row["masked"][key]))
    if point == "pattern":
        yield from _softmax_lines(row["masked"], key)


def _softmax(scores: Tensor, key: int, point: str, operation: str) -> Any:
    yield _line("score", operation, float(scores[key]))
    if point == "pattern":
        yield from _softmax_lines(scores, key)


def _softmax_lines(scores: Tensor, key: int) -> Any:
    scores = scores.double()
    grown = (scores - scores.max()).exp()
    yield _line("exponential", "exp(s − max)", float(grown[key]))
    yield _line("row sum", "Σ", float(grown.sum()))
    yield _line("weight", "÷", float(grown[key] / grown.sum()))


def _recurrent(run: Run, scope: str, point: str, index: tuple[int, ...]) -> Any:
    """One unit at one step, from the gates, the candidate and what stood there before."""
    place, unit = index

    def at(name: str) -> float:
        return float(run[f"{scope}.{name}"][0, place, unit])

    match scope.rpartition(".")[2], point:
        case "lstm", "cell":
            old, forget, write = (
                _before(run, scope, "cell", index),
                at("forget_gate"),
                at("input_gate"),
            )
            yield _line("old cell", "c before", old)
            yield _line("forget gate", "f", forget)
            yield _line("kept", "f · c before", forget * old)
            yield _line("input gate", "i", write)
            yield _line("candidate", "g", at("candidate"))
            yield _line("written", "i · g", write * at("candidate"))
            yield _line("cell", "+", at("cell"))
        case "lstm", "hidden":
            yield _line("cell", "c", at("cell"))
            yield _line("squashed", "tanh c", math.tanh(at("cell")))
            yield _line("output gate", "o", at("output_gate"))
            yield _line("hidden", "o · tanh c", at("hidden"))
        case "gru", "hidden":
            old, stay = _before(run, scope, "hidden", index), at("update_gate")
            yield _line("old state", "h before", old)
            yield _line("update gate", "z", stay)
            yield _line("stays", "z · h before", stay * old)
            yield _line("candidate", "n", at("candidate"))
            yield _line("new", "(1 − z) · n", (1 - stay) * at("candidate"))
            yield _line("hidden", "+", at("hidden"))
        case "rnn", "hidden":
            yield _line("old state", "h before", _before(run, scope, "hidden", index))
            yield _line("input and hidden state", "a", at("preactivation"))
            yield _line("hidden", "act(a)", at("hidden"))


def _before(run: Run, scope: str, point: str, index: tuple[int, ...]) -> float:
    """What a unit held one step earlier; at the first step what it began with."""
    place, unit = index
    values = run[f"{scope}.{point}"][0]
    place += 1 if "backward" in scope.split(".") else -1
    if 0 <= place < values.shape[0]:
        return float(values[place, unit])
    if "decoder." not in scope:
        return 0.0
    bridge = f"{scope.partition('decoder.')[0]}decoder.bridge."
    if f"{bridge}copied_{point}" in run.shapes:
        layer = int(scope.partition(".layers.")[2].partition(".")[0])
        return float(run[f"{bridge}copied_{point}"][0, layer, unit])
    return float(run[f"{bridge}{point}"][0, unit]) if f"{bridge}{point}" in run.shapes else 0.0


def _line(name: str, operation: str, value: float) -> dict[str, Any]:
    return {"name": name, "operation": operation, "value": value if math.isfinite(value) else None}
