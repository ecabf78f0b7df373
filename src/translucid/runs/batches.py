"""The stream of training batches."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from translucid.core.errors import ConfigError
from translucid.data.batching import BatchPlan, plan_batches, plan_streams
from translucid.data.packing import PackedPlan, Packing
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.base import Task
from translucid.tasks.batch import Batch
from translucid.tasks.in_batches import sizes_of
from translucid.tasks.registry import TASKS
from translucid.training.cuda_graphs import few, in_few_shapes, without_needless_masks
from translucid.training.distributed import ALONE, Processes


def shared_rows(task: Task[Any, Any], items: Sequence[Any], recipe: Recipe) -> Packing | None:
    """The packing of items into shared rows; None if packing is off."""
    if recipe.training.packing is not True:
        return None
    return Packing(sizes_of(task, items), recipe.training.batch_tokens)


def epoch_plan(
    task: Task[Any, Any],
    items: Sequence[Any],
    recipe: Recipe,
    epoch: int,
    packing: Packing | None = None,
) -> BatchPlan:
    """Plan the batches of an epoch; the plan depends only on the items' sizes, the seed and the
    epoch. packing: the packing of the items into rows, if known already."""
    packing = packing or shared_rows(task, items, recipe)
    if packing is not None:
        return packing.plan(recipe.training.seed, epoch)
    return _plan(sizes_of(task, items), recipe, epoch)


def _plan(sizes: NDArray[np.int64], recipe: Recipe, epoch: int) -> BatchPlan:
    training = recipe.training
    tokens = int(sizes.sum())
    if training.cuda_graphs is True:
        sizes = few(sizes, int(sizes.max()))
    largest = int(sizes.sum(axis=1).max())
    if largest > training.batch_tokens:
        raise ConfigError(
            f"training.batch_tokens = {training.batch_tokens}: an example has {largest:,} tokens; "
            "raise batch_tokens, or lower data.max_length"
        )
    if training.carry_state:
        return plan_streams(sizes, training.batch_tokens, seed=training.seed, epoch=epoch)
    plan = plan_batches(sizes, training.batch_tokens, seed=training.seed, epoch=epoch)
    return replace(plan, tokens=tokens)


class Stream:
    """An endless iterator over batches; each epoch has a different order."""

    def __init__(
        self, task: Task[Any, Any], items: Sequence[Any], recipe: Recipe, *,
        processes: Processes = ALONE, packing: Packing | None = None,
        batches: int = 0, epoch: int = 0, index: int = 0,
    ) -> None:  # fmt: skip
        """Start after `batches` batches, `index` of them in this epoch. packing: the packing of the
        items into rows, if known already."""
        self._processes = processes
        self._task, self._items, self._recipe = task, items, recipe
        self._epoch, self._index = epoch, index
        self._starts = {epoch: batches - index}  # number of batches before each epoch
        self._sizes = sizes_of(task, items)  # kept: slower to compute than a plan
        self._max_length = int(self._sizes.max())
        # If all texts have the same length, no mask is needed.
        self._full = bool((self._sizes == self._sizes[:1]).all())
        self._packing = packing or shared_rows(task, items, recipe)
        self._packed = None if self._packing is None else task.packed(items)
        self._begin_epoch()

    def __iter__(self) -> "Stream":
        return self

    def _begin_epoch(self) -> None:
        if self._packing is not None:
            self._plan: BatchPlan = self._packing.plan(self._recipe.training.seed, self._epoch)
        else:
            self._plan = _plan(self._sizes, self._recipe, self._epoch)
        # Set now, so that `place` does not depend on how far ahead a thread has read. A run resumed
        # with larger batches may be past the last batch of its epoch.
        taken = max(len(self._plan.batches), self._index)
        self._starts[self._epoch + 1] = self._starts[self._epoch] + taken

    def __next__(self) -> Batch:
        if self._index >= len(self._plan.batches):
            self._epoch, self._index = self._epoch + 1, 0
            self._begin_epoch()
        index, first = self._index, self._index == 0
        self._index += 1
        if isinstance(self._plan, PackedPlan):
            return self._collate_packed(self._plan.rows[index])
        chosen = self._plan.batches[index]
        batch = self._collate_own_rows([self._items[i] for i in chosen])
        training = self._recipe.training
        if training.carry_state:
            return replace(batch, first=first)
        if training.cuda_graphs is not True:
            # A user's task may rely on masks; compiled layers would be compiled twice.
            ours = TASKS.source(self._task.name) is None and training.compile is not True
            return without_needless_masks(batch) if ours else batch
        return in_few_shapes(
            batch, training.batch_tokens, self._max_length, processes=self._processes.count,
            causal=(self._task.shape, self._task.head) == ("decoder", "language"),
            full=self._full,
        )  # fmt: skip

    @property
    def one_shape(self) -> bool:
        """Whether all batches have the same shape, so that compiled code needs no dynamic
        shapes."""
        if self._packing is not None:
            return True
        return self._recipe.training.cuda_graphs is True and self._plan.shapes == 1

    @property
    def most_rows(self) -> int:
        """The number of rows of the largest batch."""
        return max(map(len, self._plan.batches))

    def _collate_own_rows(self, items: Sequence[Any]) -> Batch:
        """Collate this process's rows of a batch. `count` is the number of targets in the rows of
        all processes."""
        if self._processes.count == 1:
            return self._task.collate(items)
        mine = items[self._processes.rank :: self._processes.count]
        batch = self._task.collate(mine or items[:1])
        count = sum(self._task.targets(item) for item in items)
        return replace(batch, count=count, idle=not mine)

    def _collate_packed(self, rows: Sequence[NDArray[np.int64]]) -> Batch:
        """Collate this process's packed rows, the same number in every batch. `count` is the number
        of targets in the rows of all processes."""
        assert self._packing is not None
        assert self._packed is not None
        processes, lengths = self._processes, self._packing.lengths
        mine = rows[processes.rank :: processes.count]
        count = -(-self._packing.rows // processes.count)
        batch = self._packed.collate(mine or rows[:1], count, lengths)
        if processes.count == 1:
            return batch
        targets = sum(self._task.targets(self._items[i]) for row in rows for i in row)
        return replace(batch, count=targets, idle=not mine)

    def place(self, batches: int) -> dict[str, int]:
        """The position after this many batches, as arguments for a new stream."""
        starts = self._starts.copy()  # a thread that reads ahead may add to it
        epoch = max(e for e, start in starts.items() if start <= batches)
        return {"batches": batches, "epoch": epoch, "index": batches - self._starts[epoch]}
