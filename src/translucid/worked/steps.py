"""Exercise: staircases built from steep sigmoids, without training.

Shapes: x (points,); f̂ is an MLP with one sigmoid unit for each jump.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.models.mlp import MLP, MLPConfig
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable, first_and_last, plain
from translucid.worked.solution.numbers import (
    Number,
    Numbers,
    complete,
    many,
    scalar,
    vector,
    wholes,
)
from translucid.worked.solution.solution import Solution

EXAMPLE = {"jumps": "1 2", "heights": "1 2", "m": "10 100 1000", "c": "0"}
_SINE = 2001  # points of [0, 1] at which the approximation of the sine is compared
_GRID = 4001  # points for the largest error
_SHOWN = 40  # rows of a table
_LARGEST = 1e6  # steepness


def steps(
    jumps: Numbers | None = None,
    heights: Numbers | None = None,
    *,
    m: Numbers | None = None,
    c: Number | None = None,
    x: Numbers | None = None,
    delta: Number | None = None,
    sine: Numbers | None = None,
    digits: int = 4,
) -> Solution:
    """A staircase built from steep sigmoids.

    Computes f̂(x) = Σ v σ(w x + b) + c with w = M, b = -M · jump and v = height, its limit for
    growing M, and its error.

    jumps: The positions of the jumps, in increasing order.
    heights: The height of each jump.
    m: The values of the steepness M [default: 10 100 1000].
    c: The value before the first jump [default: 0].
    x: The points of the table; the errors are measured between the first and the last.
    delta: Also measure the largest error outside this distance from the jumps [default: 0.01].
    sine: Instead, approximate sin(2πx) with these numbers of steps, such as "4 8 16".

    Example: translucid work steps --jumps 0.5 --heights 1

    Example: translucid work steps --sine "4 8 16 32"
    """
    if sine is not None:
        other = {"jumps": jumps, "heights": heights, "m": m, "c": c, "x": x, "delta": delta}
        stray = next((name for name, value in other.items() if value is not None), None)
        if stray is not None:
            raise InputError(f"sine chooses jumps, heights and m itself; omit {stray}")
        return _to_sine(wholes(sine, "sine", least=1), digits)
    numbers = complete({"jumps": jumps, "heights": heights, "m": m, "c": c}, EXAMPLE,
                       ("jumps", "heights"))  # fmt: skip
    places, rises = vector(numbers["jumps"], "jumps"), vector(numbers["heights"], "heights")
    with numbers.fitting():
        _check(places, rises)
    steepness = vector("10 100 1000" if numbers["m"] is None else numbers["m"], "m").tolist()
    for value in steepness:
        if not 0 < value <= _LARGEST:
            raise InputError(f"m: {value:g} must be greater than 0 and at most {_LARGEST:g}")
    start = 0.0 if numbers["c"] is None else scalar(numbers["c"], "c").item()
    points = _points(places) if x is None else vector(x, "x").sort().values
    margin = 0.01 if delta is None else scalar(delta, "delta").item()
    if margin <= 0:
        raise InputError(f"delta = {margin:g}: must be greater than 0, such as 0.01")

    board = Board(digits)
    for symbol, given in (("j", places), ("v", rises)):
        board.state(symbol, given, name={"j": "jumps", "v": "heights"}[symbol])
    board.state("c", torch.tensor(start, dtype=torch.float64))
    board.state("M", ", ".join(board.writer.number(value) for value in steepness), name="m")
    staircase = Staircase(places, rises, start)
    _write(board, staircase, steepness, points, margin)
    return board.solution(
        title=f"A staircase of {many(len(places), 'sigmoid')}",
        closing="The area between network and staircase shrinks like $1/M$, but the largest error "
        "never falls below half the largest jump: a continuous function cannot jump.",
        next="translucid work steps --sine \"4 8 16 32\"" if numbers.example
        else "translucid work activations",
        program=Program(in_numpy.steps, {"jumps": places, "heights": rises, "start": start,
                                         "steepness": steepness, "x": points}),
        example=numbers.example,
        asked=numbers.asked or any(option is not None for option in (x, delta)),
    )  # fmt: skip


def _check(jumps: Tensor, heights: Tensor) -> None:
    if len(jumps) != len(heights):
        raise InputError(
            f"jumps has {many(len(jumps))} and heights has {many(len(heights))}: each jump needs "
            "its height"
        )
    if not bool((jumps.diff() > 0).all()):
        raise InputError("jumps: must be in increasing order, without repetition, such as 1 2")


def _points(jumps: Tensor) -> Tensor:
    """Points before, at, between and after the jumps."""
    gap = jumps.diff().min() if len(jumps) > 1 else torch.tensor(0.5, dtype=torch.float64)
    edges = torch.cat([jumps[:1] - gap, jumps, jumps[-1:] + gap])
    return torch.cat([edges, (edges[1:] + edges[:-1]) / 2]).sort().values


class Staircase:
    """The staircase, and the networks that approximate it."""

    def __init__(self, jumps: Tensor, heights: Tensor, start: float) -> None:
        self.jumps, self.heights, self.start = jumps, heights, start
        zero = heights.new_zeros(1)
        self.levels = start + torch.cat([zero, heights]).cumsum(0)  # before, between, after

    def __call__(self, x: Tensor) -> Tensor:
        """The value at each point; at a jump, the value after it."""
        return self.levels[torch.searchsorted(self.jumps, x.contiguous(), right=True)]

    def limit(self, x: Tensor) -> Tensor:
        """The limit of the networks for growing steepness; at a jump, the midpoint."""
        before = self.levels[torch.searchsorted(self.jumps, x.contiguous())]
        return (before + self(x)) / 2

    def network(self, steepness: float) -> MLP:
        """The network that approximates the staircase."""
        config = MLPConfig(
            inputs=1, hidden=(len(self.jumps),), outputs=1, activation="sigmoid"
        )  # fmt: skip
        model = MLP(config).double()
        with torch.no_grad():
            model.get_parameter("layers.0.linear.weight").fill_(steepness)
            model.get_parameter("layers.0.linear.bias").copy_(-steepness * self.jumps)
            model.output.linear.weight.copy_(self.heights[None])
            model.output.linear.bias.fill_(self.start)
        return model


def _values(model: MLP, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model(x[:, None])[:, 0]


def _write(
    board: Board, staircase: Staircase, steepness: Sequence[float], x: Tensor, delta: float
) -> None:
    models = {value: staircase.network(value) for value in steepness}
    place = x[len(x) // 2]
    board.section = f"At $x = {board.writer.number(place.item())}$, with the first $M$"
    _one_point(board, models[steepness[0]], place)
    board.section = "All points"
    table = {value: _values(model, x) for value, model in models.items()}
    header = (f"$M = {board.writer.number(value)}$" for value in steepness)
    columns = (x, *table.values(), staircase.limit(x), staircase(x))
    rows = [
        tuple(board.number(value, 0.0) for value in row)
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]
    board.table(
        r"Values $\hat{f}(x)$ for growing $M$, their limit, and the staircase $f(x)$",
        SolutionTable(("$x$", *header, "limit", "$f(x)$"), first_and_last(rows, _SHOWN)),
        name="values",
        value={
            "x": plain(x),
            "f": plain(staircase(x)),
            "limit": plain(staircase.limit(x)),
            "networks": [plain(values) for values in table.values()],
        },
    )
    levels = staircase.levels
    limits = staircase.limit(staircase.jumps)
    board.table(
        r"Limits at the jumps, where every $M$ gives $\sigma(0) = 1/2$: the middle of the jump",
        SolutionTable(
            ("jump", "before", "limit", "after"),
            tuple(
                tuple(board.number(value) for value in row)
                for row in zip(
                    staircase.jumps.tolist(), levels[:-1].tolist(), limits.tolist(),
                    levels[1:].tolist(), strict=True,
                )
            ),
        ),
        name="limits",
        value={"jumps": plain(staircase.jumps), "limits": plain(limits)},
    )  # fmt: skip
    _errors(board, staircase, models, (x[0].item(), x[-1].item()), delta)


def _one_point(board: Board, model: MLP, x: Tensor) -> None:
    trace = Trace()
    with torch.no_grad():
        output = model(x.reshape(1, 1), trace)[0]
    hidden = model.get_submodule("layers.0.linear")
    weight, bias = (parameter.detach() for parameter in hidden.parameters())
    z, h = (trace[f"layers.0.dense.{name}"][0] for name in ("preactivation", "activation"))
    values: dict[str, Tensor | str] = {"W": weight, "x": x, "b": bias, "act": r"\sigma"}
    values |= {"preactivation": z, "activation": h}
    for point in ("preactivation", "activation"):
        board.point(f"layers.0.dense.{point}", values, {"act": r"\sigma", "W": "w"})
    last = {
        "W": model.output.linear.weight.detach(),
        "x": h,
        "b": model.output.linear.bias.detach(),
    }
    board.point(
        "output.dense.preactivation",
        last | {"preactivation": output},
        {"W": r"v^{\top}", "x": "h", "b": "c", "preactivation": r"\hat{f}(x)"},
        label="Output",
    )


def _errors(
    board: Board,
    staircase: Staircase,
    models: dict[float, MLP],
    interval: tuple[float, float],
    delta: float,
) -> None:
    errors = []
    for steepness, model in models.items():
        area = area_between(model, staircase, interval, steepness)
        errors.append((steepness, area, *largest_errors(model, staircase, interval, delta)))
    low, high = (board.writer.number(edge) for edge in interval)
    board.table(
        rf"Errors between ${low}$ and ${high}$: the area between $\hat{{f}}$ and $f$ ($L_1$), and "
        "the largest distance",
        SolutionTable(
            ("$M$", "area", "largest", f"largest, ${board.writer.number(delta)}$ from the jumps"),
            tuple(tuple(board.number(value, 0.0) for value in row) for row in errors),
        ),
        name="errors",
        value={
            "m": [row[0] for row in errors],
            "L1": [row[1] for row in errors],
            "sup": [row[2] for row in errors],
            "sup outside delta": [row[3] for row in errors],
        },
        note=r"A jump of height $v$ contributes about $2 \ln 2 \cdot |v| / M$ to the area.",
    )


def area_between(
    model: MLP, staircase: Staircase, interval: tuple[float, float], steepness: float
) -> float:
    """The integral of |f̂ - f|, by Gauss's rule on panels that become shorter towards the jumps."""
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(20))
    low, high = interval
    inside = [jump for jump in staircase.jumps.tolist() if low < jump < high]
    total = 0.0
    for left, right in itertools.pairwise([low, *inside, high]):
        if left == right:
            continue
        level = staircase(torch.tensor([(left + right) / 2], dtype=torch.float64))

        def error(x: Tensor, level: Tensor = level) -> Tensor:
            return _values(model, x) - level

        halvings = max(2, math.ceil(math.log2(max(4 * steepness * (right - left), 4))))
        near = [(right - left) / 2**k for k in range(halvings, 0, -1)]
        edges = [left, *(left + d for d in near), *(right - d for d in near[-2::-1]), right]
        for a, b in itertools.pairwise(_split(error, edges)):
            total += abs((b - a) / 2 * float(error((a + b) / 2 + (b - a) / 2 * nodes) @ weights))
    return total


