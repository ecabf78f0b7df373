"""Which texts a model finds hardest: the loss of each, with the right answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from translucid.models.base import Network
from translucid.tasks.base import Task
from translucid.tasks.example import Example, inputs_for, padded

BATCH_TOKENS = 2048  # with their padding: no more logits than one long text has


@dataclass(frozen=True)
class Measured:
    """A text with its right answer, and how far the model is from it."""

    text: str
    target: str | None
    loss: float  # nats for each target
    targets: int  # how many of them count


def measured(
    network: Network, task: Task[Any, Any], texts: Sequence[tuple[str, str | None]]
) -> list[Measured]:
    """The loss of each text, as `evaluate` has it, in few batches."""
    losses = [
        loss
        for examples in _batches([task.example(*pair) for pair in texts])
        for loss in _losses(network, task, examples)
    ]
    return [Measured(*pair, *loss) for pair, loss in zip(texts, losses, strict=True)]


def _batches(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """In their order, as many at once as there is room for."""
    waiting: list[Example] = []
    for example in examples:
        length = max(one.tokens for one in (*waiting, example))
        room = example.can_be_padded and length * (len(waiting) + 1) <= BATCH_TOKENS
        if waiting and not (room and waiting[0].can_be_padded):
            yield waiting
            waiting = []
        waiting.append(example)
    if waiting:
        yield waiting


def _losses(
    network: Network, task: Task[Any, Any], examples: Sequence[Example]
) -> Iterator[tuple[float, int]]:
    """Nats for each target, and how many there are."""
    batch = padded(examples) if len(examples) > 1 else examples[0].batch
    with torch.no_grad():
        outputs = network(**inputs_for(network, batch))
    targets = batch.targets.to(outputs.device)
    for row in range(len(examples)):
        own, right = outputs[row : row + 1], targets[row : row + 1]
        count = int(task.outputs.counts(right).sum())
        loss = float(task.outputs.summed_loss(own, right)) / max(count, 1)
        yield loss if count else float("nan"), count


def hardest(
    network: Network, task: Task[Any, Any], texts: Sequence[tuple[str, str | None]]
) -> list[Measured]:
    """All of them, the largest loss first."""
    return sorted(measured(network, task, texts), key=lambda one: -one.loss)
