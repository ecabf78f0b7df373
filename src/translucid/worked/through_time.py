"""The recurrent cell of an exercise, and backpropagation through time: gradients at every step and
for every weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.catalogue import CATALOGUE
from translucid.core.errors import InputError, nearest
from translucid.core.spelling import Missing, spelt
from translucid.core.trace import Trace
from translucid.parts.cache import RecurrentState
from translucid.parts.recurrent import Recurrent
from translucid.parts.recurrent_cells import BLOCKS, INSIDE, CellName
from translucid.worked.board import Board, compare, gradient, squared_loss, write_update
from translucid.worked.solution.content import SolutionTable, plain
from translucid.worked.solution.numbers import Numbers, matrix, shape, vector

_WRITTEN_OUT = 4  # with more steps than this, the sums over time are not written out


@dataclass(frozen=True)
class CellExercise:
    """A recurrent cell with its weights, input and initial state."""

    cell: CellName
    weights: dict[str, Tensor]  # W (hidden, inputs), U (hidden, hidden), b (hidden,), for each gate
    absent: tuple[str, ...]  # biases that were not given; they are 0 and omitted from the solution
    x: Tensor  # (length, inputs)
    h0: Tensor  # (hidden,)
    c0: Tensor | None

    @property
    def kind(self) -> str:
        """The cell's name in the catalogue."""
        return _kind(self.cell)

    @property
    def sums(self) -> dict[str, str]:
        """The name of each gate's weighted sum, by the gate's subscript: {"f": "forget_sum",
        ...}."""
        points = [p for p in INSIDE[self.cell] if p == "preactivation" or p.endswith("_sum")]
        indices = [gate.removeprefix("_") for gate in _gates(self.cell)]
        return dict(zip(indices, points, strict=True))

    @property
    def written(self) -> dict[str, Tensor]:
        return {n: w for n, w in self.weights.items() if n not in self.absent}

    def build(self, weights: Mapping[str, Tensor]) -> Recurrent:
        """Build the recurrent part with these weights."""
        part = Recurrent(self.cell, self.x.shape[1], len(self.h0)).double()
        with torch.no_grad():
            for stacked in part.weights(0, "forward"):
                stacked.zero_()
            for name, block in self._cut(*part.weights(0, "forward")).items():
                block.copy_(weights[name])
        return part

    def read(self, part: Recurrent, trace: Trace) -> Tensor:
        """Run the whole sequence; return the last hidden state (hidden,)."""
        cell = None if self.c0 is None else self.c0[None, None]
        output, _ = part(self.x[None], state=RecurrentState(self.h0[None, None], cell), trace=trace)
        last: Tensor = output[0, -1]
        return last

    def slopes(self, part: Recurrent, loss: Tensor) -> dict[str, Tensor]:
        """The gradient of the loss with respect to each weight, by name."""
        stacked = part.weights(0, "forward")
        gradients = torch.autograd.grad(loss, stacked, retain_graph=True)
        return self._cut(*gradients)

    def _cut(self, w: Tensor, u: Tensor, b: Tensor, b_hidden: Tensor) -> dict[str, Tensor]:
        """Split torch's stacked weight tensors into one tensor per gate, by name."""
        hidden = len(self.h0)
        blocks: dict[str, Tensor] = {}
        for letter, stacked in (("W", w), ("U", u), ("b", b)):
            names = (letter + gate for gate in BLOCKS[self.kind])
            blocks |= dict(zip(names, stacked.split(hidden), strict=True))
        # Each sum needs one bias; only the GRU's candidate has a second one, inside the reset.
        return blocks | ({"b_hn": b_hidden[-hidden:]} if self.cell == "gru" else {})


def _kind(cell: CellName) -> str:
    return "rnn" if cell == "rnn_relu" else cell


def _gates(cell: CellName) -> tuple[str, ...]:
    """The subscripts of a cell's gates, such as "_f", in the order of the trace."""
    return ("_f", "_i", "_g", "_o") if cell == "lstm" else BLOCKS[_kind(cell)]


def weight_names(cell: CellName) -> list[str]:
    """The weight names of a cell, as in the catalogue."""
    names = [letter + gate for gate in _gates(cell) for letter in ("W", "U", "b")]
    return names + (["b_hn"] if cell == "gru" else [])


