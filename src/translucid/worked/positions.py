"""Exercise: sinusoidal and rotary positions."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.parts.positions import Rotary, Sinusoidal, period
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.rotary import MATRIX, rotary_positions, rotation
from translucid.worked.solution.content import SolutionTable, first_and_last, plain
from translucid.worked.solution.numbers import Number, Numbers, matrix, scalar, shape, whole, wholes
from translucid.worked.solution.solution import Solution

_SEARCHED = 5000  # positions among which to look for the one closest to position 0
_SHOWN = 16  # maximum rows or columns of a table; --format json has all


def positions(
    d: int | str | None = None,
    positions: Numbers | None = None,
    *,
    count: int | str | None = None,
    base: Number | None = None,
    shift: int | str | None = None,
    embeddings: Numbers | None = None,
    rotary: bool = False,
    q: Numbers | None = None,
    k: Numbers | None = None,
    pairs: Numbers | None = None,
    digits: int = 4,
) -> Solution:
    """Sinusoidal or rotary positions.

    Computes PE(p, 2i) = sin(p / base^(2i/d)) and PE(p, 2i + 1) = cos(p / base^(2i/d)), with angles,
    periods, dot products and the matrix of a shift; or rotates a query and a key.

    d: Dimensions of a position vector [default: 4].
    positions: The positions, such as "0 1 2" [default: 0 to count - 1].
    count: Number of positions, starting at 0 [default: 3].
    base: Base of the angles; a larger base makes later pairs rotate more slowly [default: 10000].
    shift: Shift k for which to show PE(p + k) = R(k) PE(p) [default: 1].
    embeddings: One embedding per position, to split the score of the first two
        embedding + PE vectors into terms.
    rotary: Rotate q and k (rotary positions) instead of computing PE.
    q: The query to rotate.
    k: The key to rotate.
    pairs: Positions of query and key, one row for each score, such as "5 2; 105 102".

    Example: translucid work positions --d 4 --count 3 --shift 3

    Example: translucid work positions --positions "1 2" --embeddings "2 0 1 0; 1 1 0 0"

    Example: translucid work positions --rotary --q "1 2" --k "3 4" --pairs "5 2; 105 102"
    """
    root = 10000.0 if base is None else scalar(base, "base").item()
    asked = rotary or base is not None
    if root <= 1:
        raise InputError(f"base = {root:g}: must be greater than 1, such as 10000")
    if rotary:
        options = {"d": d, "positions": positions, "count": count, "shift": shift}
        options |= {"embeddings": embeddings}
        stray = next((name for name, value in options.items() if value is not None), None)
        if stray is not None:
            raise InputError(
                f"{stray} works only with sinusoidal positions; rotary takes q, k and pairs"
            )
        return rotary_positions(root, q, k, pairs, digits)
    for name, value in (("q", q), ("k", k), ("pairs", pairs)):
        if value is not None:
            raise InputError(f"{name} works only with rotary positions; add rotary, or omit {name}")
    if positions is not None and count is not None:
        raise InputError("pass positions or count, not both")
    example = all(value is None for value in (d, positions, count, embeddings))
    rows = None if embeddings is None else matrix(embeddings, "embeddings")
    width = 4 if rows is None else rows.shape[1]
    if d is not None:
        width = whole(d, "d", least=2)
    if width % 2:
        raise InputError(f"d = {width}: sines and cosines come in pairs; try {width + 1}")
    if positions is not None:
        where = wholes(positions, "positions")
    else:
        default = 3 if rows is None else len(rows)
        where = list(range(default if count is None else whole(count, "count")))
    by = 1 if shift is None else whole(shift, "shift")
    if rows is not None:
        _check_embeddings(rows, width, where)
    return _sinusoidal(_Case(width, where, root, by, rows), digits, example, asked)


@dataclass(frozen=True)
class _Case:
    """The numbers of an exercise on sinusoidal positions."""

    d: int
    where: list[int]
    base: float
    shift: int
    embeddings: Tensor | None  # (positions, d)


def _check_embeddings(rows: Tensor, d: int, where: list[int]) -> None:
    if rows.shape != (len(where), d):
        raise InputError(
            f"embeddings is {shape(rows)}: expected one row of {d} numbers for each of the "
            f"{len(where)} positions"
        )
    if len(where) < 2:
        raise InputError("embeddings needs two positions or more, to take a dot product")


def _sinusoidal(case: _Case, digits: int, example: bool, asked: bool) -> Solution:
    d, where, base = case.d, case.where, case.base
    places = torch.tensor([where])  # (1, length)
    trace, scope = Trace(), Trace()
    Rotary(d, base).angles(places, trace.at("positions"))  # traces the same angles
    Sinusoidal(d, base).add(
        torch.zeros(1, len(where), d, dtype=torch.float64), places, scope.at("positions")
    )
    angles, encoding = trace["positions.angles"][0], scope["positions.encoding"][0]
    board = Board(digits)
    board.state("d", str(d))
    board.state("b", board.writer.number(base), name="base")
    board.state("p", ", ".join(str(p) for p in where), name="positions")

    pairs = range(d // 2)
    board.table(
        "",
        _table(board, [rf"$\theta_{{{i}}}$" for i in pairs], where, angles),
        name="positions.angles",
        value=plain(angles),
        note="Pair by pair, $p$ is divided by "
        + ", ".join(board.number(base ** (2 * i / d)) for i in pairs[:8])
        + (" and so on" if d > 16 else "")
        + ".",
    )
    titles = [rf"$\{f} \theta_{{{i}}}$" for i in pairs for f in ("sin", "cos")]
    board.table(
        "Encoding: sine in the even columns, cosine in the odd ones",
        _table(board, titles, where, encoding),
        name="positions.encoding",
        value=plain(encoding),
        note=r"$\mathrm{PE}(p, 2i) = \sin \theta_i$ and $\mathrm{PE}(p, 2i + 1) = \cos \theta_i$; "
        "every row has length "
        rf"$\sqrt{{d/2}} = {board.writer.number(math.sqrt(d / 2))}$.",
    )
    periods = [period(i, d, base) for i in pairs]
    board.table(
        "Periods: how many positions one full rotation takes, $T_i = 2\\pi\\,b^{2i/d}$",
        SolutionTable(
            ("pair $i$", "period $T_i$"),
            first_and_last([(str(i), board.number(t)) for i, t in enumerate(periods)], _SHOWN),
        ),
        name="periods",
        value=list(periods),
    )
    _repeats(board, case)
    board.step(
        "Dot products: how similar two positions are",
        "G",
        r"<pe>\, <pe>^{\top}",
        encoding @ encoding.T,
        {"pe": encoding},
        symbols={"pe": r"\mathrm{PE}"},
        name="gram",
        note=r"$G_{pq} = \sum_i \cos((p - q)\,b^{-2i/d})$: the same on every diagonal, "
        "so only the distance matters.",
    )
    _shift(board, case)
    if case.embeddings is not None:
        _four_terms(board, case, case.embeddings)
    # Rotary positions need different inputs, so do not suggest --rotary after the user's numbers.
    more = "--rotary" if example else "" if base == 100 else "--base 100"
    return board.solution(
        title=f"Sinusoidal positions of {d} dimensions",
        closing="The dot product of two positions depends only on their distance.",
        next=f"translucid work positions {more}" if more else "translucid work attention",
        more=more,
        program=Program(in_numpy.positions, {"d": d, "where": case.where, "base": base}),
        example=example,
        asked=asked,
    )


def _table(board: Board, columns: list[str], where: list[int], values: Tensor) -> SolutionTable:
    """A table with one row per position, shortened to the first and last columns if it is wide."""
    shown = [*range(len(columns))]
    if len(shown) > _SHOWN:
        shown = [*shown[: _SHOWN - 1], shown[-1]]
    rows = [["$p$", *(columns[i] for i in shown)]]
    for p, row in zip(where, values.tolist(), strict=True):
        rows.append([str(p), *(board.number(row[i]) for i in shown)])
    if len(columns) > _SHOWN:
        rows = [[*row[:-1], "…", row[-1]] for row in rows]
    return SolutionTable(tuple(rows[0]), first_and_last([tuple(row) for row in rows[1:]], _SHOWN))


def _repeats(board: Board, case: _Case) -> None:
    """Write which integer positions have an encoding close to that of position 0."""
    scheme = Sinusoidal(case.d, case.base)
    places = torch.arange(1, _SEARCHED + 1)
    distances = (scheme.encode(places) - scheme.encode(torch.tensor(0))).norm(dim=-1)
    records = distances == distances.cummin(dim=0).values
    closest = [(int(p), float(distances[p - 1])) for p in places[records]]
    rows = [(str(p), board.number(distance, 0.0)) for p, distance in closest]
    nearest, distance = closest[-1]
    board.table(
        "Repetition: each position that is closer to position 0 than every earlier one",
        SolutionTable(
            ("$p$", r"$\lVert \mathrm{PE}(p) - \mathrm{PE}(0) \rVert$"),
            first_and_last(rows, _SHOWN),
        ),
        name="repeats",
        value=[[p, distance] for p, distance in closest],
        note=f"Up to {_SEARCHED}, position {nearest} comes closest, at distance "
        f"{board.number(distance, 0.0)}. No position repeats exactly: the first period is "
        r"$2\pi$, which is irrational.",
    )


def _shift(board: Board, case: _Case) -> None:
    """Write PE(p + k) = R(k) PE(p), for the last position p."""
    k, p, scheme = case.shift, case.where[-1], Sinusoidal(case.d, case.base)
    if case.d > MATRIX:
        return
    board.section = f"A shift by {k} is a rotation"
    board.formula(
        "Rotation of one pair (sine, cosine)",
        "R_i(k)",
        r"\begin{bmatrix} \cos \theta_i & \sin \theta_i \\ -\sin \theta_i & \cos \theta_i "
        r"\end{bmatrix}",
        name="rotation",
        note=r"The angle is $\theta_i = k / b^{2i/d}$, whatever the position $p$.",
    )
    matrix = rotation(case.d, -k, case.base)  # rotary turns (cosine, sine), the other way round
    board.step(
        f"Shift matrix for $k = {k}$: one such block for each pair",
        f"R({k})",
        "",
        matrix,
        {},
        name="shift",
    )
    here, there = scheme.encode(torch.tensor([p, p + k]))
    board.step(
        f"Position {p + k} from position {p}: a linear map that does not depend on the position",
        rf"\mathrm{{PE}}({p + k})",
        "<R> <pe>",
        there,
        {"R": matrix, "pe": here},
        symbols={"R": f"R({k})", "pe": rf"\mathrm{{PE}}({p})"},
        name="shifted",
    )


def _four_terms(board: Board, case: _Case, x: Tensor) -> None:
    """Write the dot product of the first two encoded rows, and its four terms."""
    trace, scheme = Trace(), Sinusoidal(case.d, case.base)
    scheme.add(x[None], torch.tensor([case.where]), trace.at("positions"))
    encoding, output = (trace[f"positions.{name}"][0] for name in ("encoding", "output"))
    board.section = "The dot product of two encoded rows"
    board.state("X", x, name="embeddings")
    values = {"x": x, "encoding": encoding, "output": output}
    board.point("positions.output", values, {"x": "X"})
    p, q = case.where[:2]
    parts = {"x_p": x[0], "x_q": x[1], "pe_p": encoding[0], "pe_q": encoding[1]}
    parts |= {"both_p": output[0], "both_q": output[1]}
    symbols = {"x_p": f"x_{{{p}}}", "x_q": f"x_{{{q}}}"}
    symbols |= {"pe_p": rf"\mathrm{{PE}}({p})", "pe_q": rf"\mathrm{{PE}}({q})"}
    symbols |= {"both_p": rf"\tilde{{x}}_{{{p}}}", "both_q": rf"\tilde{{x}}_{{{q}}}"}

    def dot(title: str, left: str, right: str, letter: str) -> Tensor:
        value = parts[left] @ parts[right]
        board.step(
            title, letter, rf"<{left}>^{{\top}} <{right}>", value, parts, symbols=symbols,
            name=f"term {letter}",
        )  # fmt: skip
        return value

    terms = {
        "t_1": dot("Content with content", "x_p", "x_q", "t_1"),
        "t_2": dot("Content with position", "x_p", "pe_q", "t_2"),
        "t_3": dot("Position with content", "pe_p", "x_q", "t_3"),
        "t_4": dot("Position with position: depends only on the distance", "pe_p", "pe_q", "t_4"),
    }
    total = output[0] @ output[1]
    board.step(
        "Dot product of the encoded rows: the sum of the four terms",
        rf"{symbols['both_p']}^{{\top}} {symbols['both_q']}",
        " + ".join(f"<{name}>" for name in terms),
        total,
        terms,
        name="dot",
    )
