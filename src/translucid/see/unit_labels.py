"""Labels for units, measured on data: "unit 41 follows negation, AUC 0.98, on 500 sentences".

The features of each word in Toyland are known. The AUC of a unit for a feature is the probability
that the unit is larger at a word with the feature than at one without: 0.5 is chance, and 0 is as
informative as 1. Among many units some look informative at random, so controls shift the features
along the text, which keeps their frequency and order but removes their meaning. A unit gets a label
only if its AUC beats that of the best unit and feature in every control.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.data.toyland.features import FEATURES, starts
from translucid.data.toyland.generate import generate
from translucid.data.toyland.words import Sentence
from translucid.models.base import Network
from translucid.see.reading import read
from translucid.see.text_trace import TextTrace
from translucid.see.trace_pictures import HEADS
from translucid.tasks.base import Task
from translucid.tasks.example import Example
from translucid.tasks.words import ALONG_TEXT

BUDGET = 2**26  # maximum memory for stored activations, in bytes
SENTENCES = 500
CONTROLS = 20  # number of shifted controls
INFORMATIVE = 0.4  # |AUC - 0.5| for a label: AUC of at least 0.9, or at most 0.1
RARE = 20  # minimum number of words with a feature, and without it
UNKNOWN = 0.02  # maximum fraction of unknown tokens


@dataclass(frozen=True)
class UnitLabel:
    """A feature that a unit follows, with its AUC."""

    unit: int
    feature: str
    auc: float

    def __str__(self) -> str:
        against = " (small there)" if self.auc < 0.5 else ""
        return f"unit {self.unit} follows {self.feature}, AUC {self.auc:.2f}{against}"


@dataclass(frozen=True, eq=False)
class UnitLabels:
    """The AUC of each unit of a point for each feature, and the best AUC in the controls."""

    point: str
    features: tuple[str, ...]
    auc: Tensor  # (units, features); nan where a feature is too rare
    control: float  # largest |AUC - 0.5| of any unit and feature with shifted labels
    sentences: int
    tokens: int

    @property
    def labels(self) -> list[UnitLabel]:
        """The units with a label, most informative first, each with its best feature."""
        size = (self.auc - 0.5).abs().nan_to_num(0.0)
        best = size.max(1)
        order = best.values.argsort(descending=True, stable=True).tolist()
        needed = max(INFORMATIVE, self.control)
        return [self._label(u, int(best.indices[u])) for u in order if best.values[u] > needed]

    def of(self, unit: int) -> list[UnitLabel]:
        """All features for one unit, most informative first, with their AUC."""
        size = (self.auc[unit] - 0.5).abs().nan_to_num(-1.0)
        order = size.argsort(descending=True, stable=True).tolist()
        return [self._label(unit, f) for f in order if size[f] >= 0]

    def _label(self, unit: int, feature: int) -> UnitLabel:
        return UnitLabel(unit, self.features[feature], float(self.auc[unit, feature]))

    def __str__(self) -> str:
        head = (
            f"{self.point}: {len(self.labels)} of {len(self.auc)} units have a label, measured on "
            f"{self.sentences} sentences ({self.tokens:,} tokens); with shifted labels the highest "
            f"AUC of any unit and feature is {0.5 + self.control:.2f}"
        )
        return "\n".join([head, *map(str, self.labels)])


class Measuring:
    """Collects the values of a point over Toyland sentences, in batches."""

    def __init__(
        self,
        network: Network,
        task: Task[Any, Any],
        point: str,
        sentences: int = SENTENCES,
        seed: int = 0,
    ) -> None:
        self.network, self.task, self.point = network, task, point
        self.left = list(generate(sentences, seed, "test"))
        self.asked = sentences
        self.values: list[Tensor] = []
        self.flags: list[Tensor] = []
        self.unknown = 0

    def advance(self, count: int) -> None:
        """Process the next `count` sentences."""
        for sentence in self.left[:count]:
            self._read(sentence)
        self.left = self.left[count:]

    def _read(self, sentence: Sentence) -> None:
        example = self.task.example(sentence.source, None)
        side = example.source or example.target
        if side is None or (example.source and "encoder" not in self.point.split(".")):
            raise InputError(
                f"{self.point}: labels are known only for the English words that a model reads; "
                "choose a point of the encoder, or of a language model"
            )
        places = words_of(sentence, side.tokenizer, example.batch.inputs[side.name][0].tolist())
        reading = read(
            self.network, self.task, sentence.source, sentence.target
            if self.task.name == "translate" else None, keep=[self.point],
        )  # fmt: skip
        known = [place for place, word in enumerate(places) if word is not None]
        self.values.append(by_unit(reading, self.point)[known])
        flags = torch.tensor([has(sentence) for has in FEATURES.values()])  # (features, words)
        self.flags.append(flags[:, [word for word in places if word is not None]].T)
        self.unknown += _unknown(example, side.tokenizer)

    def result(self, seed: int = 0) -> UnitLabels:
        values, flags = torch.cat(self.values), torch.cat(self.flags)
        if self.unknown > UNKNOWN * len(values):
            raise InputError(
                f"{self.unknown:,} of {len(values):,} tokens of Toyland are not in the model's "
                "vocabulary: labels can be measured only for models that read Toyland's English"
            )
        ranks = _ranks(values)
        auc = area(ranks, flags)
        rng = np.random.default_rng(seed)
        length = len(flags)
        shifts = rng.integers(length // 10, length - length // 10, CONTROLS).tolist()
        controls = [area(ranks, flags.roll(shift, 0)) for shift in shifts]
        control = max(float((table - 0.5).abs().nan_to_num(0.0).max()) for table in controls)
        return UnitLabels(self.point, tuple(FEATURES), auc, control, len(self.values), length)


def unit_labels(
    network: Network,
    task: Task[Any, Any],
    point: str,
    *,
    sentences: int = SENTENCES,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> UnitLabels:
    """Measure which features the units of a point follow, on Toyland's test split."""
    measuring = Measuring(network, task, point, sentences, seed)
    while measuring.left:
        measuring.advance(50)
        progress(sentences - len(measuring.left), sentences)
    return measuring.result(seed)


