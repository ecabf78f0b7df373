"""Backpropagation through time: the recursion from step to step, then the gradient of every weight.

The formulas are defined here; the numbers come from autograd on the real part.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from translucid.core.catalogue import CATALOGUE
from translucid.core.trace import Trace
from translucid.parts.recurrent import Recurrent
from translucid.worked.board import Board, compare, gradient, squared_loss, write_update
from translucid.worked.cells import CellExercise, symbol
from translucid.worked.solution.content import SolutionTable, plain
from translucid.worked.solution.numbers import many

_WRITTEN_OUT = 4  # with more steps than this, the sums over time are not written out
_SHOWN = 4  # a vector with more entries is shown by its length
_SIGMOID = {"forget": "f", "input": "i", "output": "o", "reset": "r", "update": "z"}

# The gradient at each sum of a cell, in the order of the backward pass. <d_x> is the gradient at x.
_SUMS = {
    "rnn": {"preactivation": r"<d_h> \odot (1 - <h>^2)"},
    "rnn_relu": {"preactivation": r"<d_h> \odot \mathbf{1}(<a> > 0)"},
    "lstm": {
        "output_sum": r"<d_h> \odot \tanh(<c>) \odot <o> \odot (1 - <o>)",
        "forget_sum": r"<d_c> \odot <c_before> \odot <f> \odot (1 - <f>)",
        "input_sum": r"<d_c> \odot <g> \odot <i> \odot (1 - <i>)",
        "candidate_sum": r"<d_c> \odot <i> \odot (1 - <g>^2)",
    },
    "gru": {
        "update_sum": r"<d_h> \odot (<h_before> - <n>) \odot <z> \odot (1 - <z>)",
        "candidate_sum": r"<d_h> \odot (1 - <z>) \odot (1 - <n>^2)",
        "reset_sum": r"<d_n> \odot (<U_n> <h_before> + <b_hn>) \odot <r> \odot (1 - <r>)",
    },
}
# The gradient at the previous state: every path back to it.
_BEFORE = {
    "rnn": r"<U>^{\top} <d_a>",
    "lstm": " + ".join(rf"<U_{gate}>^{{\top}} <d_{gate}>" for gate in "figo"),
    "gru": r"<z> \odot <d_h> + <U_r>^{\top} <d_r> + <U_z>^{\top} <d_z> "
    r"+ <U_n>^{\top} (<d_n> \odot <r>)",
}
_CELL = r"<d_h> \odot <o> \odot (1 - \tanh(<c>)^2)"
_LATER = r" + <f_later> \odot <d_c_later>"


@dataclass(frozen=True)
class _Backward:
    """A loss at the last state, and the gradients at every step. Steps before `first` are cut off
    by truncation."""

    exercise: CellExercise
    trace: Trace
    loss: Tensor
    first: int

    @property
    def steps(self) -> range:
        """The steps that gradients reach, from the last to the first."""
        return range(len(self.exercise.x) - 1, self.first - 1, -1)

    def at(self, point: str, t: int) -> Tensor:
        """The value of a trace point, (hidden,); before the first step, the initial state."""
        if t < 0:
            start = self.exercise.h0 if point == "hidden" else self.exercise.c0
            assert start is not None
            return start
        return _at(self.exercise, self.trace, point, t).detach()

    @cached_property
    def gradients(self) -> dict[str, dict[int, Tensor]]:
        """∂L/∂point by step, for the hidden state, the cell and every sum."""
        points = ["hidden", *self.exercise.sums.values()]
        points += ["cell"] if self.exercise.c0 is not None else []
        return {point: self._of(point) for point in points}

    def _of(self, point: str) -> dict[int, Tensor]:
        name = f"layers.0.{self.exercise.kind}.{point}"
        values = [self.trace[f"{name}@{t}"] for t in self.steps]
        gradients = torch.autograd.grad(self.loss, values, retain_graph=True)
        return {t: g[0] for t, g in zip(self.steps, gradients, strict=True)}

    def stacked(self, point: str) -> Tensor:
        """The gradients of all steps, (length, hidden); 0 before the first."""
        zero = torch.zeros_like(self.exercise.h0)
        gradients = self.gradients[point]
        return torch.stack([gradients.get(t, zero) for t in range(len(self.exercise.x))])


def backward(
    board: Board,
    exercise: CellExercise,
    part: Recurrent,
    trace: Trace,
    goal: Tensor,
    rate: Tensor | None,
    first: int = 0,
) -> str:
    """Write the gradients from the loss back to the weights and, if a rate is given, one update;
    return the result as a sentence. first: the first step that gradients reach; 0 unless
    truncated."""
    board.section = "Loss"
    loss = squared_loss(board, *_last(exercise, trace), goal, "y")
    back = _Backward(exercise, trace, loss, first)
    for t in back.steps:
        _write_step(board, back, goal, t)
    board.section = "Backward through time, all steps"
    trend = _states(board, back)
    if exercise.c0 is not None and not first:
        _cell_path(board, back)
    board.section = "Gradients of the weights"
    slopes = exercise.slopes(part, loss)
    for name in exercise.written:
        _weight(board, back, name, slopes[name])
    if first:
        _compare_truncated(board, exercise, part, goal, slopes, len(back.steps))
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


# ---- one step of the recursion ----


def _write_step(board: Board, back: _Backward, goal: Tensor, t: int) -> None:
    """Write how the gradient passes through one step: from the state to the sums of the cell, and
    from these to the previous state."""
    exercise, gradients = back.exercise, back.gradients
    board.section = f"Backward through step {t + 1}"
    values, symbols = _values(back, goal, t)

    def write(of: str, title: str, template: str, value: Tensor, noise: float = 0.0) -> None:
        board.step(
            title, gradient(of), template, value, values, symbols=symbols, name=f"dL/d{of}",
            noise=noise,
        )  # fmt: skip

    if t == len(exercise.x) - 1:
        title = "Gradient at the last state: its distance to the target"
        write(f"h_{{{t + 1}}}", title, "<h> - <y>", gradients["hidden"][t])
    if exercise.c0 is not None:
        later = t + 1 in gradients["cell"]
        title = "Gradient at the cell: through the output" + (
            ", and through the forget gate of the next step" if later else ""
        )
        write(f"c_{{{t + 1}}}", title, _CELL + _LATER * later, gradients["cell"][t])
    for point, template in _SUMS[exercise.cell].items():
        gate = _SIGMOID.get(point.removesuffix("_sum"), "")
        through = f"the slope of its sigmoid, ${gate} (1 - {gate})$" if gate else "the slope of "
        through += "" if gate else "ReLU" if exercise.cell == "rnn_relu" else "tanh"
        template = template if "b_hn" in exercise.written else template.replace(" + <b_hn>", "")
        what = "preactivation" if exercise.kind == "rnn" else point.replace("_", " ")
        of = _indexed(CATALOGUE[f"{exercise.kind}.{point}"].symbol, t + 1)
        write(of, f"Gradient at the {what}: through {through}", template, gradients[point][t])
    if t > back.first:
        paths = {"rnn": "back through $U$", "lstm": "back through every $U$, one path for each sum"}
        title = paths.get(exercise.kind, "directly, and back through every $U$")
        template = _BEFORE[exercise.kind]
        write(f"h_{{{t}}}", f"Gradient at the previous state: {title}", template,
              gradients["hidden"][t - 1])  # fmt: skip


def _values(
    back: _Backward, goal: Tensor, t: int
) -> tuple[dict[str, Tensor | str], dict[str, str]]:
    """The values and symbols in the formulas of one step, by placeholder."""
    exercise, gradients = back.exercise, back.gradients
    values: dict[str, Tensor | str] = {"y": goal, **exercise.weights}
    symbols = {name: symbol(name) for name in exercise.weights} | {"y": "y"}

    def put(name: str, value: Tensor, written: str) -> None:
        values[name], symbols[name] = value, written

    for name in back.trace.names(f"layers.0.{exercise.kind}.*"):
        point = name.rpartition(".")[2]
        letter = CATALOGUE[f"{exercise.kind}.{point}"].symbol
        put(letter, back.at(point, t), _indexed(letter, t + 1))
    put("h_before", back.at("hidden", t - 1), f"h_{{{t}}}")
    put("d_h", gradients["hidden"][t], gradient(f"h_{{{t + 1}}}"))
    if exercise.c0 is not None:
        put("c_before", back.at("cell", t - 1), f"c_{{{t}}}")
        put("d_c", gradients["cell"][t], gradient(f"c_{{{t + 1}}}"))
        if t + 1 in gradients["cell"]:
            put("f_later", back.at("forget_gate", t + 1), f"f_{{{t + 2}}}")
            put("d_c_later", gradients["cell"][t + 1], gradient(f"c_{{{t + 2}}}"))
    for point in exercise.sums.values():
        letter = CATALOGUE[f"{exercise.kind}.{point}"].symbol
        name = f"d_{letter.removeprefix('a_')}"
        put(name, gradients[point][t], gradient(_indexed(letter, t + 1)))
    return values, symbols


def _indexed(letter: str, step: int | str) -> str:
    """A symbol with the number of its step: `a_f` at step 1 -> `a_{f,1}`."""
    base, _, index = letter.partition("_")
    return f"{base}_{{{index + ',' if index else ''}{step}}}"


# ---- all steps ----


def _states(board: Board, back: _Backward) -> str:
    """Write the gradient at each state, latest first; return a sentence on its change in size."""
    exercise, hidden = back.exercise, back.gradients["hidden"]
    sizes = {t: g.norm().item() for t, g in hidden.items()}
    header = ["$t$", rf"${_inline('h_t')}$", rf"$\lVert {_inline('h_t')} \rVert$"]
    columns = [
        {t: _row(board, g) for t, g in hidden.items()},
        {t: board.number(size, 0.0) for t, size in sizes.items()},
    ]
    cells = back.gradients.get("cell", {})
    if cells:
        header.append(rf"${_inline('c_t')}$")
        columns.append({t: _row(board, g) for t, g in cells.items()})
    rows = tuple((str(t + 1), *(column[t] for column in columns)) for t in back.steps)
    note = "Each value includes all paths from that state to the loss."
    if back.first:
        note = (
            f"Truncated after {many(len(back.steps), 'step')}: $h_{{{back.first}}}$ is treated as "
            "a constant, so no gradient flows further back."
        )
    board.table(
        "Gradient at each state, from the last step to the first",
        SolutionTable(tuple(header), rows),
        name="dL/dh",
        value=plain(back.stacked("hidden")),
        note=note,
    )
    start, end = back.first, len(exercise.x) - 1
    if start == end or not sizes[start] or not sizes[end]:
        return ""
    trend, at_cell = _trend(board, hidden[start], hidden[end]), ""
    if cells and cells[end].any():  # the cell carries the gradient of an LSTM far back
        change = _trend(board, cells[start], cells[end])
        at_cell = f"; at the cell ($dL/dc$), which carries it, it {change}"
        trend = f"at the hidden state ($dL/dh$) {trend}"
        if end - start > 1:  # most of the change may be in the first step back
            soon = hidden[end - 1].norm().item() / sizes[end]
            trend += f" ({board.number(soon, 0.0)} at step {end})"
    return f"From step {end + 1} back to step {start + 1} the gradient {trend}{at_cell}."


def _trend(board: Board, first: Tensor, last: Tensor) -> str:
    """Describe how the gradient's size changes from the last step to the first."""
    factor = first.norm().item() / last.norm().item()
    return f"{'shrinks' if factor < 1 else 'grows'} to {board.number(factor, 0.0)} times its size"


