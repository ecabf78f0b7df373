"""Toyland as token ids, for small language models."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.data import Toyland
from translucid_lab import random_rows

SENTENCES, BATCH = 1000, 32
MOST, NEW = 4000, 300  # training and new sentences
COMMON = 200  # words in the vocabulary; the rest share one id


@dataclass
class NextWords:
    """Sentences as ids, drawn in batches; 0 is padding, 1 a rare word."""

    ids: Tensor  # (sentences, longest)
    vocab: int
    generator: torch.Generator

    def loss(self, net: nn.Module) -> Tensor:
        """Loss on a random batch, in nats per word."""
        ids = random_rows(self.ids, BATCH, self.generator)
        mask = ids != 0
        logits = net(ids[:, :-1], mask[:, :-1])
        wanted = ids[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)


def next_words(seed: int) -> NextWords:
    """English sentences of Toyland, different ones for each seed."""
    return NextWords(_table(seed), COMMON + 2, torch.Generator().manual_seed(seed))


@lru_cache(maxsize=2)  # shared by the networks of one experiment
def _table(seed: int) -> Tensor:
    texts = [value.english for value in Toyland(seed=seed).sentences("train", SENTENCES)]
    return numbered(texts, COMMON)[0]


def numbered(texts: Sequence[Sequence[str]], common: int | None = None) -> tuple[Tensor, int]:
    """Texts as word ids, (texts, longest), and the vocabulary size. Ids start at 2 for the most
    frequent word. Words beyond the `common` most frequent ones have id 1; 0 is padding."""
    counts: dict[str, int] = {}
    for word in (word for text in texts for word in text):
        counts[word] = counts.get(word, 0) + 1
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:common]
    number = {word: at + 2 for at, word in enumerate(kept)}
    return padded([[number.get(word, 1) for word in text] for text in texts]), len(kept) + 2


def padded(rows: Sequence[Sequence[int]], rest: int = 0) -> Tensor:
    """Pad rows to equal length. (rows, longest)"""
    table = torch.full((len(rows), max(map(len, rows))), rest)
    for at, row in enumerate(rows):
        table[at, : len(row)] = torch.tensor(row)
    return table


@dataclass(frozen=True)
class Sentences:
    """Training and new sentences as ids."""

    train: Tensor
    new: Tensor
    vocab: int

    @property
    def counted(self) -> float:
        """Loss of predicting each new word by its frequency alone, in nats per word, without the
        first word."""
        counts = torch.bincount(self.train[:, 1:].flatten(), minlength=self.vocab).double()
        probabilities = (counts[1:] + 1) / (counts[1:] + 1).sum()
        targets = self.new[:, 1:]
        return float(-probabilities[targets[targets != 0] - 1].log().mean())


def sentences(seed: int, count: int) -> Sentences:
    """English sentences of Toyland. Vocabulary and new sentences are the same for every count, so
    that losses can be compared."""
    ids = _many(seed)
    return Sentences(ids[:count], ids[MOST:], COMMON + 2)


@lru_cache(maxsize=2)
def _many(seed: int) -> Tensor:
    world = Toyland(seed=seed)
    texts = [value.english for split, rows in (("train", MOST), ("test", NEW))
             for value in world.sentences(split, rows)]  # fmt: skip
    return numbered(texts, COMMON)[0]
