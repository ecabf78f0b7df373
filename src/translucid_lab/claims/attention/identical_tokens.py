"""C58: the same rows through an MLP and through attention."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.parts.attention import Layout, SelfAttention
from translucid.parts.feedforward import FeedForward
from translucid.see.pictures import Axis, Heat
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, column, decide, mean_of

BOOK = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
EXACT = 1e-12


def _same_rows(seed: int, quick: bool) -> Data:
    """The book's rows, random rows without and with negative numbers: how far an MLP of identity
    weights and ReLU moves them, and whether attention hands over mixtures."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    inputs = {
        "of the book": torch.tensor(BOOK, dtype=torch.float64),
        "never negative": drawn.abs(),
        "with negative numbers": drawn,
    }
    return {name: _through(x, generator) for name, x in inputs.items()}


def _through(x: Tensor, generator: torch.Generator) -> dict[str, Any]:
    mlp, attention = identity_mlp(x.shape[1]), identity_attention(x.shape[1])
    trace = Trace(["*pattern", "*value"])
    with torch.no_grad():
        kept = mlp(x[None])[0]
        mixed = attention(x[None], Layout(), trace=trace.at("attention"))[0]
    pattern, rows = trace["attention.pattern"][0, 0], trace["attention.value"][0, 0]
    return {
        "mlp moves": float((kept - x).abs().max()),
        "attention moves": float((mixed - x).abs().max()),
        "outside": outside(mixed, rows, generator),
        "least weight": float(pattern.min()),
        "input": x.tolist(),
        "mlp": kept.tolist(),
        "attention": mixed.tolist(),
    }


def identity_mlp(width: int) -> FeedForward:
    """max(0, x [I 0]) [I; 0]: what the book means by an identity MLP."""
    made = FeedForward(width, 2 * width).double()
    with torch.no_grad():
        for linear in (made.expand, made.output):
            linear.weight.copy_(torch.eye(*linear.weight.shape))
            linear.bias.zero_()
    return made


def identity_attention(width: int) -> SelfAttention:
    """Queries, keys, values and outputs are the rows themselves."""
    made = SelfAttention(width, 1, bias=False).double()
    with torch.no_grad():
        made.qkv.weight.copy_(torch.eye(width).repeat(3, 1))
        made.output.weight.copy_(torch.eye(width))
    return made


def outside(points: Tensor, rows: Tensor, generator: torch.Generator) -> float:
    """How far points lie outside of the convex hull of rows, in the worst of many directions; 0 or
    less: inside."""
    ways = torch.randn(1000, rows.shape[1], generator=generator, dtype=rows.dtype)
    ways /= ways.norm(dim=1, keepdim=True)
    farthest = (rows @ ways.T).max(dim=0).values
    return float(((points @ ways.T) - farthest).max())


def _judge_same_rows(data: Sequence[Data]) -> Finding:
    names = ("of the book", "never negative")
    stays = max(max(column(data, name, "mlp moves")) for name in names)
    beyond = max(max(column(data, name, "outside")) for name in names)
    weight = min(min(column(data, name, "least weight")) for name in names)
    moves = min(min(column(data, name, "attention moves")) for name in names)
    signed = mean_of(column(data, "with negative numbers", "mlp moves"))
    return decide(
        {
            "the MLP returns its input": stays < EXACT,
            "attention stays within the hull of the rows": beyond < EXACT,
            "and mixes them all": weight > 0 and moves > EXACT,
        },
        f"for rows that are never negative the MLP moves nothing (at most {stays:.1e}), attention "
        f"moves every input by {moves:.2g} or more and stays within the hull of the rows; with "
        f"negative numbers this MLP is no identity: it moves them by {signed}",
    )


def _draw_same_rows(data: Sequence[Data]) -> Heat:
    (first,) = data[:1]
    seen = first["of the book"]
    values = np.hstack([seen["input"], seen["mlp"], seen["attention"]])
    columns = tuple(f"{name} {place}" for name in ("input", "MLP", "attention")
                    for place in (1, 2))  # fmt: skip
    return Heat(
        "The same rows through an MLP and through attention", values,
        Axis("row", tuple(str(row + 1) for row in range(len(values)))), Axis("", columns),
        "positive", texts=tuple(tuple(f"{value:.3f}" for value in row) for row in values),
        note="the MLP hands rows on, attention mixes them",
    )  # fmt: skip


same_rows = Experiment(
    name="same-rows",
    title="The same rows through an identity MLP and through attention",
    varies="the rows: the book's, random ones that are never negative, random ones of both signs",
    measures="how far the MLP moves them; whether attention's outputs lie within their hull",
    claims={
        "C58": Rule(
            "For the book's rows and for random rows that, like them, are never negative: "
            "supported if the MLP returns its input within 1e-12 while every output of attention "
            "lies within the convex hull of the values, with some weight on every row, and differs "
            "from the input; refuted if not. Rows of both signs are shown and do not decide.",
            _judge_same_rows,
            label="identity",
        )
    },
    run=_same_rows,
    draw=_draw_same_rows,
    seconds=0.1,
    references=("https://arxiv.org/abs/1706.03762",),
)
