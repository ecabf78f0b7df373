"""Items as an endless stream of batches."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from translucid.data.batching import Plan, plan_batches
from translucid.data.streams import plan_streams
from translucid.errors import ConfigError
from translucid.recipe.recipe import Recipe
from translucid.tasks.base import Task
from translucid.tasks.batch import Batch
from translucid.tasks.in_batches import sizes_of
from translucid.training.batch_shapes import few, in_few_shapes
from translucid.training.distributed import ALONE, Processes


def epoch_plan(task: Task[Any, Any], items: Sequence[Any], recipe: Recipe, epoch: int) -> Plan:
    """The batches of an epoch: a function of the items' sizes, the seed and the epoch alone."""
    return _plan(sizes_of(task, items), recipe, epoch)


def _plan(sizes: NDArray[np.int64], recipe: Recipe, epoch: int) -> Plan:
    training = recipe.training
    tokens = int(sizes.sum())
    if training.cuda_graphs is True:
        sizes = few(sizes, int(sizes.max()))
    largest = int(sizes.sum(axis=1).max())
    if largest > training.batch_tokens:
        raise ConfigError(
            f"training.batch_tokens = {training.batch_tokens}: an example has {largest:,} tokens; "
            "raise it, or lower data.max_length"
        )
    if training.carry_state:
        return plan_streams(sizes, training.batch_tokens, seed=training.seed, epoch=epoch)
    plan = plan_batches(sizes, training.batch_tokens, seed=training.seed, epoch=epoch)
    return replace(plan, tokens=tokens)


class Stream:
    """Batches without end: epoch after epoch, each in its own order."""

    def __init__(
        self, task: Task[Any, Any], items: Sequence[Any], recipe: Recipe, *,
        processes: Processes = ALONE, batches: int = 0, epoch: int = 0, index: int = 0,
    ) -> None:  # fmt: skip
        """Begin after so many batches, of which `index` were taken in this epoch."""
        self._processes = processes
        self._task, self._items, self._recipe = task, items, recipe
        self._epoch, self._index = epoch, index
        self._starts = {epoch: batches - index}  # how many batches came before each epoch
        self._sizes = sizes_of(task, items)  # kept: to ask all items takes longer than to plan
        self._max_length = int(self._sizes.max())
        self._begin_epoch()

    def __iter__(self) -> "Stream":
        return self

    def _begin_epoch(self) -> None:
        self._plan = _plan(self._sizes, self._recipe, self._epoch)
        # Known from now on, so that `place` does not depend on how far ahead a thread has read.
        # A run that goes on with larger batches may stand behind the last one of its epoch.
        taken = max(len(self._plan.batches), self._index)
        self._starts[self._epoch + 1] = self._starts[self._epoch] + taken

    def __next__(self) -> Batch:
        if self._index >= len(self._plan.batches):
            self._epoch, self._index = self._epoch + 1, 0
            self._begin_epoch()
        chosen, first = self._plan.batches[self._index], self._index == 0
        self._index += 1
        batch = self._collate_own_rows([self._items[i] for i in chosen])
        training = self._recipe.training
        if training.carry_state:
            return replace(batch, first=first)
        if training.cuda_graphs is not True:
            return batch
        return in_few_shapes(
            batch, training.batch_tokens, self._max_length, processes=self._processes.count
        )

    @property
    def most_rows(self) -> int:
        """Of the largest batch."""
        return max(map(len, self._plan.batches))

    def _collate_own_rows(self, items: Sequence[Any]) -> Batch:
        """This process's rows of a batch; its count is that of all rows."""
        if self._processes.count == 1:
            return self._task.collate(items)
        mine = items[self._processes.rank :: self._processes.count]
        batch = self._task.collate(mine or items[:1])
        count = sum(self._task.targets(item) for item in items)
        return replace(batch, count=count, idle=not mine)

    def place(self, batches: int) -> dict[str, int]:
        """Where the stream stood after so many batches; a new stream can begin there."""
        starts = self._starts.copy()  # a thread that reads ahead may add to it
        epoch = max(e for e, start in starts.items() if start <= batches)
        return {"batches": batches, "epoch": epoch, "index": batches - self._starts[epoch]}
