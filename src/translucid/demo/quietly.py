"""Training for a report: the loop that trains every model, with nothing shown or written down."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from translucid.tasks.base import Score, Task
from translucid.tasks.batch import Batch
from translucid.training.config import TrainingConfig
from translucid.training.loop import Watchers, train
from translucid.training.state import State


def train_quietly(
    network: nn.Module,
    task: Task[Any, Any],
    batches: Iterator[Batch],  # endless
    held_out: Sequence[Any],
    config: TrainingConfig,
) -> Score:
    """Train in place and return the score at the end; random draws elsewhere stay as they were."""
    scores: list[Score] = []
    watchers = Watchers(evaluated=lambda network, score, best: scores.append(score))
    once = config.model_copy(update={"evaluate_every": config.steps})
    with torch.random.fork_rng(devices=[]):
        train(State(network, once), task, batches, held_out, once, watchers)
    return scores[-1]
