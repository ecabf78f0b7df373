"""Back through time: the gradient at every step, and of every weight."""

import torch
from torch import Tensor

from translucid.core.catalogue import CATALOGUE
from translucid.core.trace import Trace
from translucid.parts.recurrent import Recurrent
from translucid.worked.board import Board
from translucid.worked.descent import compare, gradient, squared_loss, write_update
from translucid.worked.exercise import Exercise, symbol
from translucid.worked.solution.content import Table, plain

_WRITTEN_OUT = 4  # with more steps than this, the sums over time are not written out

# The sum in which each weight stands, by the weight's index.
_SUMS = {
    "rnn": {"": "preactivation"},
    "lstm": {
        "f": "forget_sum", "i": "input_sum", "g": "candidate_sum", "o": "output_sum",
    },
    "gru": {"r": "reset_sum", "z": "update_sum", "n": "candidate_sum", "hn": "candidate_sum"},
}  # fmt: skip


def backward(
    board: Board,
    exercise: Exercise,
    part: Recurrent,
    trace: Trace,
    goal: Tensor,
    rate: Tensor | None,
) -> str:
    """The steps from the loss back to the weights, and with a rate one update; what came of it."""
    board.section = "Loss"
    loss = squared_loss(board, *_last(exercise, trace), goal, "y")
    board.section = "Backward through time"
    trend = _states(board, exercise, trace, loss)
    sums = _sums(board, exercise, trace, loss)
    slopes = exercise.slopes(part, loss)
    for name in exercise.written:
        _weight(board, exercise, trace, name, sums, slopes[name])
    if rate is None:
        return f"The loss is {board.number(loss.item())}. {trend}".strip()

    board.section = "One step of gradient descent"
    after = {n: w.detach().clone().requires_grad_() for n, w in exercise.weights.items()}
    for name in exercise.written:  # a bias that is not there does not learn
        after[name].grad = slopes[name]
    torch.optim.SGD(after.values(), lr=rate.item()).step()
    for name, before in exercise.written.items():
        write_update(board, symbol(name), before, slopes[name], rate, after[name].detach())

    board.section = "Forward again, with the new weights"
    again = Trace()
    exercise.read(exercise.build({n: w.detach() for n, w in after.items()}), again)
    lower = squared_loss(board, *_last(exercise, again), goal, "y")
    return f"{compare(board, loss, lower)} {trend}".strip()


def _last(exercise: Exercise, trace: Trace) -> tuple[str, Tensor]:
    length = len(exercise.x)
    return f"h_{{{length}}}", _at(exercise, trace, "hidden", length - 1)


def _at(exercise: Exercise, trace: Trace, point: str, t: int) -> Tensor:
    return trace[f"layers.0.{exercise.kind}.{point}@{t}"][0]


def _gradients(exercise: Exercise, trace: Trace, loss: Tensor, point: str) -> list[Tensor]:
    """∂L/∂point at every step: (hidden,) each."""
    name = f"layers.0.{exercise.kind}.{point}"
    values = [trace[f"{name}@{t}"] for t in range(len(exercise.x))]
    gradients = torch.autograd.grad(loss, values, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(exercise.h0) if g is None else g[0] for g in gradients]


def _states(board: Board, exercise: Exercise, trace: Trace, loss: Tensor) -> str:
    """The gradient at each state, latest first, where vanishing shows."""
    hidden, cells = _gradients(exercise, trace, loss, "hidden"), list[Tensor]()
    sizes = [g.norm().item() for g in hidden]
    header = ["$t$", rf"${_inline('h_t')}$", rf"$\lVert {_inline('h_t')} \rVert$"]
    columns = [[_row(board, g) for g in hidden], [_one(board, size) for size in sizes]]
    if exercise.c0 is not None:
        header.append(rf"${_inline('c_t')}$")
        cells = _gradients(exercise, trace, loss, "cell")
        columns.append([_row(board, g) for g in cells])
    order = range(len(hidden) - 1, -1, -1)
    rows = tuple((str(t + 1), *(column[t] for column in columns)) for t in order)
    board.table(
        "Gradient at each state, from the last step to the first",
        Table(tuple(header), rows),
        name="dL/dh",
        value=plain(torch.stack(hidden)),
        note="Each value holds all ways from that state to the loss.",
    )
    if len(sizes) < 2 or not sizes[0] or not sizes[-1]:
        return ""
    trend, at_cell = _trend(board, hidden), ""
    if cells and cells[-1].any():  # the way on which an LSTM carries a gradient far back
        at_cell = f"; at the cell ($dL/dc$), which carries it, it {_trend(board, cells)}"
        trend = f"at the hidden state ($dL/dh$) {trend}"
    return f"From step {len(sizes)} back to step 1 the gradient {trend}{at_cell}."