def read_cell_exercise(
    cell: CellName,
    x: Numbers | None,
    numbers: Mapping[str, Numbers],
    h0: Numbers | None,
    c0: Numbers | None,
) -> CellExercise:
    names = weight_names(cell)
    numbers = {spelt(name, names): weight for name, weight in numbers.items()}
    for name in numbers:
        if name not in names:
            close = nearest(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"the weights are {', '.join(names)}"
            raise InputError(f"unknown weight {name}; {hint}")
    missing = [n for n in names if not n.startswith("b") and n not in numbers]
    if x is None:
        missing = ["x", *missing]
    if missing or x is None:
        raise Missing(
            f"{', '.join(missing)} missing; pass x, one row for each step, and all of "
            f"{', '.join(names)}; only the biases may be omitted",
            ("x", *names),
        )
    first = names[0]
    size = matrix(numbers[first], first)
    hidden, inputs = size.shape
    weights = {n: _given_weight(n, numbers.get(n), hidden, inputs, first) for n in names}
    sequence = matrix(x, "x")
    if inputs == 1 and sequence.shape[0] == 1:  # "1 -0.5 2" for one input: three steps
        sequence = sequence.T
    if sequence.shape[1] != inputs:
        raise InputError(
            f"x is {shape(sequence)} and {first} is {shape(size)}: each row of x is one step and "
            f"needs one number for each column of {first} ({inputs})"
        )
    state = {"h0": h0, "c0": c0 if cell == "lstm" else None}
    start = {n: _given_weight(n, v, hidden, inputs, first) for n, v in state.items()}
    absent = tuple(n for n in names if n.startswith("b") and n not in numbers)
    cell_state = start["c0"] if cell == "lstm" else None
    return CellExercise(cell, weights, absent, sequence, start["h0"], cell_state)


def _given_weight(
    name: str, numbers: Numbers | None, hidden: int, inputs: int, first: str
) -> Tensor:
    """Read one weight or state and check its shape; biases and states default to 0."""
    if name[0] in "bhc":
        if numbers is None:
            return torch.zeros(hidden, dtype=torch.float64)
        tensor, wanted = vector(numbers, name), [hidden]
    else:
        assert numbers is not None
        wanted = [hidden, inputs] if name.startswith("W") else [hidden, hidden]
        tensor = matrix(numbers, name)
    if list(tensor.shape) != wanted:
        raise InputError(
            f"{first} is {hidden} x {inputs} and {name} is {shape(tensor)}: "
            f"{name} must be {' x '.join(str(n) for n in wanted)}"
            + ("" if len(wanted) == 2 else f", one number for each row of {first}")
        )
    return tensor


def symbol(name: str) -> str:
    """A weight's name as LaTeX: `b_hn` -> `b_{hn}`."""
    letter, _, index = name.partition("_")
    return f"{letter}_{{{index}}}" if len(index) > 1 else name


def backward(
    board: Board,
    exercise: CellExercise,
    part: Recurrent,
    trace: Trace,
    goal: Tensor,
    rate: Tensor | None,
) -> str:
    """Write the gradients from the loss back to the weights and, if a rate is given, one update;
    return the result as a sentence."""
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
    for name in exercise.written:  # absent biases are not updated
        after[name].grad = slopes[name]
    torch.optim.SGD(after.values(), lr=rate.item()).step()
    for name, before in exercise.written.items():
        write_update(board, symbol(name), before, slopes[name], rate, after[name].detach())

    board.section = "Forward again, with the new weights"
    again = Trace()
    exercise.read(exercise.build({n: w.detach() for n, w in after.items()}), again)
    lower = squared_loss(board, *_last(exercise, again), goal, "y")
    return f"{compare(board, loss, lower)} {trend}".strip()


def _last(exercise: CellExercise, trace: Trace) -> tuple[str, Tensor]:
    length = len(exercise.x)
    return f"h_{{{length}}}", _at(exercise, trace, "hidden", length - 1)


def _at(exercise: CellExercise, trace: Trace, point: str, t: int) -> Tensor:
    return trace[f"layers.0.{exercise.kind}.{point}@{t}"][0]


def _gradients(exercise: CellExercise, trace: Trace, loss: Tensor, point: str) -> list[Tensor]:
    """The gradient ∂L/∂point at every step, (hidden,) each."""
    name = f"layers.0.{exercise.kind}.{point}"
    values = [trace[f"{name}@{t}"] for t in range(len(exercise.x))]
    gradients = torch.autograd.grad(loss, values, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(exercise.h0) if g is None else g[0] for g in gradients]


def _states(board: Board, exercise: CellExercise, trace: Trace, loss: Tensor) -> str:
    """Write the gradient at each state, latest first; return a sentence on its change in size."""
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
        SolutionTable(tuple(header), rows),
        name="dL/dh",
        value=plain(torch.stack(hidden)),
        note="Each value includes all paths from that state to the loss.",
    )
    if len(sizes) < 2 or not sizes[0] or not sizes[-1]:
        return ""
    trend, at_cell = _trend(board, hidden), ""
    if cells and cells[-1].any():  # the cell carries the gradient of an LSTM far back
        at_cell = f"; at the cell ($dL/dc$), which carries it, it {_trend(board, cells)}"
        trend = f"at the hidden state ($dL/dh$) {trend}"
    return f"From step {len(sizes)} back to step 1 the gradient {trend}{at_cell}."


def _trend(board: Board, gradients: list[Tensor]) -> str:
    """Describe how the gradient's size changes from the last step to the first."""
    factor = gradients[0].norm().item() / gradients[-1].norm().item()
    return f"{'shrinks' if factor < 1 else 'grows'} to {board.number(factor)} times its size"


def _sums(
    board: Board, exercise: CellExercise, trace: Trace, loss: Tensor
) -> dict[str, list[Tensor]]:
    """Write the gradient at each gate's weighted sum, from which the weights' gradients follow."""
    points = list(exercise.sums.values())
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
        SolutionTable(("$t$", *(f"${_inline(letter)}$" for letter in symbols)), rows),
        name="dL/da",
        value={point: plain(torch.stack(gradients[point])) for point in points},
    )
    return gradients


def _weight(
    board: Board,
    exercise: CellExercise,
    trace: Trace,
    name: str,
    sums: dict[str, list[Tensor]],
    slope: Tensor,
) -> None:
    """Write the gradient of a weight: a sum over all time steps, because each uses the weight."""
    letter, _, index = name.partition("_")
    point = exercise.sums[index.removeprefix("h")]
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
    """Format a short vector for use within a line."""
    texts = [board.writer.number(value, 0.0) for value in values.tolist()]
    return f"${texts[0]}$" if len(texts) == 1 else f"$({', '.join(texts)})$"
