"""Exercise: why attention divides by √d_k: the variance of dot products, and the saturation of the
softmax.
"""

import itertools

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.parts.attention import attend
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable, Value, plain
from translucid.worked.solution.numbers import Numbers, whole, wholes
from translucid.worked.solution.solution import Solution

_MOST = 8  # dimensions whose vectors are enumerated: 4^8 pairs
_LARGEST = 100_000_000  # random numbers


def variance(
    d_k: int | str | None = None,
    *,
    sizes: Numbers | None = None,
    keys: int | str | None = None,
    draws: int | str | None = None,
    seed: int | str | None = None,
    digits: int = 4,
) -> Solution:
    """Why attention divides by √d_k.

    Enumerates all pairs of vectors with entries -1 and +1: the variance of q · k is d_k. Then draws
    random queries and keys, measures the same variance, and compares the softmax of raw and scaled
    scores.

    d_k: Dimensions of the enumerated vectors, at most 8 [default: 4].
    sizes: Dimensions of the random vectors [default: 4 64 512].
    keys: Number of keys for each random query [default: 6].
    draws: Number of random queries for each dimension [default: 1000].
    seed: Seed of the random numbers [default: 1].

    Example: translucid work variance --d-k 2
    """
    d = 4 if d_k is None else whole(d_k, "d_k")
    if d > _MOST:
        raise InputError(f"d_k = {d}: at most {_MOST}, because all 4^d_k pairs are enumerated")
    dimensions = wholes("4 64 512" if sizes is None else sizes, "sizes", least=1)
    number = 6 if keys is None else whole(keys, "keys", least=2)
    count = 1000 if draws is None else whole(draws, "draws")
    if sum(dimensions) * (number + 1) * count > _LARGEST:
        raise InputError(f"sizes, keys and draws need more than {_LARGEST:,} random numbers; use "
                         "fewer draws")  # fmt: skip
    start = 1 if seed is None else whole(seed, "seed", least=0)
    board = Board(digits)
    board.state("d_k", str(d))
    board.state("n", str(number), name="keys")
    _enumerate(board, d)
    _random_pairs(board, dimensions, number, count, np.random.default_rng(start))
    drawn = {"sizes": dimensions, "keys": number, "draws": count, "seed": start}
    return board.solution(
        title="Why attention divides by √d_k",
        notes=("the variance is $d_k$ only for independent entries with mean 0 and variance 1. "
               "Trained queries and keys are not exactly so.",),
        closing="Without scaling, the softmax approaches a one-hot vector as $d_k$ grows, and its "
        "gradient vanishes. With scaling, both hardly change.",
        next="translucid work attention --unscaled",
        program=Program(in_numpy.variance, {"d_k": d, **drawn}),
        example=d_k is None,
        asked=any(option is not None for option in (sizes, keys, draws, seed)),
    )  # fmt: skip


