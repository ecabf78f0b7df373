"""Scores. Each takes plain Python values and says exactly what it counts."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from translucid.data.spans import chunks

SpanMode = Literal["strict", "lenient"]


def accuracy(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """The fraction of equal labels."""
    return sum(p == g for p, g in zip(predicted, gold, strict=True)) / max(len(gold), 1)


def confusion(predicted: Sequence[str], gold: Sequence[str]) -> dict[tuple[str, str], int]:
    """How often each (gold, predicted) pair of labels occurred."""
    return dict(Counter(zip(gold, predicted, strict=True)))


def macro_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """The mean of the labels' F1, over every label that was predicted or right at least once."""
    labels = sorted({*predicted, *gold})
    return sum(_label_f1(label, predicted, gold) for label in labels) / max(len(labels), 1)


def _label_f1(label: str, predicted: Sequence[str], gold: Sequence[str]) -> float:
    hits = sum(p == g == label for p, g in zip(predicted, gold, strict=True))
    return f1(hits, predicted.count(label), gold.count(label))


def f1(hits: int, predicted: int, gold: int) -> float:
    """2 hits / (predicted + gold): the harmonic mean of precision and recall; 0 when none."""
    return 2 * hits / (predicted + gold) if predicted + gold else 0.0


@dataclass(frozen=True, order=True)
class Span:
    """A labelled run of words: first word, one past the last, label."""

    start: int
    end: int
    label: str


def spans(tags: Sequence[str], mode: SpanMode = "strict") -> list[Span]:
    """The entities that BIO tags mark.

    strict: an entity begins with B-. An I- that continues nothing of its own label is no entity.
    lenient: such an I- begins an entity, as the CoNLL-2000 script has it.
    """
    return [Span(*chunk) for chunk in chunks(tags, strict=mode == "strict")]


def span_f1(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], mode: SpanMode = "strict"
) -> float:
    """F1 over whole entities: a hit has the right first word, last word and label."""
    hits = guessed = wanted = 0
    for one, other in zip(predicted, gold, strict=True):
        mine, right = set(spans(one, mode)), set(spans(other, mode))
        hits, guessed, wanted = hits + len(mine & right), guessed + len(mine), wanted + len(right)
    return f1(hits, guessed, wanted)


def perplexity(nats: float, tokens: int) -> float:
    """e to the mean loss per token; infinite where that overflows."""
    mean = nats / max(tokens, 1)
    return math.exp(mean) if mean < 700 else math.inf


def bits_per_character(nats: float, characters: float) -> float:
    """The loss over all tokens in bits, spread over the characters of the text."""
    return nats / math.log(2) / max(characters, 1)


@dataclass(frozen=True)
class TranslationScore:
    """BLEU and chrF with the signatures that make them comparable, and exact matches."""

    bleu: float
    chrf: float
    exact: float  # share of outputs equal to the reference
    bleu_signature: str
    chrf_signature: str


def translation(predicted: Sequence[str], gold: Sequence[str]) -> TranslationScore:
    """Scores of detokenised translations, through sacrebleu: cased, one reference each."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(list(predicted), [list(gold)]).score
    chrf_score = chrf.corpus_score(list(predicted), [list(gold)]).score
    return TranslationScore(
        bleu_score,
        chrf_score,
        accuracy(list(predicted), list(gold)),
        str(bleu.get_signature()),
        str(chrf.get_signature()),
    )


def r_squared(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """1 - squared error / variance: 1 is perfect, 0 as good as the mean, below 0 worse than it."""
    mean = sum(gold) / max(len(gold), 1)
    error = sum((p - g) ** 2 for p, g in zip(predicted, gold, strict=True))
    spread = sum((g - mean) ** 2 for g in gold)
    return 1 - error / spread if spread else 0.0


def pearson(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """Covariance / product of the deviations; 0 where either has none."""
    return statistics.correlation(predicted, gold) if _vary(predicted) and _vary(gold) else 0.0


def spearman(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """Pearson's correlation of the ranks."""
    return pearson(_ranks(predicted), _ranks(gold))


def _ranks(values: Sequence[float]) -> list[float]:
    """From 1 on; equal values share the mean of theirs."""
    places: dict[float, list[int]] = {}
    for rank, value in enumerate(sorted(values), start=1):
        places.setdefault(value, []).append(rank)
    return [statistics.fmean(places[value]) for value in values]


def _vary(values: Sequence[float]) -> bool:
    return len({*values}) > 1
