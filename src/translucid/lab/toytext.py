"""Toyland as numbers, for experiments that train small language models for a short time."""

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.data.toyland import Toyland

SENTENCES, BATCH = 1000, 32
COMMON = 200  # words that get a number of their own; the rest share one


@dataclass
class NextWords:
    """Sentences as rows of numbers, drawn in batches; 0 is padding, 1 a rare word."""

    ids: Tensor  # (sentences, longest)
    vocab: int
    chance: torch.Generator

    def step(self, net: nn.Module, optimizer: torch.optim.Optimizer) -> float:
        """One step on a batch; the loss before it, in nats for each word."""
        rows = torch.randint(len(self.ids), (BATCH,), generator=self.chance)
        ids = self.ids[rows]
        real = ids != 0
        logits = net(ids[:, :-1], real[:, :-1])
        wanted = ids[:, 1:]
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()


def next_words(seed: int) -> NextWords:
    """Toyland's English; each seed has its own sentences and its own order."""
    return NextWords(_table(seed), COMMON + 2, torch.Generator().manual_seed(seed))


@lru_cache(maxsize=2)  # one experiment reads the same sentences for each of its nets
def _table(seed: int) -> Tensor:
    texts = [each.english for each in Toyland(seed=seed).sentences("train", SENTENCES)]
    counts: dict[str, int] = {}
    for word in (word for text in texts for word in text):
        counts[word] = counts.get(word, 0) + 1
    common = sorted(counts, key=lambda word: (-counts[word], word))[:COMMON]
    number = {word: at + 2 for at, word in enumerate(common)}
    ids = torch.zeros(SENTENCES, max(map(len, texts)), dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor([number.get(word, 1) for word in text])
    return ids
