"""Student's t distribution: intervals for the mean of a few numbers."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """The mean of at least two numbers, and the bounds of its interval."""
    mean = fmean(values)
    error = stdev(values) / math.sqrt(len(values))
    reach = t_quantile((1 + confidence) / 2, len(values) - 1) * error
    return mean, mean - reach, mean + reach


def t_probability(t: float, freedom: int) -> float:
    """P(T <= t) of Student's distribution."""
    tail = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2
    return 1 - tail if t > 0 else tail


@cache
def t_quantile(p: float, freedom: int) -> float:
    """The t below which a fraction p of Student's distribution lies."""
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
