"""Intervals and tests for few seeds: exact where there is an exact one, Student's t elsewhere.

Student's t holds where numbers are spread about evenly on the scale it is taken on: as they are,
their logarithms (sizes, times, ratios) or their log odds (fractions strictly between 0 and 1).
Where runs either learn or do not, no mean says much: there the median, by order statistics, and
fractions by Clopper and Pearson, both exact for whatever distribution. The bootstrap is too narrow
for ten seeds; tests/lab/test_statistics.py simulates how often each interval holds the truth.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from translucid.tasks import incomplete_beta as incomplete_beta
from translucid.tasks import t_probability as t_probability
from translucid.tasks import t_quantile as t_quantile

Array = NDArray[np.float64]
Scale = Literal["raw", "log", "logit"]
CONFIDENCE = 0.95
MANY = 60  # tries, beyond which a sum over all counts takes too long

_TO: dict[Scale, Callable[[Array], Array]] = {
    "raw": lambda x: x,
    "log": lambda x: np.log(x),
    "logit": lambda x: np.log(x) - np.log1p(-x),
}
_FROM: dict[Scale, Callable[[Array], Array]] = {
    "raw": lambda x: x,
    "log": lambda x: np.exp(x),
    "logit": lambda x: 1 / (1 + np.exp(-x)),
}


# ---- Student's t ----


def on_scale(scale: Scale, values: Array) -> bool:
    """Can these numbers be taken there? Logarithms need what is above 0, log odds below 1 too."""
    low = -math.inf if scale == "raw" else 0.0
    return bool(((values > low) & (values < (1.0 if scale == "logit" else math.inf))).all())


def t_interval(
    values: Array, scale: Scale = "raw", confidence: float = CONFIDENCE
) -> tuple[Array, Array, Array]:
    """The mean on the scale, taken back from it, and its bounds. (..., seeds) -> three of (...)"""
    x = _TO[scale](np.asarray(values, dtype=float))
    count = x.shape[-1]
    mean, error = x.mean(axis=-1), x.std(axis=-1, ddof=1) / math.sqrt(count)
    reach = t_quantile((1 + confidence) / 2, count - 1) * error
    back = _FROM[scale]
    return back(mean), back(mean - reach), back(mean + reach)


def t_test(values: Sequence[float], bar: float, scale: Scale = "raw") -> float:
    """How likely a mean at the bar gives one as far from it, on either side."""
    x = _TO[scale](np.asarray(values, dtype=float)) - float(_TO[scale](np.asarray(bar)))
    error = float(x.std(ddof=1)) / math.sqrt(len(x))
    if error == 0:
        return 1.0 if x[0] == 0 else 0.0
    t = float(x.mean()) / error
    return 2 * (1 - t_probability(abs(t), len(x) - 1))


# ---- counts ----


def at_least(successes: int, tries: int, p: float) -> float:
    """The probability of at least so many successes: a sum, which for many tries is the incomplete
    beta function."""
    if successes <= 0 or successes > tries:
        return float(successes <= 0)
    if tries > MANY:
        return incomplete_beta(successes, tries - successes + 1, p)
    return sum(
        math.comb(tries, k) * p**k * (1 - p) ** (tries - k) for k in range(successes, tries + 1)
    )


def clopper_pearson(
    successes: int, tries: int, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The exact interval of a fraction of yes among yes and no."""
    rest = (1 - confidence) / 2
    low = 0.0 if successes == 0 else _solve(lambda p: at_least(successes, tries, p) - rest)
    if successes == tries:
        return low, 1.0
    return low, _solve(lambda p: rest - (1 - at_least(successes + 1, tries, p)))


def binomial_test(successes: int, tries: int, p: float) -> float:
    """How likely so many or fewer, or so many or more, are: the smaller, twice."""
    above, below = at_least(successes, tries, p), 1 - at_least(successes + 1, tries, p)
    return min(1.0, 2 * min(above, below))


def _solve(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


# ---- order ----


def median_interval(values: Array, confidence: float = CONFIDENCE) -> tuple[Array, Array, Array]:
    """The median, and the order statistics between which it lies: those that the sign test cannot
    tell from it. With five seeds or fewer there is no such pair. (..., seeds) -> three of (...)"""
    x = np.sort(np.asarray(values, dtype=float), axis=-1)
    count = x.shape[-1]
    middle = np.median(x, axis=-1)
    few = [k for k in range(count // 2) if binomial_test(k, count, 0.5) <= 1 - confidence]
    if not few:
        return middle, np.full_like(middle, -math.inf), np.full_like(middle, math.inf)
    return middle, x[..., few[-1]], x[..., count - 1 - few[-1]]


def sign_test(differences: Sequence[float]) -> float:
    """Do more seeds lie on one side of 0 than the toss of a coin would put there? What lies on it
    counts for neither."""
    above, below = (sum(sign * x > 0 for x in differences) for sign in (1, -1))
    return binomial_test(above, above + below, 0.5) if above + below else 1.0


def signed_rank_test(differences: Sequence[float]) -> float:
    """Wilcoxon's signed ranks, exact: how many ways of choosing signs give a sum as far from the
    middle. Equal sizes share their ranks; what is 0 counts for nothing."""
    x = np.array([value for value in differences if value != 0])
    if not len(x):
        return 1.0
    sizes = np.abs(x)
    twice = np.array([int((sizes < size).sum() + (sizes <= size).sum()) + 1 for size in sizes])
    ways = np.zeros(int(twice.sum()) + 1)  # of each sum of doubled ranks, which are whole
    ways[0] = 1
    for rank in twice:
        ways[rank:] += ways[: len(ways) - rank].copy()
    total = int(twice[x > 0].sum())
    tail = min(ways[: total + 1].sum(), ways[total:].sum()) / ways.sum()
    return min(1.0, 2 * float(tail))


# ---- many at once ----


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that whatever is at most 0.05 may be believed: one false among all of them has at
    most this probability. Holm 1979."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, (len(p_values) - rank) * p_values[place])
        adjusted[int(place)] = min(1.0, largest)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that, of whatever is at most q, a fraction of at most q is false, on average.
    Benjamini & Hochberg 1995."""
    adjusted, smallest = [0.0] * len(p_values), 1.0
    order: Any = np.argsort(p_values, kind="stable")[::-1]
    for rank, place in enumerate(order):
        smallest = min(smallest, len(p_values) / (len(p_values) - rank) * p_values[place])
        adjusted[int(place)] = smallest
    return adjusted
