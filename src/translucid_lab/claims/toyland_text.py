"""Toyland as numbers, for experiments that train small language models for a short time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.data import Toyland
from translucid_lab import random_rows

SENTENCES, BATCH = 1000, 32
MOST, NEW = 4000, 300  # sentences to train on, and to be asked about
COMMON = 200  # words that get a number of their own; the rest share one


@dataclass
class NextWords:
    """Sentences as rows of numbers, drawn in batches; 0 is padding, 1 a rare word."""

    ids: Tensor  # (sentences, longest)
    vocab: int
    generator: torch.Generator

    def loss(self, net: nn.Module) -> Tensor:
        """On a fresh batch, in nats for each word."""
        ids = random_rows(self.ids, BATCH, self.generator)
        mask = ids != 0
        logits = net(ids[:, :-1], mask[:, :-1])
        wanted = ids[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)


def next_words(seed: int) -> NextWords:
    """Toyland's English; each seed has its own sentences and its own order."""
    return NextWords(_table(seed), COMMON + 2, torch.Generator().manual_seed(seed))


@lru_cache(maxsize=2)  # one experiment reads the same sentences for each of its nets
def _table(seed: int) -> Tensor:
    texts = [value.english for value in Toyland(seed=seed).sentences("train", SENTENCES)]
    return numbered(texts, COMMON)[0]


def numbered(texts: Sequence[Sequence[str]], common: int | None = None) -> tuple[Tensor, int]:
    """Words as numbers from 2 on, the most frequent first, and how many numbers there are; with
    `common`, rarer words share 1. (texts, longest)"""
    counts: dict[str, int] = {}
    for word in (word for text in texts for word in text):
        counts[word] = counts.get(word, 0) + 1
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:common]
    number = {word: at + 2 for at, word in enumerate(kept)}
    return padded([[number.get(word, 1) for word in text] for text in texts]), len(kept) + 2


def padded(rows: Sequence[Sequence[int]], rest: int = 0) -> Tensor:
    """Rows of one length. (rows, longest)"""
    table = torch.full((len(rows), max(map(len, rows))), rest)
    for at, row in enumerate(rows):
        table[at, : len(row)] = torch.tensor(row)
    return table


@dataclass(frozen=True)
class Sentences:
    """Sentences to train on and new ones, as rows of numbers."""

    train: Tensor
    new: Tensor
    vocab: int

    @property
    def counted(self) -> float:
        """The loss on the new ones of somebody who knows only how frequent each word is, in nats
        for each word but the first."""
        counts = torch.bincount(self.train[:, 1:].flatten(), minlength=self.vocab).double()
        probabilities = (counts[1:] + 1) / (counts[1:] + 1).sum()
        targets = self.new[:, 1:]
        return float(-probabilities[targets[targets != 0] - 1].log().mean())


def sentences(seed: int, count: int) -> Sentences:
    """Toyland's English. The words that have a number and the new sentences are the same for every
    count, so that losses can be compared."""
    ids = _many(seed)
    return Sentences(ids[:count], ids[MOST:], COMMON + 2)


@lru_cache(maxsize=2)
def _many(seed: int) -> Tensor:
    world = Toyland(seed=seed)
    texts = [value.english for split, rows in (("train", MOST), ("test", NEW))
             for value in world.sentences(split, rows)]  # fmt: skip
    return numbered(texts, COMMON)[0]
