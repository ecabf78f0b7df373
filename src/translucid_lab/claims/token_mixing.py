"""Tokens processed one by one or together (C56), and the same rows processed by an MLP and by
attention (C58).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid import Trace
from translucid.models import MLPConfig, Network, TransformerConfig, build
from translucid.parts import FeedForward, Layout, SelfAttention
from translucid.see import Axis, Bars, Heat
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.attention_tasks import Batch, right, silent, train
from translucid_lab.engine.intervals import clearly, mean_of, median_of
from translucid_lab.engine.verdict import average, column, decide, has_learned

KINDS, LENGTH = 8, 8


def _previous(rows: int, generator: torch.Generator) -> Batch:
    """Random words. The target is the second to last word."""
    x = torch.randint(KINDS, (rows, LENGTH), generator=generator)
    return x, x[:, -2]


def _side_by_side(batch: Batch) -> Batch:
    """The same task for an MLP that reads all words at once, as concatenated one-hot vectors."""
    x, wanted = batch
    return F.one_hot(x, KINDS).flatten(1).float(), wanted


def _formed(form: Callable[[Batch], Batch], generator: torch.Generator) -> Batch:
    return form(_previous(32, generator))


def _reader(seed: int) -> Network:
    torch.manual_seed(seed)
    return build(TransformerConfig(
        shape="encoder", head="classify", pooling="last", outputs=KINDS, vocab=KINDS, d_model=16,
        heads=1, layers=1, d_ff=32, dropout=0.0,
    ))  # fmt: skip


def _alone(seed: int, quick: bool) -> Data:
    """Accuracy of predicting the word before the last, and how much an output changes with that
    word."""
    torch.manual_seed(seed)
    whole = build(MLPConfig(inputs=KINDS * LENGTH, hidden=(64,), outputs=KINDS))
    nets: dict[str, tuple[Network, Callable[[Batch], Batch]]] = {
        "each word alone": (silent(_reader(seed), SelfAttention), lambda batch: batch),
        "with attention": (_reader(seed), lambda batch: batch),
        "all words side by side": (whole, _side_by_side),
    }
    seen = _previous(500, torch.Generator().manual_seed(seed + 1_000_000))
    changed = seen[0].clone()
    changed[:, -2] = (changed[:, -2] + 1) % KINDS
    measured: dict[str, Any] = {}
    for name, (net, form) in nets.items():
        draw = partial(_formed, form)
        train(net, draw, seed, steps=70 if quick else 400, rate=1e-2)
        with torch.no_grad():
            moved = net(form((changed, seen[1]))[0]) - net(form(seen)[0])
        measured[name] = {"accuracy": right(net, form(seen)), "moved": float(moved.abs().max())}
    return measured


def _judge_alone(data: Sequence[Data]) -> Finding:
    guessing = 1 / KINDS
    alone, mixed = (
        median_of(column(data, name, "accuracy")) for name in ("each word alone", "with attention")
    )
    moved = max(column(data, "each word alone", "moved"))
    return decide(
        {
            "alone it only guesses": clearly(alone.against(guessing + 0.05), "below"),
            "no answer moves when another word changes": moved == 0.0,
        },
        f"the word before, named: by a position-wise MLP {alone} (chance {guessing:.3g}), with "
        f"attention {mixed}; an MLP over all words side by side is another thing: "
        f"{median_of(column(data, 'all words side by side', 'accuracy'))}",
        # A task that nobody learns says nothing.
        learned={
            "the same net with attention": has_learned(
                column(data, "with attention", "accuracy"), 0.9
            )
        },
    )


def _draw_alone(data: Sequence[Data]) -> Bars:
    names = tuple(data[0])
    values = [float(average(data, name, "accuracy")) for name in names]
    return Bars(
        "Naming the word before", "accuracy", (*names, "chance"),
        np.array([*values, 1 / KINDS]), marked=(0,),
    )  # fmt: skip


alone = Experiment.described("word-alone", _alone, _draw_alone, {"C56": _judge_alone})


BOOK = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
EXACT = 1e-12


def _same_rows(seed: int, quick: bool) -> Data:
    """Measure how far a ReLU MLP with identity weights moves rows, and whether attention mixes
    them. The rows are those of the book, and random rows without and with negative numbers."""
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
    """max(0, x [I 0]) [I; 0]: the identity MLP of the book."""
    made = FeedForward(width, 2 * width).double()
    with torch.no_grad():
        for linear in (made.expand, made.output):
            linear.weight.copy_(torch.eye(*linear.weight.shape))
            linear.bias.zero_()
    return made


def identity_attention(width: int) -> SelfAttention:
    """Attention with identity projections: queries, keys and values are the rows themselves."""
    made = SelfAttention(width, 1, bias=False).double()
    with torch.no_grad():
        made.qkv.weight.copy_(torch.eye(width).repeat(3, 1))
        made.output.weight.copy_(torch.eye(width))
    return made


def outside(points: Tensor, rows: Tensor, generator: torch.Generator) -> float:
    """The largest distance by which points lie outside the convex hull of rows, over many
    directions. It is at most 0 if all points lie inside."""
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


same_rows = Experiment.described(
    "same-rows", _same_rows, _draw_same_rows, {"C58": _judge_same_rows}
)
