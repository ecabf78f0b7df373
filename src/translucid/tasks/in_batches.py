"""Evaluate many items in batches, report progress, and return results in the order of the items."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from translucid.core.progress import Progress
from translucid.data.batching import plan_batches
from translucid.fast.attention_kernels import without_plans
from translucid.models.base import evaluating
from translucid.tasks.batch import Batch
from translucid.tasks.outputs import Outputs

PAUSE = 10.0  # seconds between two lines of progress

_current: ContextVar[Progress | None] = ContextVar("evaluation progress", default=None)


@contextmanager
def reporting(
    say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Report the progress of long evaluations inside this context."""
    token = _current.set(Progress("examples", live=False, every=PAUSE, say=say, clock=clock))
    try:
        yield
    finally:
        _current.reset(token)


def advance(done: int, total: int) -> None:
    """Report that this many of the items are done. total: the number of all items."""
    progress = _current.get()
    if progress is None:
        return
    progress.total = total
    if done == total:  # another pass may follow
        progress.restart()
    else:
        progress.remark(f"evaluating: {done:,} of {total:,} examples{progress.left(done)}")


Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)


class Batched(Protocol[Item_contra]):
    """The methods of a task that are needed for batching."""

    def sizes(self, item: Item_contra) -> tuple[int, ...]: ...

    def collate(self, items: Sequence[Item_contra]) -> Batch: ...

    @property
    def outputs(self) -> Outputs: ...


class LazyItems(Sequence[Item]):
    """Items that are created on access; their sizes are known in advance."""

    sizes: NDArray[np.int64]  # (items, sides)


def sizes_of(task: Batched[Item], items: Sequence[Item]) -> NDArray[np.int64]:
    """The sizes of all items: (items, sides)."""
    if isinstance(items, LazyItems):
        return items.sizes
    sizes = np.array([task.sizes(item) for item in items], dtype=np.int64)
    return sizes.reshape(len(items), -1) if len(items) else sizes.reshape(0, 1)


@torch.no_grad()
def in_batches(
    model: nn.Module,
    items: Sequence[Item],
    task: Batched[Item],
    act: Callable[[Batch], Sequence[Any]],
    batch_tokens: int = 8192,
) -> list[Any]:
    """One result per item, in the order of the items; computed in batches, longest items first."""
    if not items:
        return []
    device = next(model.parameters()).device
    results: list[Any] = [None] * len(items)
    sizes = sizes_of(task, items)
    budget = max(batch_tokens, int(sizes.sum(axis=1).max()))  # the longest item must fit
    done = 0
    with evaluating(model), without_plans(device):
        for places in plan_batches(sizes, budget, shuffle=False).batches:
            batch = task.collate([items[i] for i in places]).to(device)
            for place, result in zip(places, act(batch), strict=True):
                results[place] = result
            done += len(places)
            advance(done, len(items))
    return results


def item_losses(model: nn.Module, items: Sequence[Item], task: Batched[Item]) -> list[float]:
    """-Σ log p(target) of each item, without smoothing."""

    def act(batch: Batch) -> list[float]:
        losses = task.outputs.losses(model(**batch.inputs).float(), batch.targets)
        values: list[float] = losses.view(len(batch.lines), -1).double().sum(dim=1).tolist()
        return values

    return in_batches(model, items, task, act)


def summed_loss(model: nn.Module, items: Sequence[Item], task: Batched[Item]) -> float:
    """-Σ log p(target) over all items, without smoothing."""

    def act(batch: Batch) -> list[float]:
        total = float(task.outputs.summed_loss(model(**batch.inputs), batch.targets))
        return [total] + [0.0] * (len(batch.lines) - 1)  # stored as the result of the first item

    return float(sum(in_batches(model, items, task, act)))
