"""The recurrent cell of an exercise: its weights, its input, and a run of the real part."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import InputError, nearest
from translucid.core.spelling import spelt
from translucid.core.trace import Trace
from translucid.parts.cache import RecurrentState
from translucid.parts.recurrent import Recurrent
from translucid.parts.recurrent_cells import BLOCKS, INSIDE, CellName
from translucid.worked.solution.numbers import (
    Completed,
    Numbers,
    complete,
    matrix,
    shape,
    vector,
)


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

    def truncated(self, first: int) -> Trace:
        """A trace that treats the state before step `first` as a constant, so that gradients flow
        no further back. With 0, nothing is cut."""
        points = ("hidden", "cell") if first and self.c0 is not None else ("hidden",) * bool(first)
        cut = {f"*.{point}@{first - 1}": _constant for point in points}
        return Trace(edit=cut)

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


def _constant(state: Tensor) -> Tensor:
    return state.detach()


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
    cell: CellName, given: Mapping[str, Numbers | None], example: Mapping[str, Numbers]
) -> tuple[CellExercise, Completed]:
    """Build the cell from x, h0, c0 and weights by name, completed from an example."""
    names = weight_names(cell)
    known = (*names, "x", "h0", "c0")
    given = {spelt(name, known): number for name, number in given.items()}
    for name in given:
        if name not in known:
            close = nearest(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"the weights are {', '.join(names)}"
            raise InputError(f"unknown weight {name}; {hint}")
    needs = ("x", *(name for name in names if not name.startswith("b")))
    numbers = complete(dict.fromkeys(known) | given, example, needs)
    with numbers.fitting():
        return _fit(cell, names, numbers), numbers


def _fit(cell: CellName, names: list[str], numbers: Completed) -> CellExercise:
    """Build the cell from a full set of numbers, whose sizes must fit."""
    first = names[0]
    size = matrix(numbers[first], first)
    hidden, inputs = size.shape
    weights = {n: _given_weight(n, numbers[n], hidden, inputs, first) for n in names}
    sequence = matrix(numbers["x"], "x")
    if inputs == 1 and sequence.shape[0] == 1:  # "1 -0.5 2" for one input: three steps
        sequence = sequence.T
    if sequence.shape[1] != inputs:
        raise InputError(
            f"x is {shape(sequence)} and {first} is {shape(size)}: each row of x is one step and "
            f"needs one number for each column of {first} ({inputs})"
        )
    h0, c0 = (_given_weight(n, numbers[n], hidden, inputs, first) for n in ("h0", "c0"))
    absent = tuple(n for n in names if n.startswith("b") and numbers[n] is None)
    return CellExercise(cell, weights, absent, sequence, h0, c0 if cell == "lstm" else None)


def _given_weight(
    name: str, numbers: Numbers | None, hidden: int, inputs: int, first: str
) -> Tensor:
    """Read one weight or state, and check its shape; biases and states default to 0."""
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
