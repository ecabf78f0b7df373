"""Exercise: sinusoidal and rotary positions."""

import math

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.parts.attention import attend
from translucid.parts.positions import Rotary, Sinusoidal, period, rotate
from translucid.worked.board import Board
from translucid.worked.solution.content import SolutionTable, first_and_last, plain
from translucid.worked.solution.numbers import (
    Number,
    Numbers,
    matrix,
    scalar,
    shape,
    vector,
    whole,
    wholes,
)
from translucid.worked.solution.solution import Solution

EXAMPLE_Q, EXAMPLE_K, EXAMPLE_PAIRS = "1 2 -1 0.5", "0.5 -1 2 1", "5 2; 105 102; 2 5"
_SHOWN = 16  # maximum rows or columns of a table; --format json has all


def positions(
    d: int | str | None = None,
    positions: Numbers | None = None,
    *,
    count: int | str | None = None,
    base: Number | None = None,
    rotary: bool = False,
    q: Numbers | None = None,
    k: Numbers | None = None,
    pairs: Numbers | None = None,
    digits: int = 4,
) -> Solution:
    """Sinusoidal or rotary positions.

    Computes PE(p, 2i) = sin(p / base^(2i/d)) and PE(p, 2i + 1) = cos(p / base^(2i/d)), with angles,
    periods and dot products; or rotates a query and a key by their positions.

    d: Dimensions of a position vector [default: 4].
    positions: The positions, such as "0 1 2" [default: 0 to count - 1].
    count: Number of positions, starting at 0 [default: 3].
    base: Base of the angles; a larger base makes later pairs rotate more slowly [default: 10000].
    rotary: Rotate q and k (rotary positions) instead of computing PE.
    q: The query to rotate.
    k: The key to rotate.
    pairs: Positions of query and key, one row for each score, such as "5 2; 105 102".

    Example: translucid work positions --d 4 --count 3

    Example: translucid work positions --rotary --q "1 2" --k "3 4" --pairs "5 2; 105 102"
    """
    root = 10000.0 if base is None else scalar(base, "base").item()
    asked = rotary or base is not None
    if root <= 1:
        raise InputError(f"base = {root:g}: must be greater than 1, such as 10000")
    if rotary:
        stray = _unused(d, positions, count)
        if stray is not None:
            raise InputError(
                f"{stray} works only with sinusoidal positions; rotary takes q, k and pairs"
            )
        return _rotary(root, q, k, pairs, digits)
    for name, value in (("q", q), ("k", k), ("pairs", pairs)):
        if value is not None:
            raise InputError(f"{name} works only with rotary positions; add rotary, or omit {name}")
    if positions is not None and count is not None:
        raise InputError("pass positions or count, not both")
    example = d is None and positions is None and count is None
    width = 4 if d is None else whole(d, "d", least=2)
    if width % 2:
        raise InputError(f"d = {width}: sines and cosines come in pairs; try {width + 1}")
    if positions is not None:
        where = wholes(positions, "positions")
    else:
        where = list(range(3 if count is None else whole(count, "count")))
    return _sinusoidal(width, where, root, digits, example, asked)


def _unused(d: object, positions: object, count: object) -> str | None:
    options = {"d": d, "positions": positions, "count": count}
    return next((name for name, value in options.items() if value is not None), None)


def _sinusoidal(
    d: int, where: list[int], base: float, digits: int, example: bool, asked: bool
) -> Solution:
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
        note="A period is a multiple of $\\pi$, so whole positions never repeat exactly.",
    )
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
    # Rotary positions need different inputs, so do not suggest --rotary after the user's numbers.
    more = "--rotary" if example else "" if base == 100 else "--base 100"
    return board.solution(
        title=f"Sinusoidal positions of {d} dimensions",
        closing="The dot product of two positions depends only on their distance.",
        next=f"translucid work positions {more}" if more else "translucid work attention",
        more=more,
        example=example,
        asked=asked,
    )


def _table(board: Board, columns: list[str], where: list[int], values: Tensor) -> SolutionTable:
    """A table with one row per position; of many columns, only the first and last are shown."""
    shown = [*range(len(columns))]
    if len(shown) > _SHOWN:
        shown = [*shown[: _SHOWN - 1], shown[-1]]
    rows = [["$p$", *(columns[i] for i in shown)]]
    for p, row in zip(where, values.tolist(), strict=True):
        rows.append([str(p), *(board.number(row[i]) for i in shown)])
    if len(columns) > _SHOWN:
        rows = [[*row[:-1], "…", row[-1]] for row in rows]
    return SolutionTable(tuple(rows[0]), first_and_last([tuple(row) for row in rows[1:]], _SHOWN))


def _rotary(
    base: float,
    q: Numbers | None,
    k: Numbers | None,
    pairs: Numbers | None,
    digits: int,
) -> Solution:
    if (q is None) != (k is None):
        missing = "q" if q is None else "k"
        raise Missing(f"{missing} is missing; rotary needs both q and k", ("q", "k"))
    query = vector(EXAMPLE_Q if q is None else q, "q")
    key = vector(EXAMPLE_K if k is None else k, "k")
    if len(query) != len(key):
        raise InputError(
            f"q has {len(query)} values and k has {len(key)}: they must have the same length"
        )
    if len(query) % 2:
        raise InputError(
            f"q has {len(query)} values, but rotary positions rotate pairs; expected an even number"
        )
    table = matrix(EXAMPLE_PAIRS if pairs is None else pairs, "pairs")
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
        example=q is None or pairs is None,
        asked=True,
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
