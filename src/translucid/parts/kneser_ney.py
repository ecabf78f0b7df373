"""N-gram probabilities, interpolated from order to order with modified Kneser-Ney smoothing.

    p_n(w | h) = max(c(h w) - D, 0) / c(h) + γ(h) p_{n-1}(w | h without its first token)

In the highest order, c is the number of times that the n-gram occurs. In lower orders, it is the
number of different tokens that precede the n-gram (each row of text that begins with the n-gram
adds 1). D is one of three discounts, for c = 1, 2 and 3 or more, estimated from the counts of
counts. γ(h) is the probability mass that the discounts leave. p_0 is uniform. Chen & Goodman 1999,
https://doi.org/10.1006/csla.1999.0128

A context h is stored as the index of its n-gram among the n-grams of the order below. Order 1 has
one context, with index 0.

Shapes: tokens (batch, length); contexts (batch, length, orders), -1 where an n-gram is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, apply, constant
from translucid.parts.sparse_table import Integers, Numbers, SparseTable, check_fractions


@dataclass(frozen=True)
class Estimate:
    """The n-grams of one order: their keys and probabilities, and γ of each context."""

    keys: Integers  # (n-grams,), sorted
    discounted: Numbers  # (n-grams,)
    backoff: Numbers  # (contexts,)


class NGramOrder(SparseTable):
    """The n-grams of one order: p(w | h) = discounted(h w) + backoff(h) · lower(w)."""

    output_point = "probability"

    def __init__(self, order: int, vocab: int, ngrams: int, contexts: int) -> None:
        super().__init__(contexts, vocab, ngrams)
        self.order = order
        self.backoffs = nn.Parameter(torch.ones(contexts), requires_grad=False)

    @property
    def variant(self) -> Variant:
        return variant(lowest=self.order == 1)

    def forward(self, contexts: Tensor, lower: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        """The probability of every token by n-grams up to this order: (batch, length, vocab).
        contexts: (batch, length); lower: the probabilities by the order below."""
        backoff = self.backoffs[contexts.clamp(min=0)] if len(self.backoffs) else 1.0
        backoff = torch.where(contexts >= 0, backoff, 1.0)[..., None].to(lower)
        backoff = trace("backoff", backoff)  # (batch, length, 1)
        if not trace.wants("discounted"):
            return trace("probability", self.add(contexts, backoff * lower))
        none = lower.new_zeros(*contexts.shape, self.columns)
        discounted = trace("discounted", self.add(contexts, none))
        return trace("probability", discounted + backoff * lower)

    def add(self, rows: Tensor, to: Tensor) -> Tensor:
        # Order 1 has all tokens, in order.
        return to.add_(self.values) if self.order == 1 else super().add(rows, to)

    def check(self, name: str) -> None:
        super().check(name)
        check_fractions(self.backoffs, name)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place, token = index
        if point == "probability":
            lower: Expression = constant("1 / vocab", 1 / self.columns)
            if self.order > 1:
                lower = at.parent.part(f"order{self.order - 1}_ngram").number(point, *index)
            return at.number("discounted", *index) + at.number("backoff", row, place, 0) * lower
        ngrams = at.parent.module
        assert isinstance(ngrams, NGrams)
        read = [t for t in range(place + 1) if at.is_token(row, t)]
        ids = at.run.tensor(at.ids)[row, read]
        context = int(ngrams.read(ids[None], None, ngrams.start(1))[1][0, self.order - 1])
        words = [at.run.number("ids", at.ids, row, t) for t in read[len(read) - self.order + 1 :]]
        if point == "backoff":
            known = context >= 0
            return apply("table", at.weight("γ", "backoffs", context), *words) if known else ONE
        ngram = int(self.find(torch.tensor(context), torch.tensor(token)))
        return apply("table", at.weight("d", "values", ngram), *words) if ngram >= 0 else ZERO


# The probability of an n-gram, and the γ of a context, that the tables do not contain.
ZERO, ONE = constant("0", 0), constant("1", 1)


class NGrams(nn.Module):
    """The n-grams of all orders. ngrams: the number of n-grams of each order from 2 on."""

    def __init__(self, vocab: int, ngrams: Sequence[int]) -> None:
        super().__init__()
        self.vocab, contexts = vocab, 1
        for n, size in enumerate((vocab, *ngrams), start=1):
            self.add_module(f"order{n}_ngram", NGramOrder(n, vocab, size, contexts))
            contexts = size

    @property
    def orders(self) -> list[NGramOrder]:
        return [order for order in self.children() if isinstance(order, NGramOrder)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of n-grams of each order from 2 on."""
        return tuple(len(order.keys) for order in self.orders[1:])

    @property
    def output_point(self) -> str:
        return f"order{len(self.orders)}_ngram.probability"

    def start(self, rows: int) -> Tensor:
        """The contexts before the first token of each text: (rows, orders)."""
        device = self.orders[0].keys.device
        contexts = torch.full((rows, len(self.orders)), -1, dtype=torch.long, device=device)
        contexts[:, 0] = 0
        return contexts

    def read(self, tokens: Tensor, mask: Tensor | None, before: Tensor) -> tuple[Tensor, Tensor]:
        """Return the contexts after each token (batch, length, orders) and those after the last
        token (batch, orders). before: the contexts before the first token. Padding does not change
        the contexts."""
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        places = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        last = (
            torch.where(real, places, 0).cummax(dim=1).values
        )  # number of the last token; 0: none
        previous = nn.functional.pad(last, (1, 0))[:, :-1]
        nodes = [before[:, :1].expand_as(tokens)]
        for n, order in enumerate(self.orders[:-1]):
            contexts = torch.cat([before[:, n, None], nodes[n]], dim=1).gather(1, previous)
            own = torch.cat([before[:, n + 1, None], order.find(contexts, tokens)], dim=1)
            nodes.append(own.gather(1, last))
        after = torch.stack(nodes, dim=2)
        return after, after[:, -1] if tokens.shape[1] else before

    def forward(self, contexts: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        """The probability of every next token (batch, length, vocab) by the highest order."""
        probability = self.orders[0].values.new_full((self.vocab,), 1 / self.vocab)
        for n, order in enumerate(self.orders):
            probability = order(contexts[..., n], probability, trace.at(f"order{n + 1}_ngram"))
        return probability

    def check(self) -> None:
        """Raise an error if loaded tables are invalid."""
        for order in self.orders:
            order.check(f"the n-grams of order {order.order}")


def estimated(rows: Sequence[Integers], vocab: int, order: int) -> NGrams:
    """Build a network from the n-grams of orders 1 to `order` in these texts (see `estimate`)."""
    estimates = estimate(rows, vocab, order)
    ngrams = NGrams(vocab, [len(one.keys) for one in estimates[1:]])
    for own, one in zip(ngrams.orders, estimates, strict=True):
        own.filled(one.keys, one.discounted)
        own.backoffs.copy_(torch.from_numpy(one.backoff))
    return ngrams


def estimate(rows: Sequence[Integers], vocab: int, order: int) -> list[Estimate]:
    """Estimate the n-grams of orders 1 to `order`. rows: texts. The first token of a text, such as
    the start token, only serves as context."""
    tokens = np.concatenate([np.zeros(0, np.int64), *rows])
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    place = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    keys, counts = [np.arange(vocab)], []
    nodes = tokens  # for each token, the index of the n-gram that ends there
    for n in range(1, order):
        within = place >= n  # where an n-gram of the next order ends
        joined = np.full(len(tokens), -1)
        joined[within] = nodes[:-1][within[1:]] * vocab + tokens[within]
        known, first, inverse = np.unique(joined, return_index=True, return_inverse=True)
        shorter = int(len(known) > 0 and known[0] < 0)  # -1: no n-gram, at the start of a row
        counted = np.bincount(nodes[first[shorter:]], minlength=len(keys[-1]))
        if n > 1:
            counted += np.bincount(nodes[place == n - 1], minlength=len(keys[-1]))
        counts.append(counted)
        keys.append(known[shorter:])
        nodes = inverse - shorter
    counts.append(np.bincount(nodes[place >= max(order - 1, 1)], minlength=len(keys[-1])))
    contexts = [1, *(len(known) for known in keys[:-1])]
    return [
        _smoothed(own, count, size, vocab)
        for own, count, size in zip(keys, counts, contexts, strict=True)
    ]


def _smoothed(keys: Integers, counts: Integers, contexts: int, vocab: int) -> Estimate:
    discount = np.array([0.0, *discounts(counts)])[counts.clip(max=3)]
    context = keys // vocab
    total = np.bincount(context, counts, minlength=contexts)
    left = np.bincount(context, discount, minlength=contexts)
    known = total > 0
    backoff = np.where(known, left / np.where(known, total, 1), 1.0)
    return Estimate(keys, (counts - discount) / np.where(known, total, 1)[context], backoff)


def discounts(counts: Integers) -> tuple[float, float, float]:
    """The three discounts D, for n-grams that occur once, twice and more often (Chen & Goodman
    1999, equation 26). Little data may not define these discounts. Then all three are n₁ / (n₁ + 2
    n₂) (Ney, Essen & Kneser 1994), or 1/2 if this fraction is 0 or 1."""
    n1, n2, n3, n4 = (int((counts == c).sum()) for c in (1, 2, 3, 4))
    y = n1 / max(n1 + 2 * n2, 1)
    if min(n1, n2, n3, n4) > 0:
        three = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        if all(0 < d < c for c, d in enumerate(three, start=1)):
            return three
    one = y if 0 < y < 1 else 0.5
    return one, one, one
