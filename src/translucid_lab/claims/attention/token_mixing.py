"""C56: tokens one by one, or with one another."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from translucid.models import MLPConfig, TransformerConfig, build
from translucid.models.base import Network
from translucid.parts.attention import SelfAttention
from translucid.see.pictures import Bars
from translucid_lab.claims.shared.attention_tasks import Batch, right, silent, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    has_learned,
    median_of,
)

KINDS, LENGTH = 8, 8


def _previous(rows: int, generator: torch.Generator) -> Batch:
    """Random words; wanted is the one before the last."""
    x = torch.randint(KINDS, (rows, LENGTH), generator=generator)
    return x, x[:, -2]


def _side_by_side(batch: Batch) -> Batch:
    """The same for an MLP that sees all words at once, as ones and zeros in a long row."""
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
    """The fraction of words before the last that are named, and how much an answer changes when
    that word is another one."""
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


alone = Experiment(
    name="word-alone",
    title="A position-wise MLP, attention, and an MLP over all words",
    varies="who may see the other words: nobody, attention, an MLP that reads all words at once",
    measures="how often the word before is named; how far an answer moves if that word changes",
    claims={
        "C56": Rule(
            "Supported if a Transformer without attention clearly stays below chance + 0.05 at "
            "naming the word before, and its answers do not move at all when that word changes; "
            "refuted if either clearly fails; not tested unless the same net with attention gets "
            "more than 0.9 right in eight of ten seeds.",
            _judge_alone,
        )
    },
    run=_alone,
    draw=_draw_alone,
    seconds=4.0,
    references=("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/2105.01601"),
)
