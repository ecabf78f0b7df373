"""Linear models that are fitted to all examples at once."""

import torch

from translucid.models import LinearConfig, build
from translucid.models.linear import PENALTIES, ridge


def _data(examples: int = 40, noise: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(3)
    x = torch.randn(examples, 5, generator=random, dtype=torch.float64) * 3 + 1
    weight = torch.tensor([[1.0, -2.0, 0.0, 0.5, 3.0], [0.0, 1.0, 1.0, 0.0, 0.0]]).double()
    error = noise * torch.randn(examples, 2, generator=random, dtype=torch.float64)
    return x, x @ weight.T + torch.tensor([4.0, -1.0]) + error


def test_without_noise_the_fit_is_exact() -> None:
    x, y = _data(noise=0.0)
    network = build(LinearConfig(inputs=5, outputs=2)).double()
    network.fit([({"x": x[:20]}, y[:20]), ({"x": x[20:]}, y[20:])])
    torch.testing.assert_close(network(x=x), y, rtol=0, atol=1e-3)


def test_the_penalty_has_the_smallest_error_when_each_example_is_left_out() -> None:
    """The formula for the leave-one-out error equals fitting once without each example."""
    x, y = _data(12, noise=4.0)

    def fitted(rows: torch.Tensor, penalty: float) -> tuple[torch.Tensor, torch.Tensor]:
        # The same scale and centre for every fold, as in the formula's derivation.
        z = (x - x.mean(dim=0)) / x.std(dim=0, correction=0)
        a = torch.cat([z, torch.ones(len(x), 1)], dim=1)
        shrink = torch.diag(torch.tensor([penalty * len(x)] * 5 + [0.0]).double())
        kept = a[rows]
        return a, torch.linalg.solve(kept.T @ kept + shrink, kept.T @ y[rows])

    def error(penalty: float) -> float:
        total = 0.0
        for i in range(len(x)):
            a, solution = fitted(torch.tensor([j for j in range(len(x)) if j != i]), penalty)
            total += float((y[i] - a[i] @ solution).square().sum())
        return total

    best = min(PENALTIES, key=error)
    a, solution = fitted(torch.arange(len(x)), best)
    weight, bias = ridge(x, y)
    torch.testing.assert_close(x @ weight + bias, a @ solution)
