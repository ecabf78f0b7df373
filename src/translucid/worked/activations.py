"""Exercise: activations, their slopes, and powers of the largest slope over depth."""

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.parts.activations import ACTIVATIONS, SYMBOLS, ActivationName
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable
from translucid.worked.solution.numbers import Numbers, vector, wholes
from translucid.worked.solution.solution import Solution

# The slope of each activation as a formula; empty if it has no short form.
SLOPES: dict[ActivationName, str] = {
    "identity": "",
    "sigmoid": r"\sigma(<z>) \odot (1 - \sigma(<z>))",
    "tanh": r"1 - \tanh(<z>)^2",
    "relu": r"\mathbf{1}(<z> > 0)",
    "gelu": r"\Phi(<z>) + <z> \odot \varphi(<z>)",
    "silu": r"\sigma(<z>) \odot (1 + <z> \odot (1 - \sigma(<z>)))",
    "gelu_tanh": "",
    "quick_gelu": "",
    "relu_squared": r"2 \max(0, <z>)",
}
_NAMES: tuple[ActivationName, ...] = ("sigmoid", "tanh", "relu", "gelu", "silu")
_NOTES = {
    "relu": "At 0, where ReLU has a kink, the slope is taken as 0.",
    "gelu": r"$\Phi$ is the distribution function of the standard normal distribution, and "
    r"$\varphi(z) = \exp(-z^2 / 2) / \sqrt{2 \pi}$ its density.",
}


def activations(
    z: Numbers | None = None, *, depths: Numbers | None = None, digits: int = 4
) -> Solution:
    """Activations and their slopes, over many layers.

    Computes sigmoid, tanh, ReLU, GELU and SiLU, their slopes, the largest slope of each, and its
    powers.

    z: The points at which to evaluate them [default: -5 -1 0 1 5].
    depths: Numbers of layers [default: 5 10 20].

    Example: translucid work activations --z "-1 0 1"
    """
    example = z is None
    values = vector("-5 -1 0 1 5" if z is None else z, "z")
    layers = wholes("5 10 20" if depths is None else depths, "depths", least=1)
    if len(layers) > 8:
        raise InputError(f"depths has {len(layers)} numbers; expected at most 8")
    board = Board(digits)
    board.state("z", values)
    for name in _NAMES:
        act, symbol = ACTIVATIONS[name], SYMBOLS[name]
        at: dict[str, Tensor | str] = {"z": values, "act": symbol}
        board.section = name if name in ("sigmoid", "tanh") else symbol[8:-1]
        board.step(
            f"Activation: ${symbol}$ of each entry", f"{symbol}(z)", "<act>(<z>)", act(values), at,
            symbols={"act": symbol}, name=name,
        )  # fmt: skip
        board.step(
            "Slope: the derivative at each entry", f"{symbol}'(z)", SLOPES[name],
            _slope(name, values), at, name=f"slope of {name}", note=_NOTES.get(name, ""),
        )  # fmt: skip
    board.section = "The largest slopes"
    largest = {name: _largest_slope(name) for name in _NAMES}
    board.table(
        "The largest slope of each activation, and its powers: if all weights are 1, a gradient "
        "grows at most by this factor",
        SolutionTable(
            ("activation", "largest slope", "at $z$", *(f"{depth} layers" for depth in layers)),
            tuple(
                (
                    f"${SYMBOLS[name]}$",
                    board.number(slope),
                    "$> 0$" if name == "relu" else board.number(where, 1e-6),
                    *(board.number(slope**depth) for depth in layers),
                )
                for name, (slope, where) in largest.items()
            ),
        ),
        name="largest slopes",
        value={
            name: {"slope": slope, "at": where, "powers": [slope**depth for depth in layers]}
            for name, (slope, where) in largest.items()
        },
        note="The weights multiply the gradient too, so it may grow or vanish with any activation.",
    )
    return board.solution(
        title="Activations and their slopes",
        closing="The slope of the sigmoid is at most $1/4$. The slope of tanh reaches 1, but only "
        "at 0.",
        next="translucid work mlp --activation gelu",
        program=Program(in_numpy.activations, {"z": values}),
        example=example,
        asked=depths is not None,
    )


def _slope(name: ActivationName, z: Tensor) -> Tensor:
    """The derivative at each entry, by autograd."""
    z = z.detach().clone().requires_grad_()
    (slope,) = torch.autograd.grad(ACTIVATIONS[name](z).sum(), z)
    return slope


def _largest_slope(name: ActivationName) -> tuple[float, float]:
    """The largest slope and its position, from a grid that is refined around the maximum."""
    where, width = 0.0, 8.0
    for _ in range(8):
        grid = where + torch.linspace(-width, width, 401, dtype=torch.float64)
        slopes = _slope(name, grid)
        where, width = grid[slopes.argmax()].item(), width / 50
    return slopes.max().item(), where
