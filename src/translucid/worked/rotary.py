"""Rotary positions: queries and keys rotated by their positions."""

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.parts.attention import attend
from translucid.parts.positions import Rotary, rotate
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable
from translucid.worked.solution.numbers import Numbers, complete, matrix, shape, vector
from translucid.worked.solution.solution import Solution

EXAMPLE = {"q": "1 2 -1 0.5", "k": "0.5 -1 2 1", "pairs": "5 2; 105 102; 2 5"}
MATRIX = 8  # the matrix of a rotation is written out for at most this many dimensions


def rotation(d: int, position: int, base: float) -> Tensor:
    """The matrix R (d, d) that rotates a query or key at a position, computed by the real part."""
    angles = Rotary(d, base).angles(torch.tensor([[position]]))
    return rotate(torch.eye(d, dtype=torch.float64)[:, None, None], angles)[:, 0, 0].T


def rotary_positions(
    base: float,
    q: Numbers | None,
    k: Numbers | None,
    pairs: Numbers | None,
    digits: int,
) -> Solution:
    """Write the rotation of a query and a key, and their score, for each pair of positions."""
    numbers = complete({"q": q, "k": k, "pairs": pairs}, EXAMPLE, ("q", "k", "pairs"))
    query, key = vector(numbers["q"], "q"), vector(numbers["k"], "k")
    with numbers.fitting():
        if len(query) != len(key):
            raise InputError(
                f"q has {len(query)} values and k has {len(key)}: they must have the same length"
            )
    if len(query) % 2:
        raise InputError(
            f"q has {len(query)} values, but rotary positions rotate pairs; expected an even number"
        )
    table = matrix(numbers["pairs"], "pairs")
    if table.shape[1] != 2:
        raise InputError(
            f"pairs is {shape(table)}: expected two positions per row, query and key, "
            f'such as "5 2; 105 102"'
        )
    places = [(_place(m), _place(n)) for m, n in table.tolist()]

    board = Board(digits)
    board.state("q", query)
    board.state("k", key)
    board.state("b", board.writer.number(base), name="base")
    _rotation_formula(board)
    scores = [_turn(board, query, key, m, n, base) for m, n in places]
    board.section = "All pairs"
    rows = tuple(
        (str(m), str(n), str(m - n), board.number(s))
        for (m, n), s in zip(places, scores, strict=True)
    )
    board.table(
        "Scores: equal offsets give equal scores",
        SolutionTable(("query at $m$", "key at $n$", "offset $m - n$", "score"), rows),
        name="scores",
        value=list(scores),
    )
    own = q is not None or pairs is not None
    more = "--base 100" if own and base != 100 else ""
    follows = "attention" if own else f"positions --d 8 --count 5 --base {base:g}"
    follows = f"positions {more}" if more else follows.removesuffix(" --base 10000")
    return board.solution(
        title="Rotary positions",
        closing="The score depends only on the offset and its sign; rotation keeps every length.",
        next=f"translucid work {follows}",
        more=more,
        program=Program(in_numpy.rotary, {"q": query, "k": key, "pairs": places, "base": base}),
        example=numbers.example,
        asked=True,
    )


def _rotation_formula(board: Board) -> None:
    board.section = "The rotation of one pair"
    board.formula(
        "Rotation by an angle: it keeps the length of the pair",
        r"R(\theta_i)",
        r"\begin{bmatrix} \cos \theta_i & -\sin \theta_i \\ \sin \theta_i & \cos \theta_i "
        r"\end{bmatrix}",
        name="rotation",
        note=r"Pair $i$ of a query or key at position $p$ is rotated by $\theta_i = p / b^{2i/d}$.",
    )


def _write_rotation(board: Board, whole: Tensor, place: int) -> None:
    board.step(
        f"Rotation matrix at position {place}: one such block for each pair",
        r"R(\theta)",
        "",
        whole,
        {},
        name=f"rotation {place}",
    )


def _place(value: float) -> int:
    if value != int(value) or value < 0:
        raise InputError(f"pairs: {value:g} is not a position; expected whole numbers from 0")
    return int(value)


def _turn(board: Board, q: Tensor, k: Tensor, m: int, n: int, base: float) -> float:
    """Write the rotation of one query and one key by the real parts; return the score."""
    board.section = f"Query at {m}, key at {n}"
    trace, scheme = Trace(), Rotary(len(q), base)
    scope = trace.at("attention")
    turned: list[Tensor] = []
    for name, x, place in (("query", q, m), ("key", k, n)):
        angles = scheme.angles(torch.tensor([[place]]), trace.at(f"{name}.positions"))
        turned.append(scope(f"rotated_{name}", rotate(x[None, None, None], angles)))
    attend(turned[0], turned[1], turned[1], scaled=False, trace=scope)

    for name, x, place, letter in (("query", q, m, "q"), ("key", k, n, "k")):
        angle, after = (
            trace[f"{name}.positions.angles"][0, 0],
            trace[f"attention.rotated_{name}"][0, 0, 0],
        )
        if len(x) <= MATRIX:
            _write_rotation(board, rotation(len(x), place, base), place)
        written = ", ".join(board.writer.number(a) for a in angle.tolist())
        board.point(
            f"attention.rotated_{name}",
            {name: x, f"rotated_{name}": after, "angles": written},
            {name: letter, f"rotated_{name}": f"{letter}_{{{place}}}"},
            note=rf"Pair $i$ is rotated by $\theta_i = {place} / b^{{2i/d}}$.",
        )
    score = trace["attention.scores"][0, 0, 0, 0]
    board.step(
        "Score: how well the rotated query matches the rotated key",
        "s",
        r"<q>^{\top} <k>",
        score,
        {"q": turned[0][0, 0, 0], "k": turned[1][0, 0, 0]},
        symbols={"q": f"q_{{{m}}}", "k": f"k_{{{n}}}"},
        name="attention.scores",
    )
    return score.item()
