"""A head computed with rows to spare says what it says without them, and learns the same."""

import pytest
import torch
import torch.nn.functional as F

from translucid.parts.embedding import linear_in_eights


@pytest.mark.parametrize("rows", [8, 9, 15])
@pytest.mark.parametrize("biased", [False, True])
def test_linear_in_eights(rows: int, biased: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(rows, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(rows, dtype=torch.float64, requires_grad=True) if biased else None
    leaves = [t for t in (x, weight, bias) if t is not None]
    target = torch.randn(2, 3, rows, dtype=torch.float64)

    found, expected = linear_in_eights(x, weight, bias), F.linear(x, weight, bias)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad((found * target).sum(), leaves),
        torch.autograd.grad((expected * target).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
