"""What stands in a row: after an MLP, after attention, and how much can be read out of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.lab.deep import average, by_case
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.verdict import Data, Finding, Rule, clearly, column, decide, mean_of
from translucid.lab.fitting import NOTHING, Batch, right, train
from translucid.models import MLPConfig, TransformerConfig, build
from translucid.models.base import Network
from translucid.parts.attention import Layout, SelfAttention
from translucid.parts.feedforward import FeedForward
from translucid.see.pictures import Axis, Heat
from translucid.trace import Trace

# ---- C58: the same rows through an MLP and through attention ----

BOOK = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
EXACT = 1e-12


def _same_rows(seed: int, quick: bool) -> Data:
    """The book's rows, random rows without and with negative numbers: how far an MLP of identity
    weights and ReLU moves them, and whether attention hands over mixtures."""
    chance = torch.Generator().manual_seed(seed)
    drawn = torch.randn(5, 4, generator=chance, dtype=torch.float64)
    inputs = {
        "of the book": torch.tensor(BOOK, dtype=torch.float64),
        "never negative": drawn.abs(),
        "with negative numbers": drawn,
    }
    return {name: _through(x, chance) for name, x in inputs.items()}


def _through(x: Tensor, chance: torch.Generator) -> dict[str, Any]:
    mlp, attention = identity_mlp(x.shape[1]), identity_attention(x.shape[1])
    trace = Trace(["*pattern", "*value"])
    with torch.no_grad():
        kept = mlp(x[None])[0]
        mixed = attention(x[None], Layout(), trace=trace.at("attention"))[0]
    pattern, rows = trace["attention.pattern"][0, 0], trace["attention.value"][0, 0]
    return {
        "mlp moves": float((kept - x).abs().max()),
        "attention moves": float((mixed - x).abs().max()),
        "outside": outside(mixed, rows, chance),
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


def outside(points: Tensor, rows: Tensor, chance: torch.Generator) -> float:
    """How far points lie outside of the convex hull of rows, in the worst of many directions; 0 or
    less: inside."""
    ways = torch.randn(1000, rows.shape[1], generator=chance, dtype=rows.dtype)
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
        )
    },
    run=_same_rows,
    draw=_draw_same_rows,
    seconds=0.1,
    references=("https://arxiv.org/abs/1706.03762",),
)

# ---- C60: what can be read out of a row ----

KINDS, LENGTH = 6, 8
PLACES = {  # where a row is taken from
    "input": "encoder.layers.0.self_attention_residual.skip",
    "attention alone": "encoder.layers.0.self_attention.output",
    "input + attention": "encoder.layers.0.self_attention_residual.sum",
}
ASKED = ("word", "position", "word before")
LEAST = 0.8


def _before(rows: int, chance: torch.Generator) -> Batch:
    """Random words; wanted at each is the word before it."""
    x = torch.randint(KINDS, (rows, LENGTH), generator=chance)
    wanted = torch.full_like(x, NOTHING)
    wanted[:, 1:] = x[:, :-1]
    return x, wanted


def _carried(seed: int, quick: bool) -> Data:
    """A layer learns to name the word before; then linear probes read its rows."""
    torch.manual_seed(seed)
    net = build(TransformerConfig(
        shape="encoder", head="tag", outputs=KINDS, vocab=KINDS, d_model=32, heads=2, layers=1,
        d_ff=64, dropout=0.0,
    ))  # fmt: skip
    train(net, lambda chance: _before(32, chance), seed, steps=60 if quick else 300, rate=1e-2)
    chance = torch.Generator().manual_seed(seed + 1_000_000)
    shown, fresh = (_before(150 if quick else 300, chance) for _ in range(2))
    seen, unseen = _rows(net, shown[0]), _rows(net, fresh[0])
    found: dict[str, Any] = {"learned": right(net, fresh)}
    for place in PLACES:
        found[place] = [
            _probed(seen[place], facts(shown[0])[asked], unseen[place], facts(fresh[0])[asked],
                    seed, 50 if quick else 150)
            for asked in ASKED
        ]  # fmt: skip
    return found


def _rows(net: Network, x: Tensor) -> dict[str, Tensor]:
    """The rows of all words that have one before them, by place: (rows, d_model)."""
    trace = Trace(list(PLACES.values()))
    with torch.no_grad():
        net(x, trace=trace)
    return {place: trace[point][:, 1:].flatten(0, 1) for place, point in PLACES.items()}


def facts(x: Tensor) -> dict[str, Tensor]:
    """What is true of these rows, as numbers from 0."""
    positions = torch.arange(x.shape[1] - 1).expand(len(x), -1)
    return {"word": x[:, 1:].flatten(), "position": positions.flatten(),
            "word before": x[:, :-1].flatten()}  # fmt: skip


def _probed(
    rows: Tensor, wanted: Tensor, new_rows: Tensor, new_wanted: Tensor, seed: int, steps: int
) -> float:
    """The share of new rows of which one affine map tells a fact."""
    torch.manual_seed(seed)
    probe = build(MLPConfig(inputs=rows.shape[1], hidden=(), outputs=int(wanted.max()) + 1))
    train(probe, lambda chance: (rows, wanted), seed, steps=steps, rate=0.1)
    return right(probe, (new_rows, new_wanted))


def _judge_carried(data: Sequence[Data]) -> Finding:
    told = {place: [mean_of(column(data, place, at)) for at in range(len(ASKED))]
            for place in PLACES}  # fmt: skip
    unknown = clearly(told["input"][-1].against(1 / KINDS + 0.1), "below")
    cases: dict[str, bool | None] = {}
    for place in list(PLACES)[1:]:
        sides = [unknown, *(clearly(each.against(LEAST), "above") for each in told[place])]
        cases[place] = False if False in sides else True if all(sides) else None
    said = "; ".join(
        f"{place}: " + ", ".join(f"{asked} {each}" for asked, each in zip(ASKED, row, strict=True))
        for place, row in told.items()
    )
    return by_case(cases, f"told from a row by a linear probe: {said}",
                   "whether an output row is taken with the residual or without")  # fmt: skip


def _draw_carried(data: Sequence[Data]) -> Heat:
    values = np.array([average(data, place).tolist() for place in PLACES])
    return Heat(
        "What a linear probe reads out of a row", values, Axis("row taken from", tuple(PLACES)),
        Axis("asked for", ASKED), "unit",
        texts=tuple(tuple(f"{value:.2f}" for value in row) for row in values),
        note=f"guessing: {1 / KINDS:.2f} of the words, {1 / (LENGTH - 1):.2f} of the positions",
    )  # fmt: skip


carried = Experiment(
    name="row-contents",
    title="What can be read out of a row before and after attention",
    varies="where the row is taken from: before attention, from attention alone, from their sum",
    measures="how often a linear probe tells the word, its position, and the word before",
    claims={
        "C60": Rule(
            "Holds for rows of attention alone, and for their sum with the input, if linear probes "
            "clearly tell word, position and the word before in more than 0.8 of new rows, and the "
            "word before clearly not from the input (less than 0.1 above guessing); fails if one "
            "clearly does not hold. Supported if it holds for both, refuted if for neither, "
            "depends if for one.",
            _judge_carried,
        )
    },
    run=_carried,
    draw=_draw_carried,
    seconds=6.0,
    references=("https://arxiv.org/abs/1905.06316",),
)
