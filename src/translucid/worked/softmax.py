"""Exercise: softmax and, with a target, the cross-entropy loss and its gradient."""

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.parts import activations
from translucid.worked import plain as in_numpy
from translucid.worked.board import SHIFTED, STABLE, Board, run_softmax
from translucid.worked.plain import Program
from translucid.worked.solution.numbers import Numbers, many, vector, whole
from translucid.worked.solution.solution import Solution

EXAMPLE = "2 1 0"


def softmax(
    x: Numbers | None = None, target: int | str | None = None, *, digits: int = 3
) -> Solution:
    """Softmax of one row, its loss and its gradient.

    The cross-entropy loss and the gradient require a target.

    x: One row of numbers.
    target: The correct entry, counted from 1.

    Example: translucid work softmax "2 1 0" --target 1
    """
    example = x is None
    logits = vector(EXAMPLE if x is None else x, "x").requires_grad_()
    right = None if target is None else _index(target, len(logits))

    def run(trace: Trace) -> None:
        scope = trace.at("softmax")
        scope("probabilities", activations.softmax(logits[None], scope))

    trace, textbook = run_softmax(run)
    board = Board(digits)
    board.state("x", logits.detach()[None])
    values: dict[str, Tensor | str] = {"x": logits.detach()[None]}
    values |= {name.partition(".")[2]: trace[name].detach() for name in trace}
    for name in trace:
        if not (textbook and name == "softmax.shift"):
            board.point(name, values, absent=["shift"] if textbook else [])
    probabilities = trace["softmax.probabilities"][0]
    closing = _likeliest(board, probabilities.detach())
    if right is not None:
        board.state("k", str(right + 1), name="target")
        closing = _loss(board, logits, probabilities.detach(), right)
    return board.solution(
        title="Softmax",
        notes=(STABLE if textbook else SHIFTED,),
        closing=closing,
        next="translucid work softmax --target 1"
        if right is None
        else 'translucid work attention --x "1 0; 0 1; 1 1" --identity',
        more="--target 1" if right is None else "",
        program=Program(
            in_numpy.softmax, {"x": logits} | ({} if right is None else {"target": right + 1})
        ),
        example=example,
        asked=right is not None,
    )


def _index(target: int | str, size: int) -> int:
    entry = whole(target, "target", least=0)
    if not 1 <= entry <= size:
        allowed = "must be 1" if size == 1 else f"must be between 1 and {size}"
        raise InputError(
            f"target = {entry}: x has {many(size)}, counted from 1, so the target {allowed}"
        )
    return entry - 1


def _loss(board: Board, logits: Tensor, probabilities: Tensor, right: int) -> str:
    loss = F.cross_entropy(logits[None], torch.tensor([right]))
    (gradient,) = torch.autograd.grad(loss, logits)
    board.step(
        "Loss: the negative log-probability of the correct entry",
        "L",
        r"-\ln <p_k>",
        loss.detach(),
        {"p_k": probabilities[right]},
        name="loss",
    )
    onehot = F.one_hot(torch.tensor(right), len(logits))
    board.step(
        "Gradient: the probabilities, minus 1 at the correct entry",
        r"\frac{\partial L}{\partial x}",
        r"<p> - <onehot>",
        gradient[None],
        {"p": probabilities[None], "onehot": onehot[None]},
        symbols={"onehot": r"\mathrm{onehot}(k)"},
        name="gradient",
        note="A step against the gradient raises the correct entry and lowers all others.",
    )
    return f"The loss is {board.number(loss.item())}."


def _likeliest(board: Board, probabilities: Tensor) -> str:
    """A sentence that names the entries with the highest probability, counted from 1."""
    largest = probabilities.max()
    best = [i for i, p in enumerate(probabilities, 1) if torch.isclose(p, largest, rtol=1e-12)]
    probability = board.number(largest.item())
    if len(best) == 1:
        return f"Entry {best[0]} is the most likely, with probability {probability}."
    *others, last = (str(i) for i in best)
    return f"Entries {', '.join(others)} and {last} are equally likely, at {probability} each."
