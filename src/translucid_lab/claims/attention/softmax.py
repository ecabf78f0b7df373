"""C49: what softmax promises: between 0 and 1, and summing to 1."""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.parts.activations import softmax
from translucid.see.pictures import Bars
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, column, decide


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


softmax_promises = Experiment(
    name="softmax-promises",
    title="Softmax: between 0 and 1, and summing to 1",
    varies="scores: ordinary, huge, masked with minus infinity",
    measures="the sum of each row, its range, and what a shift of all scores changes",
    claims={
        "C49": Rule(
            "Supported if every row sums to 1 within 1e-12 and stays between 0 and 1; refuted if "
            "not.",
            _judge_promises,
            label="identity",
        )
    },
    run=_promises,
    draw=_draw_promises,
    seconds=0.1,
    seeds=1,
)
