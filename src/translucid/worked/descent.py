"""What every exercise with a loss shares: the loss, how gradients are written, the update."""

import torch.nn.functional as F
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.spelling import Missing
from translucid.worked.board import Board
from translucid.worked.solution.numbers import Number, scalar


def check_rate(rate: Number | None, target_name: str, target: Tensor | None) -> Tensor | None:
    """The learning rate; it makes no sense without a target."""
    if rate is None:
        return None
    if target is None:
        raise Missing(
            f"rate needs {target_name}: without the right answer there is no gradient to follow",
            ("rate", target_name),
        )
    speed = scalar(rate, "rate")
    if speed <= 0:
        raise InputError(f"rate = {speed.item():g}: must be larger than 0, such as 0.02")
    return speed


def squared_loss(
    board: Board, symbol: str, output: Tensor, target: Tensor, target_symbol: str
) -> Tensor:
    """Half the squared distance, as a step; returned with its graph."""
    loss = F.mse_loss(output, target, reduction="sum") / 2
    one = target.numel() == 1
    board.step(
        "Loss: half the squared distance to the right answer",
        "L",
        "(<target> - <output>)^2 / 2" if one else r"\lVert <target> - <output> \rVert^2 / 2",
        loss.detach(),
        {"target": target, "output": output.detach()},
        symbols={"target": target_symbol, "output": symbol},
        name="loss",
    )
    return loss


def gradient(of: str) -> str:
    """∂L/∂of, as LaTeX."""
    return rf"\frac{{\partial L}}{{\partial {of}}}"


def write_update(
    board: Board, symbol: str, before: Tensor, slope: Tensor, rate: Tensor, after: Tensor
) -> None:
    """θ - η ∂L/∂θ, for one parameter that an optimiser has moved."""
    letter, _, index = symbol.partition("_")
    index = index.strip("{}")
    board.step(
        f"New ${symbol}$: against its gradient",
        rf"{letter}_{{{index + ',' if index else ''}\mathrm{{new}}}}",
        "<before> - <rate> <slope>",
        after,
        {"before": before, "rate": rate, "slope": slope},
        symbols={"before": symbol, "rate": r"\eta\,", "slope": gradient(symbol)},
        name=f"new {symbol}",
    )


def compare(board: Board, before: Tensor, after: Tensor) -> str:
    verb = "fell" if after < before else "rose" if after > before else "stayed"
    first, second = board.number(before.item(), 0.0), board.number(after.item(), 0.0)
    return (
        f"The loss {verb} at {first}."
        if after == before
        else (f"The loss {verb} from {first} to {second}.")
    )
