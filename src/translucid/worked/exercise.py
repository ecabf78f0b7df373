"""What a recurrent cell is given: its weights by the names of the catalogue, and a sequence."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import InputError, nearest
from translucid.core.spelling import Missing, spelt
from translucid.core.trace import Trace
from translucid.parts.cache import RecurrentState
from translucid.parts.recurrent import CellName, Recurrent
from translucid.worked.solution.numbers import Numbers, matrix, shape, vector

# The blocks of torch's stacked weights, by the letters of the catalogue.
GATES: dict[CellName, tuple[str, ...]] = {
    "rnn": ("",), "rnn_relu": ("",), "lstm": ("_i", "_f", "_g", "_o"), "gru": ("_r", "_z", "_n"),
}  # fmt: skip


@dataclass(frozen=True)
class Exercise:
    """A cell, its weights by name, and what it reads."""

    cell: CellName
    weights: dict[str, Tensor]  # W (hidden, inputs), U (hidden, hidden), b (hidden,), for each gate
    absent: tuple[str, ...]  # biases that were not given: they are 0 and not written
    x: Tensor  # (length, inputs)
    h0: Tensor  # (hidden,)
    c0: Tensor | None

    @property
    def kind(self) -> str:
        """The cell's name in the catalogue."""
        return "rnn" if self.cell == "rnn_relu" else self.cell

    @property
    def written(self) -> dict[str, Tensor]:
        return {n: w for n, w in self.weights.items() if n not in self.absent}

    def build(self, weights: Mapping[str, Tensor]) -> Recurrent:
        """The real part, with these weights."""
        part = Recurrent(self.cell, self.x.shape[1], len(self.h0)).double()
        with torch.no_grad():
            for stacked in part.weights(0, "forward"):
                stacked.zero_()
            for name, block in self._blocks(part).items():
                block.copy_(weights[name])
        return part

    def read(self, part: Recurrent, trace: Trace) -> Tensor:
        """The last hidden state (hidden,), after the whole sequence."""
        cell = None if self.c0 is None else self.c0[None, None]
        output, _ = part(self.x[None], state=RecurrentState(self.h0[None, None], cell), trace=trace)
        last: Tensor = output[0, -1]
        return last

    def slopes(self, part: Recurrent, loss: Tensor) -> dict[str, Tensor]:
        """The gradient of the loss for each weight, by name."""
        stacked = part.weights(0, "forward")
        gradients = torch.autograd.grad(loss, stacked, retain_graph=True)
        return self._cut(*gradients)

    def _blocks(self, part: Recurrent) -> dict[str, Tensor]:
        return self._cut(*part.weights(0, "forward"))

    def _cut(self, w: Tensor, u: Tensor, b: Tensor, b_hidden: Tensor) -> dict[str, Tensor]:
        """torch's stacked tensors, block by block."""
        hidden = len(self.h0)
        blocks: dict[str, Tensor] = {}
        for letter, stacked in (("W", w), ("U", u), ("b", b)):
            blocks |= {letter + g: stacked.split(hidden)[i] for i, g in enumerate(GATES[self.cell])}
        # One bias is enough for a sum; only the GRU's candidate has a second, within its reset.
        return blocks | ({"b_hn": b_hidden[-hidden:]} if self.cell == "gru" else {})


def weight_names(cell: CellName) -> list[str]:
    """The weights of a cell, as the catalogue writes them."""
    order = ("_f", "_i", "_g", "_o") if cell == "lstm" else GATES[cell]
    names = [letter + gate for gate in order for letter in ("W", "U", "b")]
    return names + (["b_hn"] if cell == "gru" else [])


def read_exercise(
    cell: CellName,
    x: Numbers | None,
    numbers: Mapping[str, Numbers],
    h0: Numbers | None,
    c0: Numbers | None,
) -> Exercise:
    names = weight_names(cell)
    numbers = {spelt(name, names): weight for name, weight in numbers.items()}
    for name in numbers:
        if name not in names:
            close = nearest(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"they are {', '.join(names)}"
            raise InputError(f"no weight is called {name}; {hint}")
    missing = [n for n in names if not n.startswith("b") and n not in numbers]
    if x is None:
        missing = ["x", *missing]
    if missing or x is None:
        raise Missing(
            f"{', '.join(missing)} missing: give x, one row for each step, and all of "
            f"{', '.join(names)}; only the biases may be left out",
            ("x", *names),
        )
    first = names[0]
    size = matrix(numbers[first], first)
    hidden, inputs = size.shape
    weights = {n: _weight(n, numbers.get(n), hidden, inputs, first) for n in names}
    sequence = matrix(x, "x")
    if inputs == 1 and sequence.shape[0] == 1:  # "1 -0.5 2" for one input: three steps
        sequence = sequence.T
    if sequence.shape[1] != inputs:
        raise InputError(
            f"x is {shape(sequence)} and {first} is {shape(size)}: each row of x is one step and "
            f"needs one number for each column of {first} ({inputs})"
        )
    state = {"h0": h0, "c0": c0 if cell == "lstm" else None}
    start = {n: _weight(n, v, hidden, inputs, first) for n, v in state.items()}
    absent = tuple(n for n in names if n.startswith("b") and n not in numbers)
    cell_state = start["c0"] if cell == "lstm" else None
    return Exercise(cell, weights, absent, sequence, start["h0"], cell_state)


def _weight(name: str, numbers: Numbers | None, hidden: int, inputs: int, first: str) -> Tensor:
    """One weight or state of the right shape; what is not given is 0."""
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
    """`b_hn` -> `b_{hn}`"""
    letter, _, index = name.partition("_")
    return f"{letter}_{{{index}}}" if len(index) > 1 else name
