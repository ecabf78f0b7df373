"""N-gram features: each token, and each pair of neighbours, adds to the classes of a text directly.

Shapes: ids (batch, length); a feature has a weight for each class, (outputs,).
"""

import torch
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace


class NGramFeatures(nn.Module):
    """What the network says, plus the sum over the text of words[w_t] + pairs[w_{t-1}, w_t].

    On few examples such sums are hard to beat (Wang & Manning 2012); beside a network they leave it
    what needs more than two words (Cheng et al. 2016, https://arxiv.org/abs/1606.07792). There are
    more pairs than rows, so a pair's row is a hash of it, and some pairs share one. All weights
    start at 0. While training, dropout leaves out both features of a position together.
    """

    def __init__(self, vocab: int, rows: int, outputs: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, outputs)
        self.pairs = nn.Embedding(rows, outputs)
        nn.init.zeros_(self.words.weight)
        nn.init.zeros_(self.pairs.weight)
        self.dropout = dropout

    def forward(
        self, logits: Tensor, ids: Tensor, mask: Tensor | None, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        """logits: (batch, outputs), what the network says; mask: (batch, length)."""
        counted = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        words = trace("words", self.words(ids))  # (batch, length, outputs)
        pairs = trace("pairs", self.pairs(self._row(ids, counted)))
        weight = counted[..., None].to(words.dtype)
        weight = nn.functional.dropout(weight, self.dropout, self.training)
        return trace("sum", logits + (weight * (words + pairs)).sum(dim=1))

    def _row(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The row of each token with the one before it, padding left out. (batch, length)"""
        places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        last = torch.where(mask, places, -1).cummax(dim=1).values  # the newest real place so far
        last = nn.functional.pad(last, (1, -1), value=-1)  # and so far without this one
        before = torch.where(last < 0, 0, ids.gather(1, last.clamp(min=0)))
        return (before * 1000003 + ids * 7919) % self.pairs.num_embeddings


def make_ngram_features(
    vocab: int, rows: int, outputs: int | None, dropout: float
) -> NGramFeatures | None:
    """The features, if there are rows for it."""
    if not rows:
        return None
    assert outputs is not None, "the config was validated"
    return NGramFeatures(vocab, rows, outputs, dropout=dropout)
