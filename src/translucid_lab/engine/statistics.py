"""Confidence intervals and tests for few seeds: exact if there is an exact one, else Student's t.

Student's t suits numbers that are roughly normal on a scale: raw, logarithms (sizes, times, ratios)
or log odds (fractions strictly between 0 and 1). Runs that either learn or do not are summarised by
the median, with order statistics, or by a fraction, with Clopper and Pearson's interval; both are
exact for any distribution. The bootstrap is too narrow for ten seeds; tests/lab/test_statistics.py
simulates how often each interval contains the true value.
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
MANY = 60  # number of tries above which a sum over all counts takes too long

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
    """Whether the scale applies to these numbers: logarithms require x > 0, log odds 0 < x < 1."""
    low = -math.inf if scale == "raw" else 0.0
    return bool(((values > low) & (values < (1.0 if scale == "logit" else math.inf))).all())


def t_interval(
    values: Array, scale: Scale = "raw", confidence: float = CONFIDENCE
) -> tuple[Array, Array, Array]:
    """The mean and the lower and upper bounds of its interval, computed on the scale and
    transformed back. Values are (..., seeds); each of the three results is (...)."""
    x = _TO[scale](np.asarray(values, dtype=float))
    count = x.shape[-1]
    mean, error = x.mean(axis=-1), x.std(axis=-1, ddof=1) / math.sqrt(count)
    reach = t_quantile((1 + confidence) / 2, count - 1) * error
    back = _FROM[scale]
    return back(mean), back(mean - reach), back(mean + reach)


def t_test(values: Sequence[float], bar: float, scale: Scale = "raw") -> float:
    """Two-sided p-value of Student's t test that the true mean equals the bar."""
    x = _TO[scale](np.asarray(values, dtype=float)) - float(_TO[scale](np.asarray(bar)))
    error = float(x.std(ddof=1)) / math.sqrt(len(x))
    if error == 0:
        return 1.0 if x[0] == 0 else 0.0
    t = float(x.mean()) / error
    return 2 * (1 - t_probability(abs(t), len(x) - 1))


# ---- counts ----


def at_least(successes: int, tries: int, p: float) -> float:
    """The probability of at least this many successes: a sum, or for many tries the incomplete
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
    """The exact confidence interval of a fraction of successes."""
    rest = (1 - confidence) / 2
    low = 0.0 if successes == 0 else _solve(lambda p: at_least(successes, tries, p) - rest)
    if successes == tries:
        return low, 1.0
    return low, _solve(lambda p: rest - (1 - at_least(successes + 1, tries, p)))


def binomial_test(successes: int, tries: int, p: float) -> float:
    """Two-sided p-value of the binomial test: twice the smaller tail."""
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
    """The median and the lower and upper bounds of its confidence interval, from order statistics
    (inverted sign test). The bounds are infinite for five seeds or fewer. Values are (..., seeds);
    each of the three results is (...)."""
    x = np.sort(np.asarray(values, dtype=float), axis=-1)
    count = x.shape[-1]
    middle = np.median(x, axis=-1)
    few = [k for k in range(count // 2) if binomial_test(k, count, 0.5) <= 1 - confidence]
    if not few:
        return middle, np.full_like(middle, -math.inf), np.full_like(middle, math.inf)
    return middle, x[..., few[-1]], x[..., count - 1 - few[-1]]


def sign_test(differences: Sequence[float]) -> float:
    """p-value of the sign test that the median is 0; zeros are ignored."""
    above, below = (sum(sign * x > 0 for x in differences) for sign in (1, -1))
    return binomial_test(above, above + below, 0.5) if above + below else 1.0


# ---- many at once ----


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted to control the family-wise error rate. Holm 1979."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, (len(p_values) - rank) * p_values[place])
        adjusted[int(place)] = min(1.0, largest)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted to control the false discovery rate. Benjamini & Hochberg 1995."""
    adjusted, smallest = [0.0] * len(p_values), 1.0
    order: Any = np.argsort(p_values, kind="stable")[::-1]
    for rank, place in enumerate(order):
        smallest = min(smallest, len(p_values) / (len(p_values) - rank) * p_values[place])
        adjusted[int(place)] = smallest
    return adjusted
