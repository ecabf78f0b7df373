"""Topics: RNN, LSTM and GRU cells with one unit, and backpropagation through time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from translucid.practice.topic import DIGITS, Draw, Formula, Part, Slip, Topic, sigmoid, slip
from translucid.worked import gru as worked_gru
from translucid.worked import lstm as worked_lstm
from translucid.worked import rnn as worked_rnn


def _draw_rnn(draw: Draw) -> dict[str, Any]:
    return {
        "x": draw.halves(3), "W": draw.halves(most=1.0), "U": draw.halves(),
        "b": draw.halves(most=0.5), "y": draw.choice([-1.0, 0.0, 1.0]),
    }  # fmt: skip


def _solve_rnn(v: Any, target: bool) -> Any:
    x = [[value] for value in v.x]
    goal = [v.y] if target else None
    weights = {"W": [[v.W]], "U": [[v.U]], "b": [v.b]}
    return worked_rnn(x, weights, h0=[0], target=goal, digits=DIGITS)


def _state(t: int, act: Callable[[Any], Any] = np.tanh) -> Formula:
    return lambda v: act(v.W * v.x[t] + v.U * (getattr(v, f"h{t}") if t else 0.0) + v.b)


def _at_steps(make: Callable[[int], Formula], first: int = 0) -> dict[str, Formula]:
    """The same slip at every step from `first`, counted from 0."""
    return {f"h{t + 1}": make(t) for t in range(first, 3)}


def _before(v: Any, t: int) -> Any:
    return getattr(v, f"h{t}") if t else 0.0


RNN = Topic(
    "rnn",
    "Three steps of an RNN",
    r"The state is $h_t = \tanh(W x_t + U h_{t-1} + b)$.",
    _draw_rnn,
    lambda v: _solve_rnn(v, target=False),
    tuple(
        Part(f"h{t + 1}", f"the state $h_{t + 1}$", _state(t), f"layers.0.rnn.hidden@{t}")
        for t in range(3)
    ),
    (
        slip("no-bias", "Add the bias b at every step.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * v.x[t] + v.U * _before(v, t)))),
        slip("no-tanh", "Apply tanh at every step.", **_at_steps(lambda t: _state(t, lambda a: a))),
        slip("sigmoid", "The activation is tanh, not the sigmoid.",
             **_at_steps(lambda t: _state(t, sigmoid))),
        slip("exchanged", "W belongs to the input and U to the earlier state.",
             **_at_steps(lambda t: lambda v: np.tanh(v.U * v.x[t] + v.W * _before(v, t) + v.b))),
        slip("no-state", "Each step also uses the state before it.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * v.x[t] + v.b), 1)),
        slip("no-U", "Multiply the earlier state by U.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * v.x[t] + _before(v, t) + v.b), 1)),
        slip("no-W", "Multiply the input by W.",
             **_at_steps(lambda t: lambda v: np.tanh(v.x[t] + v.U * _before(v, t) + v.b))),
        slip("minus-bias", "Add the bias; do not subtract it.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * v.x[t] + v.U * _before(v, t) - v.b))),
        slip("first-state", "Step 3 uses the state of step 2.",
             h3=lambda v: np.tanh(v.W * v.x[2] + v.U * v.h1 + v.b)),
        slip("no-new-input", "Every step reads a new input.",
             h3=lambda v: np.tanh(v.W * v.x[1] + v.U * v.h2 + v.b)),
        slip("relu", "The activation is tanh, not ReLU.",
             **_at_steps(lambda t: _state(t, lambda a: np.maximum(a, 0)))),
        slip("bias-outside", "Add the bias before tanh, not after it.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * v.x[t] + v.U * _before(v, t)) + v.b)),
        slip("tanh-of-each", "Apply tanh to the whole sum, not to each term.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * v.x[t]) + np.tanh(v.U * _before(v, t))
                         + np.tanh(v.b))),
        slip("minus-state", "Add U h; do not subtract it.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * v.x[t] - v.U * _before(v, t) + v.b), 1)),
        slip("W-for-U", "The earlier state has its own weight U.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * (v.x[t] + _before(v, t)) + v.b), 1)),
        slip("added-state", "The earlier state goes through tanh, with the factor U.",
             **_at_steps(lambda t: lambda v: np.tanh(v.W * v.x[t] + v.b) + _before(v, t), 1)),
        slip("first-input", "Step 2 reads the second input.",
             h2=lambda v: np.tanh(v.W * v.x[0] + v.U * v.h1 + v.b)),
        slip("both-states", "Step 3 uses only the state of step 2, which contains the earlier one.",
             h3=lambda v: np.tanh(v.W * v.x[2] + v.U * (v.h1 + v.h2) + v.b)),
    ),
    decimals=4,
)  # fmt: skip


def _draw_cell(gates: str) -> Callable[[Draw], dict[str, Any]]:
    def draw_cell(draw: Draw) -> dict[str, Any]:
        weights = {f"{letter}_{gate}": draw.halves() for gate in gates for letter in "WUb"}
        return {"x": draw.halves(), "h0": draw.halves(), "c0": draw.halves(most=2.0), **weights}

    return draw_cell


def _weights(v: Any, gates: str) -> dict[str, list[list[float]]]:
    return {f"{a}_{g}": [[getattr(v, f"{a}_{g}")]] for g in gates for a in "WUb"}


def _sum(v: Any, gate: str, *, input: bool = True, state: bool = True, bias: bool = True) -> Any:
    w, u, b = (getattr(v, f"{letter}_{gate}") for letter in "WUb")
    return w * v.x * input + u * v.h0 * state + b * bias


def _gates(acts: dict[str, Any], **options: bool) -> dict[str, Formula]:
    """The formulas of these gates, each with its activation."""

    def gate(name: str, act: Any) -> Formula:
        return lambda v: act(_sum(v, name, **options))

    return {name: gate(name, act) for name, act in acts.items()}


def _linear(a: Any) -> Any:
    return a


_LSTM = {"f": sigmoid, "i": sigmoid, "g": np.tanh, "o": sigmoid}
_LSTM_PLAIN = _gates(_LSTM)
_LSTM_POINTS = {
    "f": ("the forget gate $f$", "forget_gate"), "i": ("the input gate $i$", "input_gate"),
    "g": ("the candidate $g$", "candidate"), "o": ("the output gate $o$", "output_gate"),
}  # fmt: skip


def _common(acts: dict[str, Any]) -> tuple[Slip, ...]:
    """Slips of both cells."""
    return (
        slip("no-bias", "Add the bias b to each sum.", **_gates(acts, bias=False)),
        slip("no-state", "Add U h to each sum, with the state before this step.",
             **_gates(acts, state=False)),
        slip("no-input", "Add W x to each sum.", **_gates(acts, input=False)),
    )  # fmt: skip


LSTM = Topic(
    "lstm",
    "One step of an LSTM",
    "Compute the gates, the new cell and the new state.",
    _draw_cell("figo"),
    lambda v: worked_lstm([[v.x]], _weights(v, "figo"), h0=[v.h0], c0=[v.c0], digits=DIGITS),
    (
        *(Part(name, ask, _LSTM_PLAIN[name], f"layers.0.lstm.{point}")
          for name, (ask, point) in _LSTM_POINTS.items()),
        Part("c", "the cell $c_1$", lambda v: v.f * v.c0 + v.i * v.g, "layers.0.lstm.cell"),
        Part("h", "the state $h_1$", lambda v: v.o * np.tanh(v.c), "layers.0.lstm.hidden"),
    ),
    (
        *_common(_LSTM),
        slip("tanh-gates", "The gates use the sigmoid.",
             **_gates(dict.fromkeys("fio", np.tanh))),
        slip("no-sigmoid", "Apply the sigmoid to the sum of each gate.",
             **_gates(dict.fromkeys("fio", _linear))),
        slip("sigmoid-candidate", "The candidate uses tanh, not the sigmoid.",
             **_gates({"g": sigmoid})),
        slip("linear-candidate", "Apply tanh to the candidate.", **_gates({"g": _linear})),
        slip("gates-exchanged", "The forget gate multiplies the old cell, the input gate the "
             "candidate.", c=lambda v: v.i * v.c0 + v.f * v.g),
        slip("no-forget", "Multiply the old cell by the forget gate.",
             c=lambda v: v.c0 + v.i * v.g),
        slip("no-input-gate", "Multiply the candidate by the input gate.",
             c=lambda v: v.f * v.c0 + v.g),
        slip("one-minus-f", "An LSTM has an input gate of its own; 1 - f is not used.",
             c=lambda v: v.f * v.c0 + (1 - v.f) * v.g),
        slip("state-for-cell", "The forget gate multiplies the old cell c, not the old state h.",
             c=lambda v: v.f * v.h0 + v.i * v.g),
        slip("no-old-cell", "Add the part of the old cell that is kept.", c=lambda v: v.i * v.g),
        slip("minus", "Add both parts of the new cell.", c=lambda v: v.f * v.c0 - v.i * v.g),
        slip("no-tanh", "Apply tanh to the cell before the output gate.", h=lambda v: v.o * v.c),
        slip("no-output-gate", "Multiply by the output gate.", h=lambda v: np.tanh(v.c)),
        slip("sigmoid-cell", "Apply tanh to the cell, not the sigmoid.",
             h=lambda v: v.o * sigmoid(v.c)),
        slip("tanh-outside", "Multiply by the output gate after tanh.",
             h=lambda v: np.tanh(v.o * v.c)),
    ),
    decimals=4,
)  # fmt: skip

_GRU = {"r": sigmoid, "z": sigmoid}


def _candidate(act: Any = np.tanh, **changed: Formula) -> Formula:
    """The candidate of a GRU; changed: other factors of the terms W x (`w`) and U h (`u`)."""
    one: Formula = lambda _: 1.0  # noqa: E731
    w, u = changed.get("w", one), changed.get("u", lambda v: v.r)
    return lambda v: act(w(v) * v.W_n * v.x + u(v) * v.U_n * v.h0 + v.b_n)


GRU = Topic(
    "gru",
    "One step of a GRU",
    "Compute both gates, the candidate and the new state. As in torch, z is the fraction of the "
    "old state that is kept.",
    _draw_cell("rzn"),
    lambda v: worked_gru([[v.x]], _weights(v, "rzn"), h0=[v.h0], digits=DIGITS),
    (
        Part("r", "the reset gate $r$", _gates(_GRU)["r"], "layers.0.gru.reset_gate"),
        Part("z", "the update gate $z$", _gates(_GRU)["z"], "layers.0.gru.update_gate"),
        Part("n", "the candidate $n$", _candidate(), "layers.0.gru.candidate"),
        Part("h", "the state $h_1$", lambda v: (1 - v.z) * v.n + v.z * v.h0,
             "layers.0.gru.hidden"),
    ),
    (
        *_common(_GRU),
        slip("tanh-gates", "The gates use the sigmoid.", **_gates(dict.fromkeys("rz", np.tanh))),
        slip("no-sigmoid", "Apply the sigmoid to the sum of each gate.",
             **_gates(dict.fromkeys("rz", _linear))),
        slip("no-reset", "The reset gate multiplies U h in the candidate.",
             n=_candidate(u=lambda _: 1.0)),
        slip("update-for-reset", "The candidate uses the reset gate r, not the update gate z.",
             n=_candidate(u=lambda v: v.z)),
        slip("reset-input", "The reset gate multiplies only U h, not W x.",
             n=_candidate(w=lambda v: v.r)),
        slip("one-minus-r", "Multiply U h by r, not by 1 - r.", n=_candidate(u=lambda v: 1 - v.r)),
        slip("no-candidate-state", "Add r U h to the candidate.", n=_candidate(u=lambda _: 0.0)),
        slip("sigmoid-candidate", "The candidate uses tanh, not the sigmoid.",
             n=_candidate(sigmoid)),
        slip("linear-candidate", "Apply tanh to the candidate.", n=_candidate(_linear)),
        slip("no-candidate-bias", "Add the bias b_n to the candidate.",
             n=lambda v: np.tanh(v.W_n * v.x + v.r * v.U_n * v.h0)),
        slip("exchanged", "Here z is the fraction of the OLD state: h = (1 - z) n + z h.",
             h=lambda v: v.z * v.n + (1 - v.z) * v.h0),
        slip("no-old-state", "Add the part z of the old state.", h=lambda v: (1 - v.z) * v.n),
        slip("no-one-minus", "Multiply the candidate by 1 - z.", h=lambda v: v.n + v.z * v.h0),
        slip("reset-for-update", "The new state is mixed with the update gate z, not with r.",
             h=lambda v: (1 - v.r) * v.n + v.r * v.h0),
        slip("minus", "Add both parts of the new state.",
             h=lambda v: (1 - v.z) * v.n - v.z * v.h0),
    ),
    decimals=4,
)  # fmt: skip


def _both_slopes(slope: Callable[[Any, int], Any]) -> dict[str, Formula]:
    """The slip of using another slope of tanh at steps 3 and 2."""
    return {
        "da3": lambda v: v.dh3 * slope(v, 3),
        "da2": lambda v: v.dh2 * slope(v, 2),
    }


def _h(v: Any, t: int) -> Any:
    return getattr(v, f"h{t}")


_BACK = _both_slopes(lambda v, t: 1 - _h(v, t) ** 2)

BPTT = Topic(
    "bptt",
    "Backpropagation through time",
    r"An RNN reads three inputs: $h_t = \tanh(a_t)$ with $a_t = W x_t + U h_{t-1} + b$. The loss "
    r"is $L = (y - h_3)^2 / 2$.",
    _draw_rnn,
    lambda v: _solve_rnn(v, target=True),
    (
        *RNN.parts,
        Part("dh3", r"$\frac{\partial L}{\partial h_3}$", lambda v: v.h3 - v.y, "dL/dh_{3}"),
        Part("da3", r"$\frac{\partial L}{\partial a_3}$", _BACK["da3"], "dL/da_{3}"),
        Part("dh2", r"$\frac{\partial L}{\partial h_2}$", lambda v: v.U * v.da3, "dL/dh_{2}"),
        Part("da2", r"$\frac{\partial L}{\partial a_2}$", _BACK["da2"], "dL/da_{2}"),
        Part("dU", r"$\frac{\partial L}{\partial U}$", lambda v: v.da3 * v.h2 + v.da2 * v.h1,
             "dL/dU"),
    ),
    (
        *(s for s in RNN.slips if s.name in ("no-bias", "sigmoid", "no-tanh")),
        slip("reversed", "The gradient at the last state is h minus y.", dh3=lambda v: v.y - v.h3),
        slip("no-half", "The loss is half the squared error, so its derivative has no factor 2.",
             dh3=lambda v: 2 * (v.h3 - v.y)),
        slip("loss-for-error", "The gradient starts with the error, not with the loss.",
             dh3=lambda v: (v.h3 - v.y) ** 2 / 2),
        slip("no-slope", "Multiply by the slope of tanh, 1 - h².",
             **_both_slopes(lambda v, t: 1.0)),
        slip("not-squared", "The slope of tanh is 1 - h², not 1 - h.",
             **_both_slopes(lambda v, t: 1 - _h(v, t))),
        slip("slope-of-sigmoid", "The slope of tanh is 1 - h²; h (1 - h) belongs to the sigmoid.",
             **_both_slopes(lambda v, t: _h(v, t) * (1 - _h(v, t)))),
        slip("value-for-slope", "Multiply by the slope of tanh, not by its value.",
             **_both_slopes(_h)),
        slip("earlier-slope", "The slope at a_t uses the state of the same step.",
             **_both_slopes(lambda v, t: 1 - _h(v, t - 1) ** 2)),
        slip("past-slope", "Going back one step starts from the gradient at a_3, after the slope.",
             dh2=lambda v: v.U * v.dh3),
        slip("no-U", "Going back one step multiplies by U.", dh2=lambda v: v.da3),
        slip("W-for-U", "Going back one step multiplies by U, not by W.",
             dh2=lambda v: v.W * v.da3),
        slip("truncated", "Step 2 uses U too: add its term.", dU=lambda v: v.da3 * v.h2),
        slip("same-state", "Each term uses the state before that step.",
             dU=lambda v: v.da3 * v.h3 + v.da2 * v.h2),
        slip("x-for-h", "U multiplies the states; with the inputs you get the gradient of W.",
             dU=lambda v: v.da3 * v.x[2] + v.da2 * v.x[1]),
        slip("mean", "Add up the steps; do not average them.",
             dU=lambda v: (v.da3 * v.h2 + v.da2 * v.h1) / 2),
        slip("no-state", "Multiply each term by the state before that step.",
             dU=lambda v: v.da3 + v.da2),
    ),
    decimals=4,
    fits=lambda v: bool(abs(v.dU) > 0.02),
)  # fmt: skip

TOPICS = (RNN, LSTM, GRU, BPTT)
