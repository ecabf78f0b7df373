"""C14, C25, C89 on real text: language models of WikiText-2's most frequent words."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from translucid_lab import Data, Experiment
from translucid_lab.claims.next_word_prediction import (
    FAMILIES,
    WIDTHS,
    amount_of_text,
    best_loss,
    by_amount,
    made,
    new_loss,
    one_target,
    recurrent,
    train,
    vector_sizes,
)
from translucid_lab.claims.real_weights import lines
from translucid_lab.claims.toyland_text import Sentences, numbered

COMMON, LENGTH = 1000, 20  # words in the vocabulary; words of a text
TEXTS, NEW = 4000, 400
SIZES = (250, 4000)


def texts(seed: int, count: int) -> Sentences:
    """Passages of 20 consecutive words of WikiText-2, none twice, in a different order for each
    seed."""
    ids = _table()
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    return Sentences(ids[order[:count]], ids[order[TEXTS : TEXTS + NEW]], COMMON + 2)


@lru_cache(maxsize=1)
def _table() -> Tensor:
    words = [word for line in lines("data/wikitext-2/train.txt") for word in line.split()]
    runs = [words[at : at + LENGTH] for at in range(0, len(words) - LENGTH, LENGTH)]
    return numbered(runs[:40_000], COMMON)[0]


def _models(seed: int, quick: bool) -> Data:
    """Repeat the measurements of next_word_prediction.py on real text: with a target at every word
    or one per text, with several embedding sizes, and with little and much text for an LSTM and a
    Transformer."""
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
        measured[family] = [
            best_loss(texts(seed, size), family, seed, 20 if quick else 150,
                      range(seed * 4, seed * 4 + (2 if quick else 4)))
            for size in SIZES
        ]  # fmt: skip
    return measured


models = Experiment.described(
    "real-text",
    _models,
    vector_sizes.draw,
    {
        "C14": one_target.claims["C14"].judge,
        "C89": vector_sizes.claims["C89"].judge,
    },
)


AMOUNTS = (250, 2000, 16_000, 32_000)
STEPS, PARTS = 300, 8


def _amounts(seed: int, quick: bool) -> Data:
    """Loss of an LSTM, a Transformer and n-grams on new text, by amount of training text, up to
    640,000 words."""
    ids = _table()
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    new = ids[order[max(AMOUNTS) : max(AMOUNTS) + NEW]]
    sizes, steps, parts = (AMOUNTS[:2], 20, 2) if quick else (AMOUNTS, STEPS, PARTS)
    amounts = [Sentences(ids[order[:size]], new, COMMON + 2) for size in sizes]
    return by_amount(amounts, seed, steps, range(seed * PARTS, seed * PARTS + parts))


amounts = Experiment.described(
    "real-amounts", _amounts, amount_of_text.draw, {"C25": amount_of_text.claims["C25"].judge}
)
