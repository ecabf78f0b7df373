"""Handle examples longer than `data.max_length` and texts longer than a model can read."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import nn

from translucid.core.errors import CutText, InputError
from translucid.data.tokenizers.special_tokens import Frame
from translucid.tasks.base import Task
from translucid.tasks.options import DataConfig
from translucid.tasks.score import Coverage

Item = TypeVar("Item")


def text_limit(model: nn.Module, limit: int | None = None) -> int | None:
    """The number of tokens that a model reads, or `limit` if that is smaller. None if there is no
    limit."""
    context_length = getattr(getattr(model, "config", None), "context_length", None)
    return min((n for n in (context_length, limit) if n is not None), default=None)


def cut_to(task: Task[Any, Item], items: Sequence[Item], max_length: int | None) -> list[Item]:
    """Truncate items longer than `max_length` tokens, and warn with the number of such items."""
    if max_length is None:
        return list(items)
    long = sum(max(task.sizes(item)) > max_length for item in items)
    if long:
        texts = "1 text has" if long == 1 else f"{long:,} texts have"
        words = (
            f"{texts} more than the {max_length:,} tokens that this model reads: truncated; split "
            "long texts to use all of them"
        )
        warnings.warn(CutText(words, long), stacklevel=2)
    return [
        task.shorten(item, max_length) if max(task.sizes(item)) > max_length else item
        for item in items
    ]


def limit_length(
    task: Task[Any, Item],
    whole: Sequence[Item],
    data: DataConfig,
    part: str,
    say: Callable[[str], None],
) -> tuple[list[Item], Coverage]:
    """Skip, truncate or split items longer than data.max_length, and count them.

    part: training, validation or test, for the message that `say` receives.
    """
    long = data.long or task.long
    if part != "training" and long == "truncate" and task.long == "split":
        long = "split"  # if a task can split texts, score all of each text
    items: list[Item] = []
    longer: list[Item] = []
    for item in whole:
        if max(task.sizes(item)) <= data.max_length:
            items.append(item)
            continue
        longer.append(item)
        if long == "truncate":
            items.append(task.shorten(item, data.max_length))
        elif long == "split":
            items += task.split(item, data.max_length)
    count, special_tokens = task.count_examples(longer), _special_tokens(task)
    if longer and long != "skip" and data.max_length <= special_tokens:
        raise InputError(
            f"data.max_length = {data.max_length} leaves no room for the text between its "
            f"{special_tokens} special tokens; raise max_length"
        )
    if longer:
        done = {"skip": "left out", "truncate": "truncated", "split": "read in windows"}
        say(
            f"{count:,} of {task.count_examples(whole):,} {part} examples have over "
            f"{data.max_length} tokens: {done[long]} (data.max_length, data.long)"
        )
    if not items and whole:
        raise InputError(
            f"all {count:,} {part} examples have over data.max_length = {data.max_length} "
            'tokens, so none is left; raise max_length, or set data.long = "truncate"'
        )
    return items, Coverage(
        task.count_examples(items),
        {f"over {data.max_length} tokens": count} if longer and long == "skip" else {},
        truncated=count if long == "truncate" else 0,
        in_windows=count if long == "split" else 0,
        noun="row" if task.traits.running_text else "example",
    )


def _special_tokens(task: Task[Any, Any]) -> int:
    """The number of special tokens around each text that the task reads."""
    frame = getattr(task, "frame", None)
    return len(frame.prefix) + len(frame.suffix) if isinstance(frame, Frame) else 0
