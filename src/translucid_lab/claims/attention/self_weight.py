"""C48: does a token look at itself most?"""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.core.trace import Trace
from translucid.models import TransformerConfig, build
from translucid.parts.activations import softmax
from translucid.see.pictures import Bars
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    all_hold,
    clearly,
    column,
    decide,
    median_of,
)

TOKENS, DIMENSIONS = 16, (2, 8, 64)


def _diagonal(seed: int, quick: bool) -> Data:
    """The fraction of rows whose largest weight is the token's own: with queries equal to keys, and
    in an untrained attention layer, which has a projection for each."""
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
    every = [*tied, projected]
    sides = [clearly(interval.against(0.9), "above") for interval in every]
    return decide(
        {"nine of ten rows, in every setting": all_hold(sides)},
        f"rows whose own weight is largest: queries equal to keys, d = {summary}; with projections "
        f"of their own {projected} (chance {1 / TOKENS:.3g})",
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


own_token = Experiment(
    name="own-token",
    title="Does a token look at itself most?",
    varies="the width; queries equal to keys, or projections of their own as models have them",
    measures="the fraction of rows of the attention matrix whose diagonal is the largest weight",
    claims={
        "C48": Rule(
            "Supported if the diagonal is largest in more than nine of ten rows in every setting; "
            "refuted if it clearly is not in one.",
            _judge_diagonal,
            label="simulation",
        )
    },
    run=_diagonal,
    draw=_draw_diagonal,
    seconds=0.3,
    references=("https://arxiv.org/abs/1906.04341",),
)