def _enumerate(board: Board, d: int) -> None:
    """Write the distribution of q · k over all vectors with entries -1 and +1."""
    corners = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=d)), dtype=torch.float64)
    trace = Trace()
    attend(corners[None, None], corners[None, None], corners[None, None], trace=trace)
    scores, scaled = (trace[name][0, 0].flatten() for name in ("scores", "scaled"))
    distinct, counts = scores.unique(return_counts=True)
    board.section = f"All pairs of vectors with {d} entries, each -1 or +1"
    chances = counts / counts.sum()
    board.table(
        f"Dot products of all {len(scores):,} pairs",
        SolutionTable(
            ("$q \\cdot k$", "pairs", "probability"),
            tuple(
                (board.number(s), str(n), board.number(p))
                for s, n, p in zip(
                    distinct.tolist(), counts.tolist(), chances.double().tolist(), strict=True
                )
            ),
        ),
        name="dot products",
        value={"scores": plain(distinct), "pairs": plain(counts)},
    )
    values = {"s": distinct, "p": counts.double() / counts.sum(), "d": torch.tensor(float(d))}
    values |= {"mean": scores.mean(), "variance": scores.var(correction=0)}
    symbols = {"d": "d_k", "variance": r"\mathrm{Var}(q \cdot k)", "mean": r"\mu"}
    board.step(
        "Mean: 0, because each term $q_i k_i$ is as often -1 as +1", r"\mu",
        r"<p>^{\top} <s>", values["mean"], values, symbols=symbols, name="mean",
        formula=r"\textstyle\sum_s P(s)\, s",
    )  # fmt: skip
    board.step(
        "Variance: each of the $d_k$ independent terms contributes 1",
        r"\mathrm{Var}(q \cdot k)", r"<p>^{\top} <squares>", values["variance"],
        values | {"squares": (distinct - values["mean"]).square()}, name="variance",
        formula=r"\textstyle\sum_s P(s)\, (s - \mu)^2",
    )  # fmt: skip
    board.step(
        r"Variance of the scaled scores $q \cdot k / \sqrt{d_k}$",
        r"\mathrm{Var}(q \cdot k / \sqrt{d_k})", "<variance> / <d>", scaled.var(correction=0),
        values, symbols=symbols, name="scaled variance",
    )  # fmt: skip


def _random_pairs(
    board: Board, sizes: list[int], keys: int, draws: int, generator: np.random.Generator
) -> None:
    """Write the measured variance of random dot products, the size of the largest weight, and the
    size of the softmax's gradient."""
    spreads: list[tuple[str, ...]] = []
    measured: list[Value] = []
    rows: list[tuple[str, ...]] = []
    values: list[Value] = []
    for d in sizes:
        q = torch.from_numpy(generator.standard_normal((draws, 1, 1, d)))
        k = torch.from_numpy(generator.standard_normal((draws, 1, keys, d)))
        by_kind: dict[str, tuple[float, float]] = {}
        for name in ("raw", "scaled"):
            trace = Trace()
            attend(q, k, k.new_ones(draws, 1, keys, 1), scaled=name == "scaled", trace=trace)
            pattern = trace["pattern"][:, 0, 0]
            by_kind[name] = (pattern.amax(-1).mean().item(), jacobian_size(pattern).mean().item())
        spread = trace["scores"].var(correction=0).item()
        spreads.append((str(d), *(board.number(v) for v in (spread, spread**0.5, spread / d))))
        measured.append(spread)
        rows.append((str(d), *(board.number(v) for pair in by_kind.values() for v in pair)))
        values.append({
            "d_k": d,
            **{f"{n} {what}": v for n, pair in by_kind.items()
               for what, v in zip(("largest weight", "jacobian"), pair, strict=True)},
        })  # fmt: skip
    board.section = f"Normally distributed entries: {draws * keys:,} random pairs"
    board.table(
        r"Measured variance of $q \cdot k$, its root, and the variance after the division",
        SolutionTable(
            ("$d_k$", r"Var $q \cdot k$", "root", r"Var $q \cdot k / \sqrt{d_k}$"), tuple(spreads)
        ),
        name="measured variance",
        value=measured,
        note=r"The exact values are $d_k$, $\sqrt{d_k}$ and 1. More draws come closer.",
    )
    board.section = f"Softmax over {keys} random keys: means over {draws:,} draws"
    board.table(
        "Largest weight, and size of the softmax's Jacobian (0: no gradient)",
        SolutionTable(
            ("$d_k$", "largest, raw", "Jacobian, raw", "largest, scaled", "Jacobian, scaled"),
            tuple(rows),
        ),
        name="saturation",
        value=values,
        note=r"The Jacobian is $\partial p_i / \partial s_j = p_i (1_{ij} - p_j)$; its size is the "
        "root of the sum of its squared entries.",
    )


def jacobian_size(p: Tensor) -> Tensor:
    """The Frobenius norm of the softmax's Jacobian, for each row of probabilities."""
    jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    return jacobian.flatten(1).norm(dim=1)