def _split(error: Callable[[Tensor], Tensor], edges: list[float]) -> list[float]:
    """Add to the edges the points at which the error changes its sign."""
    signs = error(torch.tensor(edges, dtype=torch.float64)).sign().tolist()
    out = [edges[0]]
    for (a, b), (s, t) in zip(itertools.pairwise(edges), itertools.pairwise(signs), strict=True):
        if s * t < 0:
            low, high = a, b
            for _ in range(60):
                middle = (low + high) / 2
                same = error(torch.tensor([middle], dtype=torch.float64)).sign().item() == s
                low, high = (middle, high) if same else (low, middle)
            out.append(low)
        out.append(b)
    return out


def largest_errors(
    model: MLP, staircase: Staircase, interval: tuple[float, float], delta: float
) -> tuple[float, float]:
    """The largest error in an interval, and the largest outside a distance from every jump."""
    jumps, (low, high) = staircase.jumps, interval
    x = torch.cat([torch.linspace(low, high, _GRID, dtype=torch.float64), jumps, jumps - delta,
                   jumps + delta])  # fmt: skip
    x = x[(x >= low) & (x <= high)]
    before = staircase.levels[torch.searchsorted(jumps, x)]  # at a jump, both sides count
    values = _values(model, x)
    errors = torch.maximum((values - staircase(x)).abs(), (values - before).abs())
    outside = ((x[:, None] - jumps).abs() >= delta * (1 - 1e-9)).all(dim=1)
    return errors.max().item(), errors[outside].max().item() if outside.any() else 0.0


