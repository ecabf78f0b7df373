"""The size of scores and its effect on the softmax (C46, C47), what softmax guarantees (C49), and
whether a token attends to itself most (C48).
"""

from collections.abc import Sequence

import numpy as np
import torch

from translucid import Trace
from translucid.models import TransformerConfig, build
from translucid.parts import softmax
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding
from translucid_lab.engine.intervals import clearly, mean_of, median_of, ratio_of
from translucid_lab.engine.verdict import by_case, column, decide

WIDTHS = (4, 16, 64, 256, 512)
KEYS = 6


def _scale(seed: int, quick: bool) -> Data:
    """Measure the variance of the scores of random queries and keys with unit variance. Also
    measure, for raw and for scaled scores, the largest weight of the softmax and the norm of its
    Jacobian."""
    generator = torch.Generator().manual_seed(seed)
    rows = 500 if quick else 4000
    measured: dict[str, list[float]] = {
        name: [] for name in ("variance", "raw", "scaled", "raw_top", "scaled_top")
    }
    for width in WIDTHS:
        q = torch.randn(rows, 1, width, generator=generator, dtype=torch.float64)
        k = torch.randn(rows, KEYS, width, generator=generator, dtype=torch.float64)
        scores = (q * k).sum(-1)  # (rows, keys)
        measured["variance"].append(float(scores.var() / width))
        for name, seen in (("raw", scores), ("scaled", scores / width**0.5)):
            weights = softmax(seen)
            measured[name].append(float(_jacobian(weights).mean()))
            measured[f"{name}_top"].append(float(weights.max(-1).values.mean()))
    return measured


def _jacobian(weights: torch.Tensor) -> torch.Tensor:
    """Norm of the Jacobian of the softmax, diag(p) - p p^T. A gradient is multiplied by this
    Jacobian when it passes the softmax."""
    outer = torch.diag_embed(weights) - weights[..., None] * weights[..., None, :]
    return outer.norm(dim=(-1, -2))


def _judge_scale(data: Sequence[Data]) -> Finding:
    first, last = 0, len(WIDTHS) - 1
    raw, scaled = (
        ratio_of(column(data, name, last), column(data, name, first)) for name in ("raw", "scaled")
    )
    return decide(
        {
            "raw Jacobians shrink to less than half": clearly(raw.against(0.5), "below"),
            "scaled ones keep more than four fifths": clearly(scaled.against(0.8), "above"),
        },
        f"from d_k = {WIDTHS[first]} to {WIDTHS[last]} the softmax Jacobian is multiplied by {raw} "
        f"without scaling and by {scaled} with it",
        {"raw": raw.mean, "scaled": scaled.mean},
    )


def _judge_variance(data: Sequence[Data]) -> Finding:
    intervals = [mean_of(column(data, "variance", place)) for place in range(len(WIDTHS))]
    near = [interval.against(0.95) == "above" and interval.against(1.05) == "below"
            for interval in intervals]  # fmt: skip
    far = any(interval.against(0.9) == "below" or interval.against(1.1) == "above"
              for interval in intervals)  # fmt: skip
    sides = {"variance / d_k lies between 0.95 and 1.05": True if all(near) else
             False if far else None}  # fmt: skip
    summary = ", ".join(
        f"{width}: {interval}" for width, interval in zip(WIDTHS, intervals, strict=True)
    )
    return decide(sides, f"variance of q·k over d_k, for d_k = {summary}")


def _draw_scale(data: Sequence[Data]) -> Lines:
    series = {
        label: np.mean([run[name] for run in data], axis=0)
        for name, label in (("raw", "as they are"), ("scaled", "divided by √d_k"))
    }
    return Lines(
        "How much of a gradient the softmax lets through", Axis("d_k", tuple(map(str, WIDTHS))),
        "norm of its Jacobian", series, note=f"{KEYS} keys, random queries and keys",
    )  # fmt: skip


softmax_scale = Experiment.described(
    "softmax-scale", _scale, _draw_scale, {"C46": _judge_scale, "C47": _judge_variance}
)


