"""C53: what a split into heads costs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import ConfigError
from translucid.core.trace import Trace
from translucid.parts.attention import Layout, SelfAttention
from translucid.see.pictures import Bars
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, decide

D_MODEL, WORDS = 768, 16


def _sizes(seed: int, quick: bool) -> Data:
    """A layer of self-attention with each number of heads from 1 to 12 that is allowed."""
    torch.manual_seed(seed)
    x = torch.randn(1, WORDS, D_MODEL)
    measured: dict[str, Any] = {"heads": [], "width": [], "weights": [], "multiplications": []}
    for heads in range(1, 13):
        try:
            layer = SelfAttention(D_MODEL, heads, bias=False)
        except ConfigError:  # 768 is no multiple of it
            continue
        measured["heads"].append(heads)
        measured["width"].append(layer.d_head)
        measured["weights"].append(layer.qkv.weight.numel())
        measured["multiplications"].append(_multiplications(layer, x))
    return measured


def _multiplications(layer: SelfAttention, x: Tensor) -> int:
    """Of all matrix multiplications in a layer, by the shapes that come up when it runs."""
    trace = Trace(["*query", "*scores", "*pattern"])
    with torch.no_grad():
        layer(x, Layout(), trace=trace.at("attention"))
    projections = sum(
        x[..., 0].numel() * linear.weight.numel() for linear in (layer.qkv, layer.output)
    )
    pairs = trace["attention.scores"].numel() + trace["attention.pattern"].numel()
    return projections + pairs * trace["attention.query"].shape[-1]


def _judge_sizes(data: Sequence[Data]) -> Finding:
    (measured,) = data[:1]
    widths = {
        heads * width for heads, width in zip(measured["heads"], measured["width"], strict=True)
    }
    return decide(
        {
            "head width is d_model / heads": widths == {D_MODEL},
            "equal weights for every number of heads": len(set(measured["weights"])) == 1,
            "equal multiplications": len(set(measured["multiplications"])) == 1,
        },
        f"with {', '.join(map(str, measured['heads']))} heads of a width of {D_MODEL}: weights of "
        f"queries, keys and values {sorted(set(measured['weights']))}, multiplications for {WORDS} "
        f"words {sorted(set(measured['multiplications']))}",
    )


def _draw_sizes(data: Sequence[Data]) -> Bars:
    (measured,) = data[:1]
    labels = tuple(f"{heads} × {width}" for heads, width in
                   zip(measured["heads"], measured["width"], strict=True))  # fmt: skip
    return Bars(
        f"Weights of queries, keys and values at width {D_MODEL}", "weights, in millions", labels,
        np.array(measured["weights"]) / 1e6, note="heads × width of a head",
    )  # fmt: skip


sizes = Experiment(
    name="head-width",
    title="Splitting a width into heads",
    varies="the number of heads from 1 to 12 at d_model 768",
    measures="the weights of queries, keys and values, and the multiplications of a layer",
    claims={
        "C53": Rule(
            "Supported if heads × head width is d_model, and weights and multiplications are the "
            "same for every allowed number of heads; refuted if not.",
            _judge_sizes,
            label="identity",
        )
    },
    run=_sizes,
    draw=_draw_sizes,
    seconds=0.2,
    seeds=1,
    references=("https://arxiv.org/abs/1706.03762",),
)
