"""C14, C25, C89 on real text: language models of WikiText-2's most frequent words."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from translucid_lab import Data, Experiment
from translucid_lab.claims.next_word_prediction import (
    FAMILIES,
    WIDTHS,
    amount_of_text,
    made,
    new_loss,
    one_target,
    recurrent,
    train,
    transformer,
    vector_sizes,
)
from translucid_lab.claims.real_weights import lines
from translucid_lab.claims.toyland_text import Sentences, numbered

COMMON, LENGTH = 1000, 20  # words with a number of their own; words of a text
TEXTS, NEW = 4000, 400
SIZES = (250, 4000)


def texts(seed: int, count: int) -> Sentences:
    """Runs of words of WikiText-2; every seed has others, none twice."""
    ids = _table()
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    return Sentences(ids[order[:count]], ids[order[TEXTS : TEXTS + NEW]], COMMON + 2)


@lru_cache(maxsize=1)
def _table() -> Tensor:
    words = [word for line in lines("data/wikitext-2/train.txt") for word in line.split()]
    runs = [words[at : at + LENGTH] for at in range(0, len(words) - LENGTH, LENGTH)]
    return numbered(runs[:40_000], COMMON)[0]


def _models(seed: int, quick: bool) -> Data:
    """As the toys do it: with targets at every word or at one; vectors of several sizes; little
    text and much, for an LSTM and a Transformer."""
    steps = 40 if quick else 400
    many = texts(seed, 400 if quick else TEXTS)
    measured: dict[str, Any] = {"counts": many.counted, "loss": [], "sizes": list(SIZES)}
    for name, one in (("every word", False), ("one word", True)):
        net = made(recurrent(many.vocab), seed)
        train(net, many, steps, seed, one=one)
        measured[name] = new_loss(net, many)
    cut = many.new[:, :3]
    with torch.no_grad():
        alone, among = net(cut), net(many.new[:, :6])[:, :3]
    measured["prefix"] = float((alone - among).abs().max())
    for wide in WIDTHS:
        net = made(recurrent(many.vocab, wide=wide), seed)
        train(net, many, steps, seed)
        measured["loss"].append(new_loss(net, many))
    for family in FAMILIES:
        measured[family] = [_best(seed, family, size, quick) for size in SIZES]
    return measured


def _best(seed: int, family: str, size: int, quick: bool) -> float:
    """At the step that is best for one half of the new text, the loss on the other."""
    some = texts(seed, size)
    config = recurrent(some.vocab, cell="lstm") if family == "LSTM" else transformer(some.vocab)
    net = made(config, seed)
    halves = [replace(some, new=part) for part in some.new.split(NEW // 2)]
    losses = []
    for part in range(2 if quick else 4):
        train(net, some, 20 if quick else 150, seed * 4 + part)
        losses.append([new_loss(net, half) for half in halves])
    return min(losses)[1]


models = Experiment.described(
    "real-text",
    _models,
    vector_sizes.draw,
    {
        "C14": one_target.claims["C14"].judge,
        "C25": amount_of_text.claims["C25"].judge,
        "C89": vector_sizes.claims["C89"].judge,
    },
)
