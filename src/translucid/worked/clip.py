"""Exercise: gradients clipped by norm and by value."""

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.training.gradients import clip as clip_gradients
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable
from translucid.worked.solution.numbers import Number, Numbers, matrix, scalar
from translucid.worked.solution.solution import Solution

EXAMPLE = "30 40; 3e-7 4e-7"
_MOST = 20  # gradients


def clip(
    g: Numbers | None = None,
    *,
    norm: Number | None = None,
    value: Number | None = None,
    digits: int = 4,
) -> Solution:
    """Gradients clipped by norm and by value.

    By norm, a gradient longer than the maximum is scaled down and keeps its direction
    (`training.clip_norm`). By value, each entry is limited (`training.clip_value`).

    g: The gradient; for several gradients, one row each.
    norm: The maximum norm [default: 1].
    value: The maximum absolute value of an entry [default: 0.5].

    Example: translucid work clip "3 -4" --norm 2.5 --value 1
    """
    gradients = matrix(EXAMPLE if g is None else g, "g")
    if len(gradients) > _MOST:
        raise InputError(f"g has {len(gradients)} rows; expected at most {_MOST}")
    max_norm = _limit(norm, "norm", 1.0)
    max_value = _limit(value, "value", 0.5)
    board = Board(digits)
    for i, gradient in enumerate(gradients, 1):
        board.state(f"g_{{{i}}}" if len(gradients) > 1 else "g", gradient[None], name=f"g {i}")
    board.state(r"c_{\mathrm{norm}}", max_norm, name="norm")
    board.state(r"c_{\mathrm{value}}", max_value, name="value")
    rows = [
        _one(board, gradient, max_norm, max_value, f"_{{{i}}}" if len(gradients) > 1 else "")
        for i, gradient in enumerate(gradients, 1)
    ]
    board.section = "Side by side"
    board.table(
        "Norms before and after, and the cosine between the gradient before and after",
        SolutionTable(
            ("gradient", "norm", "clipped by norm", "cosine", "clipped by value", "cosine"),
            tuple(
                (str(i), *(board.number(number, 0.0) for number in row))
                for i, row in enumerate(rows, 1)
            ),
        ),
        name="norms",
        value=[list(row) for row in rows],
        note="Clipping by norm keeps the direction. Clipping by value may change it.",
    )
    return board.solution(
        title="Gradients clipped by norm and by value",
        notes=(r"torch adds $10^{-6}$ to the norm, so that a norm of 0 causes no division by 0.",),
        closing="Clipping only makes gradients smaller. A gradient below the limits passes "
        "unchanged, so clipping does not help against vanishing gradients.",
        next='translucid work clip "3 -4" --norm 2.5 --value 1' if g is None
        else "translucid work rnn --target \"1 1\"",
        program=Program(in_numpy.clip, {"g": gradients, "norm": max_norm, "value": max_value}),
        example=g is None,
        asked=norm is not None or value is not None,
    )  # fmt: skip


def _limit(number: Number | None, name: str, default: float) -> Tensor:
    if number is None:
        return torch.tensor(default, dtype=torch.float64)
    limit = scalar(number, name)
    if limit <= 0:
        raise InputError(f"{name} = {limit.item():g}: must be greater than 0, such as {default:g}")
    return limit


def clipped(gradient: Tensor, norm: float, value: float | None = None) -> tuple[Tensor, Tensor]:
    """The gradient after clipping as in training, and its norm before."""
    parameter = nn.Parameter(torch.zeros_like(gradient))
    parameter.grad = gradient.clone()
    before = clip_gradients([parameter], norm, value)
    return parameter.grad, before


def _one(
    board: Board, gradient: Tensor, max_norm: Tensor, max_value: Tensor, index: str
) -> tuple[float, ...]:
    """Write both ways of clipping one gradient; return the numbers of its row in the table."""
    by_norm, size = clipped(gradient, max_norm.item())
    by_value, _ = clipped(gradient, torch.finfo(torch.float64).max, max_value.item())
    factor = by_norm.norm() / size if size else torch.ones_like(size)
    symbols = {"g": f"g{index}", "norm": rf"\lVert g{index} \rVert", "limit": r"c_{\mathrm{norm}}"}
    symbols |= {"value": r"c_{\mathrm{value}}", "factor": "s"}
    values: dict[str, Tensor | str] = {"g": gradient[None], "norm": size, "limit": max_norm}
    values |= {"value": max_value, "factor": factor, "minus": -max_value}
    squares = " + ".join(f"<g{i}>^2" for i in range(len(gradient)))
    entries = {f"g{i}": entry for i, entry in enumerate(gradient)}
    which = f": gradient ${symbols['g']}$" if index else ""
    board.section = f"By norm{which}"
    board.step(
        "Norm: the length of the gradient", symbols["norm"], rf"\sqrt{{{squares}}}", size, entries,
        formula=rf"\sqrt{{\textstyle\sum_i {{g{index}}}_i^2}}" if index
        else r"\sqrt{\textstyle\sum_i g_i^2}",
        name="norm",
    )  # fmt: skip
    board.step(
        "Factor: 1 if the norm is below the maximum", "s",
        r"\min(1, <limit> / (<norm> + 10^{-6}))", factor, values, symbols=symbols, name="factor",
        noise=0.0,
    )  # fmt: skip
    board.step(
        "Clipped by norm", rf"{symbols['g']}'", r"<factor> \cdot <g>", by_norm[None], values,
        symbols=symbols, name="clipped by norm", noise=0.0,
    )  # fmt: skip
    board.section = f"By value{which}"
    board.step(
        "Clipped by value: each entry limited on both sides", rf"{symbols['g']}''",
        r"\max(-<value>, \min(<value>, <g>))", by_value[None], values, symbols=symbols,
        name="clipped by value", noise=0.0,
    )  # fmt: skip
    norms = [(after.norm().item(), _cosine(gradient, after)) for after in (by_norm, by_value)]
    return (size.item(), *norms[0], *norms[1])


def _cosine(before: Tensor, after: Tensor) -> float:
    length = before.norm() * after.norm()
    return float(before @ after / length) if length else 1.0
