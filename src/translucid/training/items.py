"""Records into items, and items into an endless stream of batches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from translucid.data.batching import Plan, plan_batches
from translucid.errors import InputError
from translucid.tasks.base import Batch, Task
from translucid.tasks.language import Language
from translucid.training.recipe import DataConfig, Recipe


def training_items(
    task: Task[Any, Any], records: Sequence[Any], data: DataConfig, say: Callable[[str], None]
) -> list[Any]:
    """Items no longer than the recipe allows; what was done to longer ones is said."""
    if isinstance(task, Language):
        return list(task.rows(records, data.max_length))
    items: list[Any] = []
    long = 0
    for record in records:
        item = task.encode(record)
        if max(task.sizes(item)) <= data.max_length:
            items.append(item)
            continue
        long += 1
        if data.long == "truncate":
            items.append(task.shorten(item, data.max_length))
        elif data.long == "split":
            items += task.split(item, data.max_length)
    if long:
        done = {"skip": "left out", "truncate": "cut off there", "split": "cut into parts"}
        say(
            f"{long:,} of {len(records):,} training examples have over {data.max_length} tokens: "
            f"{done[data.long]} (data.max_length, data.long)"
        )
    if not items:
        raise InputError(
            f"all {long:,} training examples have over data.max_length = {data.max_length} tokens, "
            'so none is left; raise it, or set data.long = "truncate"'
        )
    return items


def held_out_items(task: Task[Any, Any], records: Sequence[Any], data: DataConfig) -> list[Any]:
    """Every example whole, however long: a score counts all of them."""
    if isinstance(task, Language):
        return list(task.rows(records, data.max_length)) if records else []
    return [task.encode(record) for record in records]


def epoch_plan(task: Task[Any, Any], items: Sequence[Any], recipe: Recipe, epoch: int) -> Plan:
    """The batches of an epoch: a function of the items' sizes, the seed and the epoch alone."""
    training = recipe.training
    sizes = [task.sizes(item) for item in items]
    return plan_batches(sizes, training.batch_tokens, seed=training.seed, epoch=epoch)


def endless(task: Task[Any, Any], items: Sequence[Any], recipe: Recipe) -> Iterator[Batch]:
    """Epoch after epoch, each in its own order."""
    epoch = 0
    while True:
        for batch in epoch_plan(task, items, recipe, epoch).batches:
            yield task.collate([items[i] for i in batch])
        epoch += 1
