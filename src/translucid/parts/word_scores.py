"""Linear scores of a text or of each of its words: every feature adds a row of a table.

Shapes: ids and mask (batch, length); characters (batch, length, width), see `parts/characters.py`;
a feature has a weight for each output, (outputs,). The row of a feature in its table is computed by
a hash, so some features share a row. All weights start at 0.
"""

from collections.abc import Iterator
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, Terms, add, apply, constant
from translucid.parts.ngrams import neighbour
from translucid.parts.spelling import affix_rows, lower, ngram_rows, pair_codes, word_codes
from translucid.parts.switch import Switch, in_words


class WordScores(nn.Module):
    """Base class of linear scores. Each feature of a word has a row in a table, which is added to
    the scores of the outputs."""

    output_point: str
    names: ClassVar[tuple[str, ...]]  # the names of the tables

    def __init__(self, rows: int, outputs: int) -> None:
        super().__init__()
        self.rows = rows
        for name in self.names:
            table = nn.Embedding(rows, outputs)
            nn.init.zeros_(table.weight)
            setattr(self, name, table)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def table(self, name: str) -> Tensor:
        """The weights of a table, (rows, outputs)."""
        weight: Tensor = self.get_submodule(name).weight  # type: ignore[assignment]
        return weight

    def codes(self, ids: Tensor, characters: Tensor) -> Tensor:
        """The hash of each word, which determines its table row. Shape: (...)."""
        return word_codes(ids, characters)

    def spelling(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        """The table rows of the features of each word's spelling, and whether each feature exists.
        Both: (..., features)."""
        raise NotImplementedError

    def features(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        """For each feature of a word's spelling, its table row and the factor by which this row is
        multiplied. Both: (..., features). characters: (..., width)."""
        rows, exists = self.spelling(characters)
        count = exists.sum(dim=-1, keepdim=True).clamp(min=1)
        return rows, exists.to(self.bias.dtype) / count.to(self.bias.dtype).sqrt()

    def _score(self, name: str, features: tuple[Tensor, Tensor]) -> Tensor:
        """For each word, the sum of its features' rows times their factors: (batch, length,
        outputs)."""
        rows, weights = (part.flatten(0, 1) for part in features)
        total = F.embedding_bag(rows, self.table(name), mode="sum", per_sample_weights=weights)
        return total.unflatten(0, features[0].shape[:2])

    def switches(self, path: str) -> Iterator[Switch]:
        for point in self.names:
            name = f"{in_words(path)} features: {point}"
            yield Switch(f"{path}.{point}", name, "ngrams", {f"{path}.{point}": 0.0})

    def _word_terms(self, at: Scope, index: Index) -> Expression:
        row, place, out = index
        return at.weight("table", "words.weight", self._code(at, row, place) % self.rows, out)

    def _code(self, at: Scope, row: int, place: int | None) -> int:
        """The hash of one word; 0 if `place` is None."""
        if place is None:
            return 0
        ids, characters = (at.run.tensor(name)[row, place] for name in ("ids", "characters"))
        return int(self.codes(ids, characters))

    def _spelling_terms(self, at: Scope, point: str, index: Index) -> Expression:
        """The sum of what the features of one word's spelling add to one output, as an
        expression."""
        row, place, out = index
        every, exists = self.spelling(at.run.tensor("characters")[row, place])
        rows = every[exists]
        weights = at.run.tensor(at.name(f"{point}.weight"))[rows, out].double()
        root = apply("sqrt", constant("n", len(rows)))

        def one(i: int) -> Expression:
            return at.weight("table", f"{point}.weight", int(rows[i]), out) / root

        return at.run.total(Terms(weights / max(len(rows), 1) ** 0.5, one))


class TextScores(WordScores):
    """b + 1/√n Σ over the n words of a text of words[w_t] + pairs[w_{t-1}, w_t] + characters[w_t].

    characters[w] is the sum over the n-grams of the word's spelling (2 to 5 bytes), divided by the
    square root of their number, so that words outside the vocabulary count too. Case is
    ignored.
    """

    output_point = "class_logits"
    names = ("words", "pairs", "characters")

    def codes(self, ids: Tensor, characters: Tensor) -> Tensor:
        return super().codes(ids, lower(characters))

    def spelling(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        return ngram_rows(lower(characters), self.rows)

    def forward(
        self, ids: Tensor, mask: Tensor | None, characters: Tensor, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        """The scores of the classes: (batch, outputs)."""
        counted = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        codes = self.codes(ids, characters)
        place, there = neighbour(counted)
        pair = pair_codes(torch.where(there, codes.gather(1, place), 0), codes)
        words = trace("words", F.embedding(codes % self.rows, self.table("words")))
        pairs = trace("pairs", F.embedding(pair % self.rows, self.table("pairs")))
        spelled = trace("characters", self._score("characters", self.features(characters)))
        weight = counted.to(words.dtype)
        total = (weight[..., None] * (words + pairs + spelled)).sum(dim=1)
        length = weight.sum(dim=1, keepdim=True).clamp(min=1)
        return trace("class_logits", self.bias + total / length.sqrt())

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        match point:
            case "words":
                return self._word_terms(at, index)
            case "pairs":
                row, place, out = index
                places = at.token_before(row, place), place
                codes = (torch.tensor(self._code(at, row, one)) for one in places)
                pair = int(pair_codes(*codes)) % self.rows
                return at.weight("table", "pairs.weight", pair, out)
            case "characters":
                return self._spelling_terms(at, point, index)
        row, out = index
        parts = [at.vector(name, row, None, out) for name in self.names]
        count = max(len(at.tokens(row, parts[0]).values), 1)
        root = apply("sqrt", constant("n", count))
        values = torch.stack([part.values for part in parts]).sum(dim=0) / count**0.5

        def one(i: int) -> Expression:
            return add(*(part.at(i) for part in parts)) / root

        return at.run.total(at.weight("b", "bias", out), at.tokens(row, Terms(values, one)))


class TagScores(WordScores):
    """words[w_t] + characters[w_t] + next[w_{t-1}] + previous[w_{t+1}] + b for each word w_t.

    The tables characters, next and previous contain the weights of a word's prefixes, suffixes,
    lower-case form and shape. These weights are added to the scores of the word itself, of the next
    word and of the previous word, divided by the square root of the number of features.
    """

    output_point = "logits"
    names = ("words", "characters", "next", "previous")

    def spelling(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        return affix_rows(characters, self.rows)

    def forward(
        self, ids: Tensor, mask: Tensor | None, characters: Tensor, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        """The scores of the tags of each word: (batch, length, outputs)."""
        counted = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        codes, features = self.codes(ids, characters), self.features(characters)
        logits = trace("words", F.embedding(codes % self.rows, self.table("words"))) + self.bias
        logits = logits + trace("characters", self._score("characters", features))
        following = trace("next", self._score("next", features))
        before = trace("previous", self._score("previous", features))
        for scores, backward in ((following, False), (before, True)):
            place, there = neighbour(counted, backward=backward)
            moved = scores.gather(1, place[..., None].expand_as(scores))
            logits = logits + moved * there[..., None]
        return trace("logits", logits)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point == "words":
            return self._word_terms(at, index)
        if point != "logits":
            return self._spelling_terms(at, point, index)
        row, place, out = index
        added: list[Expression] = [at.number("words", *index), at.number("characters", *index)]
        for name, backward in (("next", False), ("previous", True)):
            other = at.token_before(row, place, backward=backward)
            if other is not None:
                added.append(at.number(name, row, other, out))
        return at.run.total(*added, at.weight("b", "bias", out))
