"""A head computed with rows to spare says what it says without them, and learns the same."""

import pytest
import torch
import torch.nn.functional as F
from tests.invariants.cases import random_text, randomised, transformer, whole

from translucid.fast.packed_linear import PaddedLinear, linear_in_eights, pad_heads
from translucid.models.base import Network


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


def loss_and_gradients(model: Network) -> tuple[torch.Tensor, list[torch.Tensor]]:
    loss = whole(model, random_text(model)).square().sum()
    return loss, list(torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize("tied", [False, True])
def test_a_padded_head_equals_the_plain_head(tied: bool) -> None:
    """The same numbers, gradients, names and weights: a checkpoint does not know."""
    model = randomised(transformer("decoder", tied=tied)).train()
    names, weights = list(model.state_dict()), [id(p) for p in model.parameters()]
    loss, gradients = loss_and_gradients(model)
    pad_heads(model)
    assert type(model.head.linear) is PaddedLinear
    assert model.head.linear.training
    assert list(model.state_dict()) == names
    assert [id(p) for p in model.parameters()] == weights
    after, padded = loss_and_gradients(model)
    torch.testing.assert_close(after, loss)
    for one, other in zip(padded, gradients, strict=True):
        torch.testing.assert_close(one, other)
