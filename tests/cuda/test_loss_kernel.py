"""The cross-entropy kernel says what torch's own operations say, forward and backward."""

import pytest
import torch

from translucid.tasks.batch import IGNORE
from translucid.tasks.loss import cross_entropy, plain_cross_entropy

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("classes", [7, 8000, 10_001])
@pytest.mark.parametrize("cut", [False, True], ids=["whole rows", "rows of a wider table"])
def test_the_kernel_equals_the_plain_loss(classes: int, smoothing: float, cut: bool) -> None:
    torch.manual_seed(0)
    table = torch.randn(3, 5, classes + 8 * cut, device="cuda", dtype=torch.float32) * 3
    targets = torch.randint(1, classes, (3, 5), device="cuda")
    targets[0, 2] = targets[2, 4] = IGNORE
    gradients, losses = [], []
    for loss_of in (cross_entropy, plain_cross_entropy):
        logits = table.clone().requires_grad_()
        read = logits[..., :classes]
        flat = read.flatten(0, -2), targets.flatten()
        loss = loss_of(*flat, smoothing=smoothing, never=(0, 2))
        (loss * 0.25).backward()
        losses.append(loss)
        gradients.append(logits.grad)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
    assert cross_entropy(table[..., :classes], targets).grad_fn is None


def test_half_precision_is_rounded_once() -> None:
    """The sum is taken in float32, the gradient written in the precision of the logits."""
    torch.manual_seed(0)
    logits = (torch.randn(64, 3000, device="cuda") * 3).bfloat16().requires_grad_()
    targets = torch.randint(0, 3000, (64,), device="cuda")
    cross_entropy(logits, targets, smoothing=0.1).backward()
    exact = logits.detach().float().requires_grad_()
    plain_cross_entropy(exact, targets, smoothing=0.1).backward()
    assert torch.equal(logits.grad, exact.grad.bfloat16()) or torch.allclose(
        logits.grad.float(), exact.grad, rtol=2**-7, atol=1e-6
    )