def area(ranks: Tensor, flags: Tensor) -> Tensor:
    """Area under the ROC curve of each unit for each feature, (units, features). ranks: those of
    the units' values, (tokens, units); flags: (tokens, features)."""
    have = flags.double()
    positives = have.sum(0)
    negatives = len(have) - positives
    above = ranks.T @ have - positives * (positives + 1) / 2
    rare = (positives < RARE) | (negatives < RARE)
    return (above / (positives * negatives)).masked_fill(rare, float("nan"))


def _ranks(values: Tensor) -> Tensor:
    """Rank the values in each column from 1; ties get their mean rank."""
    columns = values.T.contiguous().double()
    ordered = columns.sort(1).values
    below = torch.searchsorted(ordered, columns)
    upto = torch.searchsorted(ordered, columns, right=True)
    return ((below + upto + 1) / 2).double().T


def words_of(sentence: Sentence, tokenizer: Tokenizer, ids: Sequence[int]) -> list[int | None]:
    """The index of the English word that each token belongs to; None for special tokens."""
    text = sentence.source
    own = tokenizer.encode(text)
    begin = next((at for at in range(len(ids)) if ids[at : at + 1] == own[:1]), None)
    places: list[int | None] = [None] * len(ids)
    if begin is None:
        return places
    begins = starts(sentence)
    for place, (first, last) in enumerate(tokenizer.offsets(text)):
        if begin + place < len(ids) and last > first:
            word = max(n for n, at in enumerate(begins) if at < last)
            places[begin + place] = word
    return places


def _unknown(example: Example, tokenizer: Tokenizer) -> int:
    side = example.source or example.target
    assert side is not None
    ids = example.batch.inputs[side.name][0].tolist()
    return sum(number == tokenizer.unk_id for number in ids)


@dataclass(frozen=True)
class Extreme:
    """A text and the token in it at which a unit is largest or smallest."""

    value: float
    text: str
    tokens: tuple[str, ...]
    place: int


@dataclass
class Activations:
    """The values of a point at each token of many texts; if the point has a vector for each head,
    the lengths of these vectors."""

    point: str
    texts: list[str] = field(default_factory=list)
    tokens: list[tuple[str, ...]] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)  # (tokens, units) for each text

    def add(self, trace: TextTrace) -> None:
        value = by_unit(trace, self.point)
        axis = next(axis for axis in describe(self.point).axes if axis in ALONG_TEXT)
        words = trace.words.along(self.point, axis) or tuple(map(str, range(len(value))))
        self.texts.append(trace.example.text)
        self.tokens.append(words)
        self.values.append(value)

    @property
    def units(self) -> int:
        return self.values[0].shape[1] if self.values else 0

    @property
    def full(self) -> bool:
        """Whether the memory budget is used up; further texts are not stored."""
        return sum(value.numel() * value.element_size() for value in self.values) >= BUDGET

    def extremes(self, unit: int, k: int = 5) -> tuple[list[Extreme], list[Extreme]]:
        """The k texts with the largest and with the smallest values of a unit."""
        if not 0 <= unit < self.units:
            raise InputError(f"unit = {unit}: {self.point} has units 0 to {self.units - 1}")
        tops, bottoms = (
            [(n, int(find(table[:, unit]))) for n, table in enumerate(self.values)]
            for find in (torch.argmax, torch.argmin)
        )
        largest = [self._extreme(text, place, unit) for text, place in tops]
        smallest = [self._extreme(text, place, unit) for text, place in bottoms]
        return (
            sorted(largest, key=lambda one: -one.value)[:k],
            sorted(smallest, key=lambda one: one.value)[:k],
        )

    def _extreme(self, text: int, place: int, unit: int) -> Extreme:
        value = float(self.values[text][place, unit])
        return Extreme(value, self.texts[text], self.tokens[text], place)


def by_unit(trace: TextTrace, point: str) -> Tensor:
    """The values of a point for one text; if the point has a vector for each head, the lengths of
    these vectors. (tokens, units)"""
    axes = describe(point).axes[1:]
    along = [place for place, axis in enumerate(axes) if axis in ALONG_TEXT]
    by_head = [place for place, axis in enumerate(axes) if axis in HEADS]
    if len(along) != 1 or len(axes) != 2 + len(by_head):
        raise InputError(
            f"{point} does not have a value for each unit at each token (its axes are "
            f"{', '.join(axes) or 'none'}); choose, for example, *.feedforward.activated, *.mixed "
            "for heads, or *_gate"
        )
    value = trace[point][0].detach().float().cpu()
    if by_head:
        return torch.movedim(value, (along[0], by_head[0]), (0, 1)).norm(dim=-1)
    return value.movedim(along[0], 0)
