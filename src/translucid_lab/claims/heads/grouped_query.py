"""Grouped-query attention, asked beyond the books: heads that share keys and values."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.models import TransformerConfig, build
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel
from translucid.parts.cache import KVCache
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.toyland_text import next_words
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import fit
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    by_case,
    clearly,
    column,
    difference_of,
)

HEADS, SHARED = 8, (8, 4, 2, 1)  # heads of queries; of keys and values
HELD_OUT = 150  # of toyland's sentences
WORTH = 0.05  # nats a word


def _grouped(seed: int, quick: bool) -> Data:
    """Language models on toyland with fewer and fewer heads of keys and values: the loss on
    sentences that were held out, and what a decoder remembers of each word."""
    text = next_words(seed)
    seen, fresh = replace(text, ids=text.ids[:-HELD_OUT]), text.ids[-HELD_OUT:]
    measured: dict[str, Any] = {"loss": [], "numbers": []}
    for shared in SHARED:
        torch.manual_seed(seed)
        net = build(TransformerConfig(
            shape="decoder", head="language", vocab=text.vocab, d_model=32, heads=HEADS,
            kv_heads=shared, layers=2, d_ff=64, dropout=0.0, positions="rotary",
        ))  # fmt: skip
        assert isinstance(net, DecoderModel)
        text.generator.manual_seed(seed)  # every net reads the same sentences in the same order
        fit(net, partial(seen.loss, net), steps=12 if quick else 300, learning_rate=5e-3)
        measured["loss"].append(_held_out(net.eval(), fresh))
        measured["numbers"].append(remembered(net))
    return measured


@torch.no_grad()
def _held_out(net: DecoderModel, ids: Tensor) -> float:
    logits = net(ids[:, :-1], ids[:, :-1] != 0)
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0).item()


def remembered(net: DecoderModel) -> int:
    """How many numbers the cache holds for each word."""
    words = 16
    state = net.start(GenerationInputs(1), capacity=words)
    caches = [layer for layer in state.layers if isinstance(layer, KVCache)]
    return sum(cache.keys.numel() + cache.values.numel() for cache in caches) // words


def _judge_grouped(data: Sequence[Data]) -> Finding:
    whole = column(data, "loss", 0)
    cases: dict[str, bool | None] = {}
    parts = []
    for place, shared in enumerate(SHARED[1:], start=1):
        more = difference_of(column(data, "loss", place), whole)
        cases[f"{shared} of {HEADS}"] = clearly(more.against(WORTH), "below")
        fraction = data[0]["numbers"][place] / data[0]["numbers"][0]
        parts.append(f"{more} with {shared} heads of keys and values, which need {fraction:.3g} of "
                     "the cache")  # fmt: skip
    return by_case(cases, f"added to the loss of {float(np.mean(whole)):.3g} nats a word: "
                   f"{', '.join(parts)}", "how few heads of keys and values are left")  # fmt: skip


def _draw_grouped(data: Sequence[Data]) -> Lines:
    numbers = data[0]["numbers"]
    labels = tuple(f"{shared} heads: {count}" for shared, count in
                   zip(SHARED, numbers, strict=True))  # fmt: skip
    return Lines(
        "A smaller cache by sharing keys and values",
        Axis("heads of keys and values: numbers kept for each word", labels),
        "loss, nats a word", {"loss": average(data, "loss").numpy()},
        note=f"{HEADS} heads of queries; sentences of toyland held out",
    )  # fmt: skip


grouped = Experiment(
    name="grouped-heads",
    title="Heads that share keys and values shrink the cache at hardly any loss.",
    varies="the heads of keys and values that eight heads of queries share",
    measures="the loss on held-out sentences of toyland; what the cache holds for each word",
    claims={
        "grouped-heads": Rule(
            "Holds for 4, 2 and 1 of 8 heads of keys and values if the loss on held-out sentences "
            "is clearly less than 0.05 nats a word above that of 8; fails if clearly more. "
            "Supported if it holds for all, refuted if for none, depends if for some.",
            _judge_grouped,
        )
    },
    run=_grouped,
    draw=_draw_grouped,
    seconds=30.0,
    references=("https://arxiv.org/abs/2305.13245", "https://arxiv.org/abs/1911.02150"),
)
