"""Confidence intervals and significance tests for scores.

A metric that is a function of sums over examples can be computed for any sample of them. Intervals
are by percentile bootstrap (Koehn 2004), tests by approximate randomization (Riezler and Maxwell
2005), with the samples that sacrebleu draws for the same seed. The interval of the mean of a few
numbers, such as the scores of several seeds, is Student's t.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

SAMPLES, SEED = 1000, 12345  # the same as sacrebleu's
RARE = 0.05  # differences with a p-value below this are significant
CHUNK = 32  # samples drawn at once, one bit of a random word each
TIE = 1e-12  # relative differences of scores below this are rounding errors
PER_TOKEN = "per token of the model's own tokenizer"  # the unit of a loss

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """A metric that is a function of sums over examples.

    examples: an identifier of each example, such as its line number; rows: the terms of each
    example, (examples, terms).
    """

    examples: tuple[object, ...]
    rows: Floats
    metric: Callable[[Floats], float]

    def values(self, sums: Floats) -> Floats:
        """The metric for each row of sums: (samples, terms) -> (samples,)."""
        return np.array([self.metric(row) for row in sums])

    @property
    def value(self) -> float:
        """The metric over all examples."""
        return float(self.metric(self.rows.sum(axis=0)))


def of_lines(
    lines: Sequence[int],
    terms: Sequence[Sequence[float]] | Floats,
    metric: Callable[[Floats], float],
) -> Sums:
    """Build sums from one row of terms per item; items from the same line form one example."""
    numbers, places = np.unique(np.array(lines, dtype=np.int64), return_inverse=True)
    added = np.asarray(terms, dtype=np.float64)  # (items, terms)
    rows = np.zeros((len(numbers), added.shape[1]))
    np.add.at(rows, places, added)
    return Sums(tuple(numbers.tolist()), rows, metric)


def ratio(sums: Floats) -> float:
    """A metric: first term / second term, such as hits / total or loss / targets."""
    return float(sums[0] / sums[1]) if sums[1] else 0.0


def interval(sums: Sums, samples: int, seed: int) -> tuple[float, float]:
    """The 95 % bootstrap interval of the metric."""
    scores = np.sort(
        np.concatenate([sums.values(part) for part in _resampled(sums, samples, seed)])
    )
    tail = samples // 40
    return float(scores[tail]), float(scores[samples - tail - 1])


def standard_error(one: Sums, other: Sums, samples: int = SAMPLES, seed: int = SEED) -> float:
    """The standard error of the difference between two models on the same examples, by paired
    bootstrap."""
    drawn = ([*_resampled(sums, samples, seed)] for sums in (one, other))
    first, second = (
        np.concatenate([sums.values(part) for part in parts])
        for sums, parts in zip((one, other), drawn, strict=True)
    )
    return float(np.std(first - second, ddof=1))


def p_value(one: Sums, other: Sums, samples: int = SAMPLES, seed: int = SEED) -> float:
    """Two-sided p-value: the probability of a difference at least this large between equal
    models."""
    difference = abs(one.value - other.value)
    least = difference - TIE * max(abs(one.value), abs(other.value))
    random = np.random.default_rng(seed)
    reached = 0
    for count in _chunks(samples):
        swapped = random.integers(2, size=(count, len(one.rows)), dtype=bool)
        kept = ~swapped
        first = one.values(swapped @ one.rows + kept @ other.rows)
        second = other.values(kept @ one.rows + swapped @ other.rows)
        reached += int((~(np.abs(first - second) < least)).sum())  # NaN counts as reached
    return (reached + 1) / (samples + 1)


def _resampled(sums: Sums, samples: int, seed: int) -> Iterator[Floats]:
    """The sums (samples, terms) over examples drawn with replacement."""
    random, size = np.random.default_rng(seed), len(sums.rows)
    for count in _chunks(samples):
        drawn = random.choice(size, size=(count, size), replace=True)
        places = (drawn + size * np.arange(count)[:, None]).ravel()
        yield np.bincount(places, minlength=count * size).reshape(count, size) @ sums.rows


def _chunks(samples: int) -> Iterator[int]:
    for start in range(0, samples, CHUNK):
        yield min(CHUNK, samples - start)


def paired(sums: Sequence[Mapping[str, Sums]], metric: str) -> bool:
    """Whether all models have this metric for the same examples."""
    having = [by_metric[metric].examples for by_metric in sums if metric in by_metric]
    return len(having) == len(sums) and all(examples == having[0] for examples in having)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """The mean of at least two numbers, and the bounds of its confidence interval."""
    mean = fmean(values)
    error = stdev(values) / math.sqrt(len(values))
    reach = t_quantile((1 + confidence) / 2, len(values) - 1) * error
    return mean, mean - reach, mean + reach


def t_probability(t: float, freedom: int) -> float:
    """Student's cumulative distribution function, P(T <= t)."""
    tail = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2
    return 1 - tail if t > 0 else tail


@cache
def t_quantile(p: float, freedom: int) -> float:
    """The quantile of Student's distribution for probability p."""
    low, high = -1e6, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < p else (low, middle)
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), the regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction / a