def _trend(board: Board, gradients: list[Tensor]) -> str:
    """From the last step to the first."""
    factor = gradients[0].norm().item() / gradients[-1].norm().item()
    return f"{'shrinks' if factor < 1 else 'grows'} to {board.number(factor)} times its size"


def _sums(board: Board, exercise: Exercise, trace: Trace, loss: Tensor) -> dict[str, list[Tensor]]:
    """The gradient at each sum, through which it reaches the weights."""
    points = list(dict.fromkeys(_SUMS[exercise.kind].values()))
    gradients = {point: _gradients(exercise, trace, loss, point) for point in points}
    symbols = [CATALOGUE[f"{exercise.kind}.{point}"].symbol for point in points]
    rows = tuple(
        (str(t + 1), *(_row(board, gradients[point][t]) for point in points))
        for t in range(len(exercise.x) - 1, -1, -1)
    )
    board.table(
        "Gradient at each sum: through the slope of its sigmoid or tanh"
        if exercise.kind != "rnn"
        else "Gradient at each sum: through the slope of the activation",
        Table(("$t$", *(f"${_inline(letter)}$" for letter in symbols)), rows),
        name="dL/da",
        value={point: plain(torch.stack(gradients[point])) for point in points},
    )
    return gradients


def _weight(
    board: Board,
    exercise: Exercise,
    trace: Trace,
    name: str,
    sums: dict[str, list[Tensor]],
    slope: Tensor,
) -> None:
    """A weight is used at every step, so its gradient is a sum over the steps."""
    letter, _, index = name.partition("_")
    point = _SUMS[exercise.kind][index]
    length = len(exercise.x)
    before = [exercise.h0, *(_at(exercise, trace, "hidden", t).detach() for t in range(length - 1))]
    reset = exercise.kind == "gru" and name in ("U_n", "b_hn")
    values: dict[str, Tensor | str] = {}
    for t in range(length):
        values |= {f"d{t}": sums[point][t], f"x{t}": exercise.x[t], f"h{t}": before[t]}
        if reset:
            values[f"r{t}"] = _at(exercise, trace, "reset_gate", t).detach()
    other = {"W": r" <x{t}>^{\top}", "U": r" <h{t}>^{\top}", "b": ""}[letter]
    first = r"(<d{t}> \odot <r{t}>)" if reset else "<d{t}>"
    terms = [(first + other).replace("{t}", str(t)) for t in range(length)]
    symbols = {"W": r"\, x_t^{\top}", "U": r"\, h_{t-1}^{\top}", "b": ""}[letter]
    error = gradient(CATALOGUE[f"{exercise.kind}.{point}"].symbol)
    error = rf"({error} \odot r)" if reset else error
    board.step(
        f"Gradient of ${symbol(name)}$: a sum over the steps",
        gradient(symbol(name)),
        " + ".join(terms) if length <= _WRITTEN_OUT else "",
        slope,
        values,
        formula=rf"\sum_t {error}{symbols}",
        name=f"dL/d{name}",
        noise=0.0,
    )


def _inline(letter: str) -> str:
    return rf"\partial L/\partial {letter}"


def _one(board: Board, value: float) -> str:
    return board.number(value, 0.0)


def _row(board: Board, values: Tensor) -> str:
    """A small vector within a line."""
    texts = [board.writer.number(value, 0.0) for value in values.tolist()]
    return f"${texts[0]}$" if len(texts) == 1 else f"$({', '.join(texts)})$"
