"""Steps out of steep sigmoids, and a staircase towards a smooth function.

Shapes: x (points,) in the tests, (points, 1) in the model.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from tests.worked.helpers import mlp, numbers, same


def staircase(steepness, jumps, heights):
    """Σ height · σ(steepness (x - jump)), as the product's MLP, on a vector of points."""
    jumps, heights = numbers(jumps), numbers(heights)
    model = mlp(
        (torch.full_like(jumps, steepness), -steepness * jumps),
        (heights, [0.0]),
        inputs=1,
        activation="sigmoid",
    )
    return lambda x: model(numbers(x)[:, None])[:, 0].detach()


def integral(f, edges):
    """The integral of f over the pieces between these edges, by Gauss's rule in each."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for low, high in itertools.pairwise(edges):
        middle, half = (low + high) / 2, (high - low) / 2
        total += half * float(f(middle + half * numbers(nodes)) @ numbers(weights))
    return total


ONE_STEP = {  # steepness: f_hat at seven points; L1 error; largest error 0.01 and more from 0.5
    10.0: (
        """0.006692850924284856 0.07585818002124356 0.47502081252106 0.5 0.52497918747894
        0.9241418199787566 0.9933071490757153""",
        0.13728636641416544,
        0.47502081252106,
    ),
    100.0: (
        """1.9287498479639178e-22 1.3887943864771146e-11 0.268941421369995 0.5 0.7310585786300051
        0.999999999986112 1""",
        0.013862943611198907,
        0.2689414213699951,
    ),
    1000.0: (
        """7.124576406741286e-218 2.6691902155412764e-109 4.539786870243399e-05 0.5
        0.9999546021312976 1 1""",
        0.0013862943611198907,
        4.5397868702434395e-05,
    ),
}


@pytest.mark.parametrize("steepness", ONE_STEP)
def test_w14_one_step(steepness):
    at_points, l1, away = ONE_STEP[steepness]
    f_hat = staircase(steepness, [0.5], [1.0])
    same(f_hat("0 0.25 0.49 0.5 0.51 0.75 1"), at_points, atol=0.0, rtol=1e-9)

    right = [0.5, *(0.5 + 2.0**-k for k in range(12, 0, -1))]  # finer towards the jump
    left = [1 - edge for edge in reversed(right)]
    error = integral(f_hat, left) + integral(lambda x: 1 - f_hat(x), right)
    assert error == pytest.approx(l1, abs=1e-9)

    # At the jump itself the output is 0.5 for every steepness, so the largest error stays 0.5.
    x = torch.linspace(0, 1, 1001, dtype=torch.float64)
    gap = (f_hat(x) - (x >= 0.5).double()).abs()
    same(gap.max(), 0.5)
    same(gap[(x - 0.5).abs() >= 0.01 - 1e-12].max(), away)


TWO_STEPS = {
    10.0: """4.540199100967078e-05 0.006693462728738707 0.5000907957374049 1.006692850924285
        1.9999546021312975 2.9866139922492034 2.9999092022014415""",
    100.0: "3.720075976020836e-44 1.9287498479639178e-22 0.5 1 2 3 3",
    1000.0: "0 7.124576406741286e-218 0.5 1 2 3 3",
}


@pytest.mark.parametrize("steepness", TWO_STEPS)
def test_w15_two_steps(steepness):
    found = staircase(steepness, "1 2", "1 2")("0 0.5 1 1.5 2 2.5 3")
    same(found, TWO_STEPS[steepness], atol=0.0, rtol=1e-9)
    if steepness > 10:
        # The source claims the limit 1 at both jumps; it is 0.5 at x = 1 and 2 at x = 2.
        same(found[[2, 4]], "0.5 2")
        assert not torch.isclose(found[[2, 4]], numbers("1 1")).any()


def test_w16_staircase_to_a_sine():
    x = torch.linspace(0, 1, 2001, dtype=torch.float64)
    errors = []
    for n in (4, 8, 16, 32, 64, 128):
        corners = torch.arange(n + 1, dtype=torch.float64) / n
        heights = torch.sin(2 * math.pi * corners).diff()
        f_hat = staircase(8.0 * n, corners[:-1] + 0.5 / n, heights)
        errors.append((f_hat(x) - torch.sin(2 * math.pi * x)).abs().max())
    same(
        torch.stack(errors),
        """0.2928116950935672 0.11597349978629534 0.054286290481253385
        0.02666766347642944 0.01325207468945891 0.006630245001021717""",
    )
