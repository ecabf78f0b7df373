"""N-gram features: each token and each bigram adds directly to the class logits of a text.

Shapes: ids (batch, length); a feature has a weight for each class, (outputs,).
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, Terms, apply, constant
from translucid.parts.switch import Switch, in_words


class NGramFeatures(nn.Module):
    """The network's logits plus the sum over the text of words[w_t] + pairs[w_{t-1}, w_t].

    With few examples, such sums are hard to beat (Wang & Manning 2012); a network combined with
    them can focus on longer contexts (Cheng et al. 2016, https://arxiv.org/abs/1606.07792). A
    bigram's row in `pairs` is computed by a hash, so several bigrams may share a row. All weights
    start at 0. Dropout drops both features of a position together.
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
        """Add the n-gram scores of a text to the network's logits (batch, outputs). mask: (batch,
        length)."""
        counted = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        words = trace("words", self.words(ids))  # (batch, length, outputs)
        pairs = trace("pairs", self.pairs(self._row(ids, counted)))
        weight = counted[..., None].to(words.dtype)
        weight = nn.functional.dropout(weight, self.dropout, self.training)
        return trace("sum", logits + (weight * (words + pairs)).sum(dim=1))

    def _row(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The table row for the bigram of each token and the previous real token: (batch,
        length)."""
        place, there = neighbour(mask)
        return self._hash(torch.where(there, ids.gather(1, place), 0), ids)

    def _hash(self, before: Tensor, ids: Tensor) -> Tensor:
        return (before * 1000003 + ids * 7919) % self.pairs.num_embeddings

    def switches(self, path: str) -> Iterator[Switch]:
        for point in ("words", "pairs"):
            name = f"{in_words(path)} of {point}"
            yield Switch(f"{path}.{point}", name, "ngrams", {f"{path}.{point}": 0.0})

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point == "sum":
            logits = at.run.number("class_logits", at.run.reads(at.path), *index)
            return at.run.total(logits, at.tokens(index[0], self._feature_terms(at, *index)))
        if point == "words":
            return at.row_of("words.weight", "ids", *index)
        row, place, out = index
        last, token = at.token_before(row, place), at.run.number("ids", "ids", row, place)
        before = constant("ids", 0) if last is None else at.run.number("ids", "ids", row, last)
        pair = self._hash(torch.tensor(int(before.value)), torch.tensor(int(token.value)))
        return apply("table", at.weight("table", "pairs.weight", int(pair), out), before, token)

    def _feature_terms(self, at: Scope, row: int, out: int) -> Terms:
        """For each position, the sum of what its word and its bigram add to the logit of a
        class."""
        words, pairs = (at.vector(point, row, None, out) for point in ("words", "pairs"))
        return Terms(words.values + pairs.values, lambda i: words.at(i) + pairs.at(i))


def neighbour(mask: Tensor, *, backward: bool = False) -> tuple[Tensor, Tensor]:
    """For each position, the index of the nearest real token before it (`backward`: after it), and
    whether there is one. Both: (batch, length)."""
    real = mask.flip(1) if backward else mask
    places = torch.arange(real.shape[1], device=real.device).expand_as(real)
    last = torch.where(real, places, -1).cummax(dim=1).values  # the last real token so far
    last = nn.functional.pad(last, (1, -1), value=-1)  # before this token
    there, last = last >= 0, last.clamp(min=0)
    return ((real.shape[1] - 1 - last).flip(1), there.flip(1)) if backward else (last, there)


def make_ngram_features(
    vocab: int, rows: int, outputs: int | None, dropout: float
) -> NGramFeatures | None:
    """Build the n-gram features; None if rows is 0."""
    if not rows:
        return None
    assert outputs is not None, "the config was validated"
    return NGramFeatures(vocab, rows, outputs, dropout=dropout)
