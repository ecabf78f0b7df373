"""Exercises: RNN, LSTM and GRU on a short sequence, with every gate at every step, and
backpropagation through time.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.spelling import Missing, quoted
from translucid.core.trace import Trace
from translucid.parts.recurrent_cells import INSIDE, CellName
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board, check_rate
from translucid.worked.cells import CellExercise, read_cell_exercise, symbol
from translucid.worked.plain import Program
from translucid.worked.solution.numbers import Number, Numbers, many, matrix, vector, whole
from translucid.worked.solution.solution import Solution
from translucid.worked.through_time import backward

ONE_UNIT: dict[str, Numbers] = {"W": "0.5", "U": "0.8", "b": "0"}  # for a single target
EXAMPLES: dict[str, dict[str, Numbers]] = {
    "rnn": {"W": "0.5; -1", "U": "0.4 0.3; -0.2 0.6", "b": "0 0.1"},
    "lstm": {
        "W_f": "0.5", "U_f": "0.1", "b_f": "1", "W_i": "-0.25", "U_i": "0.2", "b_i": "0",
        "W_g": "0.75", "U_g": "0.4", "b_g": "0", "W_o": "1", "U_o": "-0.3", "b_o": "0",
    },
    "gru": {
        "W_r": "-0.25", "U_r": "0.2", "b_r": "0", "W_z": "0.5", "U_z": "0.1", "b_z": "0",
        "W_n": "0.75", "U_n": "0.4", "b_n": "0",
    },
}  # fmt: skip
EXAMPLE_X = "1; -0.5; 2"
_FULL = {  # commands that run the examples with a loss and one SGD step
    "rnn": 'translucid work rnn --target "1 1" --rate 0.1',
    "lstm": "translucid work lstm --target 1 --rate 0.1",
    "gru": "translucid work gru --target 1 --rate 0.1",
}
_NEXT = {
    "rnn": "translucid work lstm",
    "lstm": "translucid work gru",
    "gru": "translucid work attention",
}


def rnn(
    x: Numbers | None = None,
    weights: Mapping[str, Numbers] | None = None,
    *,
    h0: Numbers | None = None,
    target: Numbers | None = None,
    rate: Number | None = None,
    truncate: int | str | None = None,
    activation: Literal["tanh", "relu"] | None = None,
    digits: int = 4,
) -> Solution:
    """An RNN: forward pass and backpropagation through time.

    Computes h = act(W x + U h + b), one step for each row of x.

    x: One row for each step, such as "1; -0.5; 2".
    W, U, b: of the cell
    h0: The hidden state before the first step [default: 0].
    target: Also compute loss and gradients for this target of the last state, one number per unit.
    rate: Make one SGD step with this learning rate.
    truncate: Let gradients flow back only this many steps (truncated backpropagation).

    Example: translucid work rnn --x "1; -0.5; 2" --W 0.5 --U 0.8 --target 1 --rate 0.1
    """
    if activation not in (None, "tanh", "relu"):
        raise InputError(f"activation = {activation}: an RNN uses tanh or relu")
    cell: CellName = "rnn_relu" if activation == "relu" else "rnn"
    asked = activation is not None
    given = {"x": x, "h0": h0, **(weights or {})}
    return _solve(cell, given, target, rate, truncate, digits, asked)


def lstm(
    x: Numbers | None = None,
    weights: Mapping[str, Numbers] | None = None,
    *,
    h0: Numbers | None = None,
    c0: Numbers | None = None,
    target: Numbers | None = None,
    rate: Number | None = None,
    truncate: int | str | None = None,
    digits: int = 4,
) -> Solution:
    """An LSTM: forward pass and backpropagation through time.

    Shows forget (f), input (i) and output (o) gates, candidate (g), cell and hidden state per step.

    x: One row for each step, such as "1; -0.5; 2".
    W_f, U_f, b_f: of the forget gate
    W_i, U_i, b_i: of the input gate
    W_g, U_g, b_g: of the candidate
    W_o, U_o, b_o: of the output gate
    h0: The hidden state before the first step [default: 0].
    c0: The cell state before the first step [default: 0].
    target: Also compute loss and gradients for this target of the last state, one number per unit.
    rate: Make one SGD step with this learning rate.
    truncate: Let gradients flow back only this many steps (truncated backpropagation).

    Example: translucid work lstm --target 1 --rate 0.1

    Example: translucid work lstm --file lstm.toml
    """
    given = {"x": x, "h0": h0, "c0": c0, **(weights or {})}
    return _solve("lstm", given, target, rate, truncate, digits)


def gru(
    x: Numbers | None = None,
    weights: Mapping[str, Numbers] | None = None,
    *,
    h0: Numbers | None = None,
    target: Numbers | None = None,
    rate: Number | None = None,
    truncate: int | str | None = None,
    digits: int = 4,
) -> Solution:
    """A GRU: forward pass and backpropagation through time.

    Shows the reset (r) and update (z) gates, candidate (n) and hidden state per step.

    x: One row for each step, such as "1; -0.5; 2".
    W_r, U_r, b_r: of the reset gate
    W_z, U_z, b_z: of the update gate
    W_n, U_n, b_n: of the candidate
    b_hn: of the candidate, multiplied by the reset gate
    h0: The hidden state before the first step [default: 0].
    target: Also compute loss and gradients for this target of the last state, one number per unit.
    rate: Make one SGD step with this learning rate.
    truncate: Let gradients flow back only this many steps (truncated backpropagation).

    Example: translucid work gru --target 1 --rate 0.1

    Example: translucid work gru --file gru.toml
    """
    given = {"x": x, "h0": h0, **(weights or {})}
    return _solve("gru", given, target, rate, truncate, digits)


def _solve(
    cell: CellName,
    given: Mapping[str, Numbers | None],
    target: Numbers | None,
    rate: Number | None,
    truncate: int | str | None,
    digits: int,
    asked: bool = False,
) -> Solution:
    kind = "rnn" if cell == "rnn_relu" else cell
    exercise, numbers = read_cell_exercise(cell, given, _example(kind, given, target))
    with numbers.fitting():
        goal, speed = _goal(exercise, target, rate)
    first = _first(exercise, truncate, goal)
    board = Board(digits)
    _given(board, exercise, goal, speed)
    part, trace = exercise.build(exercise.weights), exercise.truncated(first)
    last = exercise.read(part, trace)
    for t in range(len(exercise.x)):
        _time_step(board, exercise, trace, t)
    closing = f"The last state is {', '.join(board.number(v) for v in last.tolist())}."
    if goal is not None:
        closing = backward(board, exercise, part, trace, goal, speed, first)
    return board.solution(
        title=f"{kind.upper()} with {_units(len(exercise.h0))} "
        f"over {many(len(exercise.x), 'step')}",
        notes=_notes(cell),
        closing=closing,
        next=_NEXT[kind] if goal is not None and speed is not None else _FULL[kind],
        more=_more(goal, speed, len(exercise.h0)),
        program=_program(exercise),
        example=numbers.example,
        asked=asked or numbers.asked or target is not None,
    )


def _program(exercise: CellExercise) -> Program:
    start = {"h": exercise.h0} | ({} if exercise.c0 is None else {"c": exercise.c0})
    activation = {"activation": "tanh" if exercise.cell == "rnn" else "relu"}
    options = activation if exercise.kind == "rnn" else {}
    functions: dict[str, Callable[..., dict[str, Any]]] = {
        "rnn": in_numpy.rnn, "lstm": in_numpy.lstm, "gru": in_numpy.gru,
    }  # fmt: skip
    function = functions[exercise.kind]
    return Program(function, {"x": exercise.x, **exercise.weights, **start, **options})


def _example(
    kind: str, given: Mapping[str, Numbers | None], target: Numbers | None
) -> dict[str, Numbers]:
    """The built-in example. The RNN has two; if single numbers are given, the one with one unit."""
    numbers = {name: given.get(name) for name in ("W", "U", "b", "h0")} | {"target": target}
    single = (v is not None and matrix(v, name).numel() == 1 for name, v in numbers.items())
    weights = ONE_UNIT if kind == "rnn" and any(single) else EXAMPLES[kind]
    return {"x": EXAMPLE_X, **weights}


def _first(exercise: CellExercise, truncate: int | str | None, goal: Tensor | None) -> int:
    """The first step that gradients reach."""
    if truncate is None:
        return 0
    if goal is None:
        raise Missing(
            "truncate needs target, because without a target there is no gradient",
            ("truncate", "target"),
        )
    kept, length = whole(truncate, "truncate"), len(exercise.x)
    if kept > length:
        raise InputError(
            f"truncate = {kept}: must be at most {length}, because x has {many(length, 'step')}"
        )
    return length - kept


def _more(goal: Tensor | None, rate: Tensor | None, hidden: int) -> str:
    if goal is None:
        return f"--target {quoted(' '.join(['1'] * hidden))} --rate 0.1"
    return "--rate 0.1" if rate is None else ""


def _units(hidden: int) -> str:
    return "one unit" if hidden == 1 else f"{hidden} units"


def _notes(cell: CellName) -> tuple[str, ...]:
    if cell != "gru":
        return ()
    return (
        "here, as in torch, $z$ is the fraction of the OLD state that is kept, and the reset gate "
        "acts after the recurrent product. Some books exchange $z$ and $1 - z$.",
    )


def _goal(
    exercise: CellExercise, target: Numbers | None, rate: Number | None
) -> tuple[Tensor | None, Tensor | None]:
    goal = None if target is None else vector(target, "target")
    if goal is not None and len(goal) != len(exercise.h0):
        raise InputError(
            f"target has {len(goal)} number{'s' * (len(goal) > 1)}, but the state has "
            f"{len(exercise.h0)}; pass one for each unit"
        )
    speed = check_rate(rate, "target", goal)
    return goal, speed


def _given(board: Board, exercise: CellExercise, goal: Tensor | None, rate: Tensor | None) -> None:
    for t, row in enumerate(exercise.x, 1):
        board.state(f"x_{{{t}}}", row)
    for name, weight in exercise.written.items():
        board.state(symbol(name), weight, name=name)
    board.state("h_0", exercise.h0)
    if exercise.c0 is not None:
        board.state("c_0", exercise.c0)
    if goal is not None:
        board.state("y", goal, name="target")
    if rate is not None:
        board.state(r"\eta", rate, name="rate")


def _time_step(board: Board, exercise: CellExercise, trace: Trace, t: int) -> None:
    """Write every trace point of one time step, in trace order."""
    board.section = f"Step {t + 1}"
    scope = f"layers.0.{exercise.kind}"

    def at(point: str, when: int) -> Tensor:
        return trace[f"{scope}.{point}@{when}"][0].detach()

    points = [n for n in trace.names(f"{scope}.*") if n.rpartition(".")[2] in INSIDE[exercise.cell]]
    values: dict[str, Tensor | str] = dict(exercise.weights)
    values |= {n.rpartition(".")[2]: at(n.rpartition(".")[2], t) for n in points}
    values["x"] = exercise.x[t]
    values["h_before"] = exercise.h0 if t == 0 else at("hidden", t - 1)
    if exercise.c0 is not None:
        values["c_before"] = exercise.c0 if t == 0 else at("cell", t - 1)
    values["act"] = r"\tanh" if exercise.cell == "rnn" else r"\mathrm{ReLU}"
    symbols = {"x": f"x_{{{t + 1}}}", "hidden": f"h_{{{t + 1}}}", "cell": f"c_{{{t + 1}}}"}
    symbols |= {"h_before": f"h_{{{t}}}", "c_before": f"c_{{{t}}}", "act": str(values["act"])}
    for name in points:
        board.point(name, values, symbols, exercise.absent)
