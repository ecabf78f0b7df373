"""Linear classifiers and taggers of text, fitted to all examples at once by logistic regression.

Shapes: ids and mask (batch, length); characters (batch, length, width), see `parts/characters.py`;
outputs (batch, outputs), for a tagger (batch, length, outputs).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models import inputs
from translucid.models.base import Network
from translucid.models.linear import LinearConfig
from translucid.models.logistic import Entries, Problem, SparseMatrix, best_penalty, solve
from translucid.parts.characters import check_characters
from translucid.parts.embedding import Tokens
from translucid.parts.spelling import hashed, pair_codes
from translucid.parts.word_scores import TagScores, TextScores

HELD_OUT = 10  # one text in ten is held out to choose the penalty
SEARCHED = 20_000  # maximum number of examples on which the penalty is chosen


@dataclass(frozen=True)
class Words:
    """The concatenated tokens of all texts, and the distinct words among them."""

    text: Tensor  # (tokens,): the index of each token's text
    word: Tensor  # (tokens,): the index of its word among the distinct words
    ids: Tensor  # (words,)
    characters: Tensor  # (words, width)
    targets: Tensor  # (texts,) for a classifier, (tokens,) for a tagger
    texts: int

    def neighbours(self, step: int) -> tuple[Tensor, Tensor]:
        """For each token, the index of the token before it (step -1) or after it (step 1), and
        whether that token is in the same text."""
        places = torch.arange(len(self.text)) + step
        there = (places >= 0) & (places < len(self.text))
        places = places.clamp(0, max(len(self.text) - 1, 0))
        return places, there & (self.text[places] == self.text)


@dataclass(frozen=True)
class Design:
    """The features of all examples, as two sparse matrices. An example consists of units, such as
    words and pairs of words, and a unit has features."""

    text: Tensor  # (examples,): the index of each example's text
    examples: Entries  # row: example; column: unit
    units: Entries  # row: unit; column: a row of a feature table, counted over all tables
    classes: Tensor  # (examples,)


class LinearText(Network):
    """A linear classifier or tagger: the scores of a text or of a word are the sum of the weights
    of its features."""

    fits = True
    config: LinearConfig
    linear: TextScores | TagScores
    # The penalties to try, strongest first, times the number of examples. If there are too few
    # texts to hold some out, the penalty in the middle is used.
    penalties: ClassVar[tuple[float, ...]]

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
        *,
        characters: Tensor | None = None,
    ) -> Tensor:
        """Compute the scores. characters: each byte of a word + 1, 0 after the end of the word."""
        inputs.check_trace(trace)
        assert self.config.vocab is not None, "the config was validated"
        inputs.check_ids(ids, mask, self.config.vocab)
        spelled = check_characters(Tokens(ids, mask), characters)
        if ((spelled[..., :-1] == 0) & (spelled[..., 1:] > 0)).any():
            raise InputError(
                "characters: there is a 0 before a character of the same word; use 0 only after "
                "the end of a word"
            )
        scores: Tensor = self.linear(ids, mask, spelled, trace.at("linear"))
        return scores

    @property
    def output_point(self) -> str:
        return f"linear.{self.linear.output_point}"

    def design(self, words: Words) -> Design:
        """Compute the features of all examples from the words of all texts."""
        raise NotImplementedError

    def scale(self, design: Design, columns: Tensor) -> Tensor:
        """The factor of each of the given features: (features, 1), by default 1. columns: the
        columns of these features in the design."""
        return torch.ones(len(columns), 1)

    @torch.no_grad()
    def fit(self, batches: Sequence[tuple[Mapping[str, Tensor], Tensor]]) -> None:
        """Fit the model by multinomial logistic regression. A random tenth of the texts is held out
        to choose the penalty; then the model is fitted to all texts."""
        words = read_words(batches)
        design = self.design(words)
        active, columns = design.units.columns.unique(return_inverse=True)
        units = int(design.units.rows.max()) + 1
        features = Entries(design.units.rows, columns, design.units.values)
        matrix = SparseMatrix(self._like(features), (units, len(active)))
        scale = self.scale(design, active).to(self.linear.bias)

        def problem(chosen: Tensor) -> Problem:
            entries = self._like(design.examples.of_rows(chosen))
            classes = design.classes[chosen]
            examples = SparseMatrix(entries, (len(classes), units))
            return Problem(examples, matrix, classes, scale, self.config.outputs)

        every, order = len(design.classes), torch.randperm(words.texts, generator=_generator())
        searched = order[: int(words.texts * min(1.0, SEARCHED / every))]
        apart = torch.isin(design.text, searched[: len(searched) // HELD_OUT])
        kept = torch.isin(design.text, searched) & ~apart
        penalty, weight = self.penalties[len(self.penalties) // 2], None
        if apart.any() and kept.any():
            penalty, weight = best_penalty(problem(kept), problem(apart), self.penalties)
        weight = solve(problem(torch.ones_like(kept)), penalty / every, weight)
        self.linear.bias.copy_(weight[-1])
        names = self.linear.names
        rows = torch.zeros(len(names) * self.linear.rows, self.config.outputs).to(weight)
        rows[active] = weight[:-1] * scale
        for name, own in zip(names, rows.split(self.linear.rows), strict=True):
            self.linear.table(name).copy_(own)

    def _like(self, entries: Entries) -> Entries:
        return Entries(entries.rows, entries.columns, entries.values.to(self.linear.bias))

    def _spelled(self, table: str, words: Words, first: int) -> Entries:
        """The features of each word's spelling in one table, as matrix entries: the row is the
        word's unit, the column the feature. first: the index of the first word's unit."""
        features, weights = self.linear.features(words.characters)
        word, place = weights.nonzero(as_tuple=True)
        rows = self._start(table) + features[word, place]
        return Entries(first + word, rows, weights[word, place])

    def _start(self, table: str) -> int:
        """The column at which the features of a table begin in the design."""
        return self.linear.names.index(table) * self.linear.rows

    def _words(self, words: Words) -> Entries:
        rows = self.linear.codes(words.ids, words.characters) % self.linear.rows
        return Entries(torch.arange(len(rows)), self._start("words") + rows, torch.ones(len(rows)))


class LinearClassifier(LinearText):
    """The scores of the classes of a text, from its words, pairs of words and character n-grams."""

    linear: TextScores
    penalties = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)

    def __init__(self, config: LinearConfig) -> None:
        super().__init__()
        self.config = config
        self.linear = TextScores(config.features, config.outputs)

    def design(self, words: Words) -> Design:
        count = len(words.ids)
        length = torch.bincount(words.text, minlength=words.texts)
        weight = length[words.text].double().rsqrt()
        before, there = words.neighbours(-1)
        codes = self.linear.codes(words.ids, words.characters)[words.word]
        row = pair_codes(torch.where(there, codes[before], 0), codes) % self.linear.rows
        rows, pair = row.unique(return_inverse=True)
        examples = Entries.joined(
            [Entries(words.text, words.word, weight), Entries(words.text, count + pair, weight)]
        )
        pairs = torch.arange(len(rows)) + count, rows + self._start("pairs")
        units = Entries.joined(
            [
                self._words(words),
                Entries(*pairs, torch.ones(len(rows))),
                self._spelled("characters", words, 0),
            ]
        )
        return Design(torch.arange(words.texts), examples, units, words.targets)

    def scale(self, design: Design, columns: Tensor) -> Tensor:
        """The inverse document frequency of each feature (Spärck Jones 1972), which lets rare
        features have more weight."""
        texts, units = len(design.text), int(design.units.rows.max()) + 1
        distinct = (design.examples.rows * units + design.examples.columns).unique() % units
        texts_with = torch.bincount(distinct, minlength=units)  # number of texts with each unit
        place = torch.searchsorted(columns, design.units.columns)
        frequency = torch.zeros(len(columns), dtype=torch.long)
        frequency.index_add_(0, place, texts_with[design.units.rows])
        return (((1 + texts) / (1 + frequency.clamp(max=texts))).log() + 1)[:, None]


class LinearTagger(LinearText):
    """The scores of the tags of each word, from its spelling and that of the words next to it."""

    linear: TagScores
    penalties = (1.0, 0.3, 0.1, 0.03, 0.01)

    def __init__(self, config: LinearConfig) -> None:
        super().__init__()
        self.config = config
        self.linear = TagScores(config.features, config.outputs)

    def design(self, words: Words) -> Design:
        tagged = words.targets >= 0  # other targets are ignored
        number, count = tagged.cumsum(0) - 1, len(words.ids)
        examples = [Entries(number[tagged], words.word[tagged], torch.ones(int(tagged.sum())))]
        for block, step in ((1, -1), (2, 1)):
            place, there = words.neighbours(step)
            kept = tagged & there
            unit = block * count + words.word[place[kept]]
            examples.append(Entries(number[kept], unit, torch.ones(len(unit))))
        units = [self._words(words)]
        units += [
            self._spelled(table, words, block * count)
            for block, table in enumerate(("characters", "next", "previous"))
        ]
        joined = Entries.joined
        return Design(words.text[tagged], joined(examples), joined(units), words.targets[tagged])


def read_words(batches: Sequence[tuple[Mapping[str, Tensor], Tensor]]) -> Words:
    """Collect the tokens of all batches and their distinct words."""
    texts, kinds = 0, list[tuple[Tensor, Tensor, Tensor]]()
    text, keys, targets = list[Tensor](), list[Tensor](), list[Tensor]()
    for batch, target in batches:
        ids, mask = batch["ids"].cpu(), batch.get("mask")
        real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.cpu()
        tokens, characters = ids[real], batch["characters"].cpu()[real]
        key = _key(tokens, characters)
        first = _first(key)
        kinds.append((key[first], tokens[first], characters[first]))
        text.append(real.nonzero()[:, 0] + texts)
        keys.append(key)
        targets.append(target.cpu() if target.dim() == 1 else target.cpu()[real])
        texts += len(ids)
    _, word = torch.cat(keys).unique(return_inverse=True)
    first = _first(torch.cat([kind[0] for kind in kinds]))  # in the order of `unique`
    width = max(kind[2].shape[1] for kind in kinds)
    ids = torch.cat([kind[1] for kind in kinds])[first]
    spelled = torch.cat([F.pad(kind[2], (0, width - kind[2].shape[1])) for kind in kinds])[first]
    return Words(torch.cat(text), word, ids, spelled, torch.cat(targets), texts)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _key(ids: Tensor, characters: Tensor) -> Tensor:
    """A number of 62 bits for each token, computed from its id and characters; equal words have
    equal numbers."""
    symbols = torch.cat([ids[:, None] + 1, characters], dim=1)
    return hashed(symbols) * (1 << 31) + hashed(symbols, 7919)


def _first(keys: Tensor) -> Tensor:
    """The index at which each distinct key first occurs, in the order of the keys."""
    known, number = keys.unique(return_inverse=True)
    places = torch.arange(len(keys))
    return torch.zeros_like(known).scatter_reduce_(0, number, places, "amin", include_self=False)
