"""An exercise of your own in one file: a weighted mean, and how far each number lies from it.

    translucid work examples/own_exercise.py --x "1 2 4" --w "1 1 2"
    translucid work examples/own_exercise.py --help

The function that returns a `Solution` is the exercise. Each argument becomes an option, with the
line of the docstring as its help; what people type arrives as text, which `vector`, `matrix`,
`scalar` and `whole` read. A `Board` collects what is given and the steps. In a template, `<x>`
is replaced by the symbol x in the formula, and by its numbers in the line below.
"""

import torch

from translucid import InputError
from translucid.worked import Board, Numbers, Solution, vector


def weighted_mean(
    x: Numbers | None = None, w: Numbers | None = None, *, digits: int = 3
) -> Solution:
    """A weighted mean, and each distance from it.

    The weights are divided by their sum first.

    x: The numbers.
    w: Their weights [default: 1 each].

    Example: translucid work examples/own_exercise.py --x "1 2 4" --w "1 1 2"
    """
    example = x is None
    numbers = vector("1 2 4" if x is None else x, "x")
    weights = torch.ones_like(numbers) if w is None else vector(w, "w")
    if len(weights) != len(numbers):
        raise InputError(
            f"x has {len(numbers)} numbers and w has {len(weights)}: give one for each"
        )
    board = Board(digits)
    board.state("x", numbers)
    board.state("w", weights)
    values = {"x": numbers, "w": weights, "sum": weights.sum()}
    board.step("Sum of the weights", "s", r"\sum_i w_i", values["sum"], values)
    values["p"] = weights / values["sum"]
    board.step("Fractions", "p", "<w> / <sum>", values["p"], values, symbols={"sum": "s"})
    values["mean"] = values["p"] @ numbers
    board.step("Weighted mean", "m", r"<p>^{\top} <x>", values["mean"], values)
    board.step("Distances", "d", "<x> - <mean>", numbers - values["mean"], values,
               symbols={"mean": "m"})  # fmt: skip
    return board.solution(
        title="A weighted mean",
        closing=f"The mean is {board.number(values['mean'].item())}.",
        next="translucid work softmax",
        example=example,
        asked=w is not None,
    )
