"""Which texts a model finds hardest: the loss of each, with the right answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from translucid.models.base import Network
from translucid.tasks.base import Task


@dataclass(frozen=True)
class Measured:
    """A text with its right answer, and how far the model is from it."""

    text: str
    target: str | None
    loss: float  # nats for each target
    targets: int  # how many of them count


def measured(network: Network, task: Task[Any, Any], text: str, target: str | None) -> Measured:
    """The loss of one text, as `evaluate` has it."""
    example = task.example(text, target)
    with torch.no_grad():
        outputs = network(**example.inputs_for(network))
    targets = example.batch.targets.to(outputs.device)
    count = int(task.outputs.counts(targets).sum())
    loss = float(task.outputs.summed_loss(outputs, targets)) / max(count, 1)
    return Measured(text, target, loss if count else float("nan"), count)


def hardest(
    network: Network, task: Task[Any, Any], texts: Iterable[tuple[str, str | None]]
) -> list[Measured]:
    """All of them, the largest loss first."""
    losses = [measured(network, task, *pair) for pair in texts]
    return sorted(losses, key=lambda one: -one.loss)