def _cell_path(board: Board, back: _Backward) -> None:
    """Write the gradient of the last cell state with respect to the first, via cell states only."""
    gates = {f"f{t}": back.at("forget_gate", t) for t in back.steps}
    product = torch.stack([*gates.values()]).prod(dim=0)
    written = len(gates) <= _WRITTEN_OUT
    names = [f"f_{{{t + 1}}}" for t in back.steps]
    some = names if written else [names[0], r"\ldots", names[-1]]
    board.step(
        "Along the cells alone: the product of the forget gates",
        rf"\frac{{\partial c_{{{len(gates)}}}}}{{\partial c_0}}",
        r" \odot ".join(f"<{name}>" for name in gates) if written else "",
        product,
        dict(gates),
        formula=r" \odot ".join(some),
        name="dc/dc0",
        noise=0.0,
        note="This path vanishes unless the forget gates are near 1. All other paths lead through "
        "a sigmoid or tanh and a matrix $U$.",
    )


def _weight(board: Board, back: _Backward, name: str, slope: Tensor) -> None:
    """Write the gradient of a weight: a sum over all time steps, because each uses the weight."""
    exercise = back.exercise
    letter, _, index = name.partition("_")
    point = exercise.sums[index.removeprefix("h")]
    reset = exercise.kind == "gru" and name in ("U_n", "b_hn")
    steps, values = sorted(back.steps), dict[str, Tensor | str]()
    for t in steps:
        values |= {f"d{t}": back.gradients[point][t], f"x{t}": exercise.x[t]}
        values[f"h{t}"] = back.at("hidden", t - 1)
        if reset:
            values[f"r{t}"] = back.at("reset_gate", t)
    other = {"W": r" <x{t}>^{\top}", "U": r" <h{t}>^{\top}", "b": ""}[letter]
    first = r"(<d{t}> \odot <r{t}>)" if reset else "<d{t}>"
    terms = [(first + other).replace("{t}", str(t)) for t in steps]
    symbols = {"W": r"\, x_t^{\top}", "U": r"\, h_{t-1}^{\top}", "b": ""}[letter]
    error = gradient(_indexed(CATALOGUE[f"{exercise.kind}.{point}"].symbol, "t"))
    error = rf"({error} \odot r_t)" if reset else error
    where = rf"t>{back.first}" if back.first else "t"
    board.step(
        f"Gradient of ${symbol(name)}$: a sum over the steps",
        gradient(symbol(name)),
        " + ".join(terms) if len(terms) <= _WRITTEN_OUT else "",
        slope,
        values,
        formula=rf"\sum_{{{where}}} {error}{symbols}",
        name=f"dL/d{name}",
        noise=0.0,
    )


