"""C46, C47: the size of scores, and what softmax makes of them."""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.parts.activations import softmax
from translucid.see.pictures import Axis, Lines
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    clearly,
    column,
    decide,
    mean_of,
    ratio_of,
)

WIDTHS = (4, 16, 64, 256, 512)
KEYS = 6


def _scale(seed: int, quick: bool) -> Data:
    """Random queries and keys of unit variance: how large scores are, how sharp the softmax, and
    how much of a gradient it lets through, raw and scaled."""
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
    """The size of diag(p) - p p^T, what a gradient is multiplied by."""
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


softmax_scale = Experiment(
    name="softmax-scale",
    title="Scores divided by √d_k, or not",
    varies="the width d_k of queries and keys; scores as they are and divided by √d_k",
    measures="the variance of the scores, the largest weight, the norm of the softmax's Jacobian",
    claims={
        "C46": Rule(
            "Supported if from d_k = 4 to 512 the Jacobian falls below half without scaling and "
            "keeps more than four fifths with it; refuted if either clearly fails.",
            _judge_scale,
            label="simulation",
        ),
        "C47": Rule(
            "Supported if variance / d_k lies between 0.95 and 1.05 at every width; refuted if it "
            "is clearly below 0.9 or above 1.1 at one.",
            _judge_variance,
            label="simulation",
        ),
    },
    run=_scale,
    draw=_draw_scale,
    seconds=0.3,
    references=("https://arxiv.org/abs/1706.03762",),
)
