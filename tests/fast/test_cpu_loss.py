"""The loss that makes its gradient with it is the plain one, and so is its gradient."""

import pytest
import torch

from translucid.fast import cpu_loss
from translucid.fast.cpu_loss import SmoothedCrossEntropy
from translucid.tasks.batch import IGNORE
from translucid.tasks.loss import cross_entropy, plain_cross_entropy


@pytest.mark.parametrize("never", [(), (0,), (0, 3, 7)])
@pytest.mark.parametrize("ignored", [0, 4])
def test_loss_and_gradient_are_those_of_the_plain_twin(
    never: tuple[int, ...], ignored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_loss, "CHUNK", 64)  # 4 rows at a time, and fewer in the end
    torch.manual_seed(0)
    logits = (5 * torch.randn(21, 16)).requires_grad_()
    targets = torch.randint(8, 16, (21,))
    targets[:ignored] = IGNORE
    losses = [
        SmoothedCrossEntropy.apply(logits, targets, 0.1, never, IGNORE),
        plain_cross_entropy(logits, targets, smoothing=0.1, never=never),
    ]
    torch.testing.assert_close(*losses)
    gradients = [torch.autograd.grad(3.5 * loss, logits) for loss in losses]
    torch.testing.assert_close(*gradients)


def test_it_is_used_where_the_logits_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    plain = SmoothedCrossEntropy.apply

    def seen(logits: torch.Tensor, *args: object) -> torch.Tensor:
        used.append(logits.numel())
        return plain(logits, *args)

    monkeypatch.setattr(SmoothedCrossEntropy, "apply", seen)
    for rows, smoothing, wanted in ((64, 0.1, True), (64, 0.0, False), (63, 0.1, False)):
        used.clear()
        logits = torch.randn(rows, 2**14, requires_grad=True)
        targets = torch.arange(rows)
        loss = cross_entropy(logits, targets, smoothing=smoothing)
        expected = plain_cross_entropy(logits, targets, smoothing=smoothing)
        torch.testing.assert_close(loss, expected)
        assert bool(used) is wanted
        cross_entropy(logits.detach(), targets, smoothing=smoothing)
        assert len(used) == wanted