def _to_sine(sizes: Sequence[int], digits: int) -> Solution:
    """Approximate one period of the sine by staircases."""
    board = Board(digits)
    board.state("f(x)", r"\sin(2 \pi x)", name="f")
    board.state("N", ", ".join(str(n) for n in sizes), name="sine")
    x = torch.linspace(0, 1, _SINE, dtype=torch.float64)
    board.section = f"The staircase with $N = {sizes[0]}$"
    errors = []
    for number, n in enumerate(sizes):
        staircase = sine_staircase(n)
        if number == 0:
            rows = list(zip(staircase.jumps.tolist(), staircase.heights.tolist(), strict=True))
            board.table(
                r"Jumps $(k + \frac{1}{2}) / N$, with the heights $f((k + 1) / N) - f(k / N)$",
                SolutionTable(
                    ("jump", "height"),
                    first_and_last([tuple(board.number(v) for v in row) for row in rows], _SHOWN),
                ),
                name="jumps",
                value={"jumps": plain(staircase.jumps), "heights": plain(staircase.heights)},
            )
        values = _values(staircase.network(8.0 * n), x)
        errors.append((values - torch.sin(2 * math.pi * x)).abs().max().item())
    board.section = "More and more steps"
    board.table(
        rf"The largest error at {_SINE} points of $[0, 1]$, with $M = 8 N$",
        SolutionTable(
            ("$N$", "$M$", "largest error"),
            tuple(
                (str(n), str(8 * n), board.number(e)) for n, e in zip(sizes, errors, strict=True)
            ),
        ),
        name="sine",
        value={"n": list(sizes), "sup": list(errors)},
        note="For large N, twice as many steps halve the error.",
    )
    return board.solution(
        title="Staircases of sigmoids towards a sine",
        notes=(
            "the theorem holds for continuous functions on a compact set, and for every "
            "activation that is not a polynomial. It says that such a network exists, not that "
            "training finds it.",
        ),
        closing=f"With {many(sizes[-1], 'sigmoid')}, the largest error is "
        f"{board.number(errors[-1])}.",
        next="translucid work activations",
        asked=True,
    )  # fmt: skip


def sine_staircase(n: int) -> Staircase:
    """The staircase with n jumps that follows sin(2πx) on [0, 1]."""
    corners = torch.arange(n + 1, dtype=torch.float64) / n
    return Staircase(corners[:-1] + 0.5 / n, torch.sin(2 * math.pi * corners).diff(), 0.0)
