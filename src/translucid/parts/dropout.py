"""Dropout that hides the same numbers at every position of a row, or the same tokens everywhere."""

from torch import Tensor, nn


class LockedDropout(nn.Module):
    """While training, a number of the vector is 0 at all positions of a row or at none.

    Dropout drawn anew at each position averages out over a row: a mean over words hardly feels it,
    and a recurrent state meets it as noise. Gal & Ghahramani 2016, https://arxiv.org/abs/1512.05287
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, length, d_model)"""
        if not self.training or self.probability == 0:
            return x
        kept = x.new_empty(x.shape[0], 1, x.shape[2]).bernoulli_(1 - self.probability)
        return x * (kept / (1 - self.probability))


class EmbeddingDropout(nn.Module):
    """While training, the vectors of a fraction of all tokens of the vocabulary are 0, wherever the
    token stands. Gal & Ghahramani 2016, https://arxiv.org/abs/1512.05287"""

    def __init__(self, vocab: int, probability: float) -> None:
        super().__init__()
        self.vocab, self.probability = vocab, probability

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        """x: (batch, length, d_model), the vectors of ids (batch, length)."""
        if not self.training or self.probability == 0:
            return x
        kept = x.new_empty(self.vocab).bernoulli_(1 - self.probability)
        return x * (kept / (1 - self.probability))[ids][..., None]


def make_dropout(probability: float, *, locked: bool = False) -> nn.Module:
    """Dropout drawn for each position, or once for each row."""
    return LockedDropout(probability) if locked else nn.Dropout(probability)