def _compare_truncated(
    board: Board,
    exercise: CellExercise,
    part: Recurrent,
    goal: Tensor,
    slopes: dict[str, Tensor],
    kept: int,
) -> None:
    """Write the truncated gradients next to the full ones."""
    loss = torch.nn.functional.mse_loss(exercise.read(part, Trace()), goal, reduction="sum") / 2
    full = exercise.slopes(part, loss)
    names = [*exercise.written]
    long = any(slopes[name].numel() > _SHOWN for name in names)
    rows = []
    for name in names:
        pair = (slopes[name].flatten(), full[name].flatten())
        cells = [board.number(g.norm().item(), 0.0) if long else _row(board, g) for g in pair]
        rows.append((f"${symbol(name)}$", *cells))
    board.section = "What truncation leaves out"
    board.table(
        f"Gradients from the last {many(kept, 'step')} and from all {len(exercise.x)}"
        + (" (lengths)" if long else ""),
        SolutionTable(("weight", "truncated", "full"), tuple(rows)),
        name="truncation",
        value={name: {"truncated": plain(slopes[name]), "full": plain(full[name])}
               for name in names},
    )  # fmt: skip


def _inline(letter: str) -> str:
    return rf"\partial L/\partial {letter}"


def _row(board: Board, values: Tensor) -> str:
    """Format a short vector for use within a line."""
    texts = [board.writer.number(value, 0.0) for value in values.tolist()]
    return f"${texts[0]}$" if len(texts) == 1 else f"$({', '.join(texts)})$"
