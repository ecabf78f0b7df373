"""Variants of dropout: locked across positions, per vocabulary entry, or of whole words."""

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor, nn

from translucid.parts.embedding import InputPart, Tokens


class LockedDropout(nn.Module):
    """Variational dropout: in training, the same features are 0 at all positions of a row.

    Gal & Ghahramani 2016, https://arxiv.org/abs/1512.05287
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to x (batch, length, d_model) with one mask per row."""
        if not self.training or self.probability == 0:
            return x
        kept = x.new_empty(x.shape[0], 1, x.shape[2]).bernoulli_(1 - self.probability)
        return x * (kept / (1 - self.probability))


class EmbeddingDropout(nn.Module):
    """In training, the embeddings of a fraction of the vocabulary are 0 at all their occurrences.

    Gal & Ghahramani 2016, https://arxiv.org/abs/1512.05287
    """

    def __init__(self, vocab: int, probability: float) -> None:
        super().__init__()
        self.vocab, self.probability = vocab, probability

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        """Set the embeddings of randomly chosen ids to 0, wherever they occur.

        x: the embeddings (batch, length, d_model) of ids (batch, length).
        """
        if not self.training or self.probability == 0:
            return x
        kept = x.new_empty(self.vocab).bernoulli_(1 - self.probability)
        return x * (kept / (1 - self.probability))[ids][..., None]


class WordDropout(InputPart):
    """In training, a fraction of the words is replaced by the unknown token, so that the model
    learns to handle unknown words."""

    def __init__(
        self, probability: float, unknown: int = 3, special: Collection[int] = (0, 1, 2)
    ) -> None:
        """unknown: the id of the unknown token; special: the ids of the special tokens, which are
        never replaced. Defaults: those of Translucid's tokenizers."""
        super().__init__()
        self.probability = probability
        self.kept: Tensor
        self.register_buffer("kept", torch.empty(0, dtype=torch.long), persistent=False)
        self.set_ids(unknown, special)

    def set_ids(self, unknown: int, special: Collection[int]) -> None:
        self.unknown = unknown
        self.kept = torch.tensor(sorted({unknown, *special}), device=self.kept.device)

    def read(self, tokens: Tokens) -> Tokens:
        return replace(tokens, ids=self(tokens.ids))

    def forward(self, ids: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return ids
        hidden = torch.rand(ids.shape, device=ids.device) < self.probability
        words = (ids[..., None] != self.kept).all(dim=-1)
        return ids.masked_fill(hidden & words, self.unknown)


def make_dropout(probability: float, *, locked: bool = False) -> nn.Module:
    """Build a dropout layer. It draws a mask for each position or, with `locked`, one mask for each
    row."""
    return LockedDropout(probability) if locked else nn.Dropout(probability)