def _promises(seed: int, quick: bool) -> Data:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(200, 9, generator=generator, dtype=torch.float64)
    cases = {
        "ordinary": rows,
        "huge": rows * 1e6,
        "masked": torch.where(torch.rand(200, 9, generator=generator) < 0.5, -torch.inf, rows),
    }
    cases["masked"][:, 0] = 0.0
    weights = {name: softmax(scores) for name, scores in cases.items()}
    shifted = softmax(rows + 1234.0)
    return {
        "sum": max(float((p.sum(-1) - 1).abs().max()) for p in weights.values()),
        "inside": all(bool(((p >= 0) & (p <= 1)).all()) for p in weights.values()),
        "shift": float((shifted - weights["ordinary"]).abs().max()),
        "naive": bool(torch.isfinite(torch.exp(cases["huge"]).sum(-1)).all()),
    }


def _judge_promises(data: Sequence[Data]) -> Finding:
    worst = max(column(data, "sum"))
    inside = all(run["inside"] for run in data)
    return decide(
        {"sums to 1 within 1e-12": worst < 1e-12, "all between 0 and 1": inside},
        f"the sums of 600 rows are at most {worst:.1e} from 1; without taking off the largest, "
        "huge scores overflow",
    )


def _draw_promises(data: Sequence[Data]) -> Bars:
    (first,) = data[:1]
    return Bars(
        "How far softmax is from its promises", "largest error",
        ("sum of a row - 1", "after adding 1234 to all"),
        np.array([first["sum"], first["shift"]]),
    )  # fmt: skip


softmax_promises = Experiment.described(
    "softmax-promises", _promises, _draw_promises, {"C49": _judge_promises}
)


TOKENS, DIMENSIONS = 16, (2, 8, 64)


def _diagonal(seed: int, quick: bool) -> Data:
    """The fraction of tokens that attend most to themselves: with queries equal to keys, and in an
    untrained attention layer."""
    generator = torch.Generator().manual_seed(seed)
    tied = []
    for width in DIMENSIONS:
        x = torch.randn(20 if quick else 200, TOKENS, width, generator=generator)
        weights = softmax(x @ x.transpose(1, 2) / width**0.5)
        tied.append(float((weights.argmax(-1) == torch.arange(TOKENS)).float().mean()))
    torch.manual_seed(seed)
    config = TransformerConfig(
        shape="encoder", head="tag", outputs=2, vocab=64, d_model=64, heads=4, layers=1,
        positions="none",
    )  # fmt: skip
    trace = Trace("*.pattern")
    ids = torch.randint(0, 64, (20 if quick else 200, TOKENS), generator=generator)
    with torch.no_grad():
        build(config).eval()(ids, trace=trace)
    pattern = trace["encoder.layers.0.self_attention.pattern"]
    own = (pattern.argmax(-1) == torch.arange(TOKENS)).float().mean()
    return {"tied": tied, "projected": float(own)}


def _judge_diagonal(data: Sequence[Data]) -> Finding:
    tied = [median_of(column(data, "tied", place)) for place in range(len(DIMENSIONS))]
    projected = median_of(column(data, "projected"))
    summary = ", ".join(f"{d}: {value}" for d, value in zip(DIMENSIONS, tied, strict=True))
    every = {f"queries equal to keys, d = {d}": value
             for d, value in zip(DIMENSIONS, tied, strict=True)}  # fmt: skip
    every["projections of their own"] = projected
    return by_case(
        {case: clearly(value.against(0.9), "above") for case, value in every.items()},
        f"rows whose own weight is largest: queries equal to keys, d = {summary}; with projections "
        f"of their own {projected} (chance {1 / TOKENS:.3g})",
        "the width, and on whether queries and keys have projections of their own",
    )  # fmt: skip


def _draw_diagonal(data: Sequence[Data]) -> Bars:
    labels = (
        *(f"queries = keys, d = {d}" for d in DIMENSIONS),
        "own projections, d = 64",
        "chance",
    )
    tied = np.mean([run["tied"] for run in data], axis=0)
    values = np.array([*tied, np.mean([run["projected"] for run in data]), 1 / TOKENS])
    return Bars("Rows in which a token looks at itself most", "fraction of rows", labels, values)


own_token = Experiment.described("own-token", _diagonal, _draw_diagonal, {"C48": _judge_diagonal})
