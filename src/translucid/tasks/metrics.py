"""Evaluation metrics, computed from Python lists."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from translucid.data.spans import chunks

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacrebleuMetric
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

SpanMode = Literal["strict", "lenient"]


def accuracy(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """The fraction of equal labels."""
    return sum(p == g for p, g in zip(predicted, gold, strict=True)) / max(len(gold), 1)


def confusion(predicted: Sequence[str], gold: Sequence[str]) -> dict[tuple[str, str], int]:
    """The count of each (gold, predicted) pair of labels."""
    return dict(Counter(zip(gold, predicted, strict=True)))


def macro_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """The mean F1 over all labels that occur in the predictions or the gold labels."""
    labels = sorted({*predicted, *gold})
    return sum(_label_f1(label, predicted, gold) for label in labels) / max(len(labels), 1)


def _label_f1(label: str, predicted: Sequence[str], gold: Sequence[str]) -> float:
    hits = sum(p == g == label for p, g in zip(predicted, gold, strict=True))
    return f1(hits, predicted.count(label), gold.count(label))


def macro_f1_of_counts(counts: NDArray[np.float64]) -> float:
    """Macro F1 from the counts (hits, predicted, gold) of each label; absent labels are ignored."""
    hits, predicted, gold = counts.reshape(-1, 3).T
    occurs = predicted + gold > 0
    return float((2 * hits[occurs] / (predicted + gold)[occurs]).mean()) if occurs.any() else 0.0


def f1(hits: int, predicted: int, gold: int) -> float:
    """F1, the harmonic mean of precision and recall: 2 hits / (predicted + gold)."""
    return 2 * hits / (predicted + gold) if predicted + gold else 0.0


@dataclass(frozen=True, order=True)
class TagSpan:
    """A labelled span of words; `end` is one past the last."""

    start: int
    end: int
    label: str


def spans(tags: Sequence[str], mode: SpanMode = "strict") -> list[TagSpan]:
    """The entities that BIO tags mark.

    strict: an entity begins with B-; an I- that continues no entity of its label is ignored.
    lenient: such an I- begins an entity, as in the CoNLL-2000 script.
    """
    return [TagSpan(*chunk) for chunk in chunks(tags, strict=mode == "strict")]


def span_f1(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], mode: SpanMode = "strict"
) -> float:
    """F1 over whole entities: a hit has the right first word, last word and label."""
    counts = [span_counts(one, other, mode) for one, other in zip(predicted, gold, strict=True)]
    hits, guessed, wanted = (
        (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0)
    )
    return f1(hits, guessed, wanted)


def span_counts(
    predicted: Sequence[str], gold: Sequence[str], mode: SpanMode = "strict"
) -> tuple[int, int, int]:
    """The number of hits, predicted and gold entities of one sentence."""
    mine, right = set(spans(predicted, mode)), set(spans(gold, mode))
    return len(mine & right), len(mine), len(right)


def perplexity(nats: float, tokens: float) -> float:
    """Perplexity: e to the power of the mean loss per token; infinite on overflow."""
    mean = nats / max(tokens, 1)
    return math.exp(mean) if mean < 700 else math.inf


def bits_per_character(nats: float, characters: float) -> float:
    """The loss over all tokens in bits, divided by the characters of the text."""
    return nats / math.log(2) / max(characters, 1)


def translation_metrics() -> tuple["BLEU", "CHRF"]:
    """BLEU and chrF with sacrebleu's defaults."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return BLEU(), CHRF()


def translation(
    predicted: Sequence[str], gold: Sequence[str]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """BLEU, chrF and the fraction of exact matches of detokenised translations, computed with
    sacrebleu (cased, one reference each); also returns the metric signatures."""
    numbers, notes = dict[str, float](), list[str]()
    for name, metric in zip(("bleu", "chrf"), translation_metrics(), strict=True):
        numbers[name] = metric.corpus_score(list(predicted), [list(gold)]).score
        notes.append(f"{name}: {metric.get_signature()}")
    return numbers | {"exact_match": accuracy(predicted, gold)}, tuple(notes)


def corpus_sums(
    metric: "SacrebleuMetric", predicted: Sequence[str], gold: Sequence[str]
) -> tuple[list[list[float]], Callable[[NDArray[np.float64]], float]]:
    """Return the counts of each sentence, and a function that computes the metric from the sum of
    these counts. sacrebleu has no public methods for this; its own significance tests use the same
    private ones."""
    counts = metric._extract_corpus_statistics(list(predicted), [list(gold)])
    return counts, lambda sums: float(metric._compute_score_from_stats(sums.tolist()).score)


def r_squared(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """R², 1 - squared error / variance: 1 is perfect, 0 is as good as predicting the mean."""
    mean = sum(gold) / max(len(gold), 1)
    error = sum((p - g) ** 2 for p, g in zip(predicted, gold, strict=True))
    spread = sum((g - mean) ** 2 for g in gold)
    return 1 - error / spread if spread else 0.0


def r_squared_of_sums(sums: NDArray[np.float64]) -> float:
    """R² from the sums of squared errors, counts, gold values and their squares."""
    error, count, total, squares = sums.tolist()
    spread = squares - total**2 / max(count, 1)
    return 1 - error / spread if spread > 0 else 0.0


def pearson(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """Pearson's correlation; 0 if either side is constant."""
    return statistics.correlation(predicted, gold) if _vary(predicted) and _vary(gold) else 0.0


def spearman(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """Spearman's correlation: Pearson's correlation of the ranks."""
    return pearson(_ranks(predicted), _ranks(gold))


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of their ranks."""
    places: dict[float, list[int]] = {}
    for rank, value in enumerate(sorted(values), start=1):
        places.setdefault(value, []).append(rank)
    return [statistics.fmean(places[value]) for value in values]


def _vary(values: Sequence[float]) -> bool:
    return len({*values}) > 1
