"""The lab's one training loop against the loop of runs, and against descent written by hand."""

import math
from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from translucid.core.errors import TrainingError
from translucid.models.mlp import MLP, MLPConfig
from translucid.tasks.base import Score, Task
from translucid.tasks.batch import Batch
from translucid.tasks.score import Criterion
from translucid.training.config import TrainingConfig
from translucid.training.loop import TrainingProgress, Watchers, train
from translucid.training.optimizers import OptimizerName, ScheduleName
from translucid.training.state import State
from translucid_lab.engine.fit import FitStep, fit, random_rows


class SquaredError:
    """What the loop of runs asks of a task."""

    def criterion(self, metric: str | None) -> Criterion:
        return Criterion("none")

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        return (network(**batch.inputs) - batch.targets).square().sum()

    def evaluate(self, network: nn.Module, items: object) -> Score:
        return Score({"none": 0.0})


def net() -> MLP:
    torch.manual_seed(0)
    return MLP(MLPConfig(inputs=3, hidden=(5,)))


def batches() -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(1)
    while True:
        x = torch.randn(8, 3, generator=generator)
        yield Batch({"x": x}, x.sum(dim=1, keepdim=True).sin(), 8)


def weights(network: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(network.parameters()).detach()


@pytest.mark.parametrize(
    ("optimizer", "schedule", "warmup", "clip"),
    [
        ("adam", "constant", 0, 1e9),
        ("adam", "wsd", 3, 0.1),
        ("sgd", "linear", 0, 0.5),
        ("adamw", "cosine", 5, 1.0),
    ],
)
def test_steps_are_those_of_a_run(
    optimizer: OptimizerName, schedule: ScheduleName, warmup: int, clip: float
) -> None:
    config = TrainingConfig(
        steps=20, optimizer=optimizer, learning_rate=0.05, schedule=schedule, warmup=warmup,
        weight_decay=0.0, momentum=0.0, clip_norm=clip, evaluate_every=100, log_every=1,
        device="cpu",
    )  # fmt: skip
    seen: list[TrainingProgress] = []
    run, own = net(), net()
    task = cast("Task[Any, Any]", SquaredError())
    train(State(run, config), task, batches(), [], config, Watchers(progress=seen.append))
    drawn = batches()

    def loss() -> Tensor:
        batch = next(drawn)
        return SquaredError().loss(own, batch) / batch.count

    history = fit(
        own, loss, steps=20, learning_rate=0.05, optimizer=optimizer, betas=(0.9, 0.98),
        schedule=schedule, warmup=warmup, clip_norm=clip,
    )  # fmt: skip
    assert torch.allclose(weights(own), weights(run), atol=1e-6)
    assert not torch.allclose(weights(own), weights(net()), atol=1e-2)
    assert [step.loss for step in history] == pytest.approx([each.loss for each in seen])
    assert [step.norm for step in history] == pytest.approx([each.norm for each in seen])


def test_descent_by_hand() -> None:
    """Not clipped, and what needs no gradient stays where it is."""
    own, hand = net(), net()
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(2))
    frozen = own.output.linear.bias.requires_grad_(False)
    before = frozen.clone()
    history = fit(
        own, lambda: own(x).square().mean(), steps=3, learning_rate=0.5, optimizer="sgd",
        until=lambda step: step.done == 2,
    )  # fmt: skip
    moved = [each for each in hand.parameters() if each is not hand.output.linear.bias]
    for step in history:
        loss = hand(x).square().mean()
        assert step.loss == pytest.approx(loss.item())
        for weight, slope in zip(moved, torch.autograd.grad(loss, moved), strict=True):
            weight.data -= 0.5 * slope
    assert torch.allclose(weights(own), weights(hand), atol=1e-6)
    assert torch.equal(frozen, before)
    assert [step.done for step in history] == [1, 2]
    assert all(math.isnan(step.norm) for step in history)


def test_the_gradients_of_a_step_can_be_looked_at() -> None:
    own, seen = net(), []
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(2))
    weight = own.output.linear.weight

    def look(step: FitStep) -> bool:
        assert weight.grad is not None
        seen.append(weight.grad.clone())
        return False

    loss = own(x).square().mean()
    (slope,) = torch.autograd.grad(loss, weight)
    fit(own, lambda: own(x).square().mean(), steps=1, learning_rate=0.5, until=look)
    assert torch.allclose(seen[0], slope)


def test_a_gradient_that_is_no_number_is_not_taken() -> None:
    own = net()
    before = weights(own)
    with pytest.raises(TrainingError, match=r"step 0: the gradient norm is nan; lower"):
        fit(own, lambda: own(torch.ones(1, 3)).sum() * math.nan, steps=2, learning_rate=1.0,
            clip_norm=1.0)  # fmt: skip
    assert torch.equal(weights(own), before)


def test_rows_are_drawn_with_replacement() -> None:
    data = torch.arange(12).view(4, 3)
    rows = random_rows(data, 50, torch.Generator().manual_seed(0))
    chosen = torch.randint(4, (50,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(rows, data[chosen])
