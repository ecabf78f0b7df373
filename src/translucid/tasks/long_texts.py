"""Texts that are longer than a model reads, where no target is lost with their end."""

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

from torch import nn

from translucid.core.errors import CutText
from translucid.tasks.base import Task

Item = TypeVar("Item")


def text_limit(model: nn.Module, limit: int | None = None) -> int | None:
    """How many tokens a model reads; limit: of the task, perhaps fewer. None: any number."""
    context_length = getattr(getattr(model, "config", None), "context_length", None)
    return min((n for n in (context_length, limit) if n is not None), default=None)


def cut_to(task: Task[Any, Item], items: Sequence[Item], max_length: int | None) -> list[Item]:
    """The items, of longer ones their beginning; a warning says how many those were."""
    if max_length is None:
        return list(items)
    long = sum(max(task.sizes(item)) > max_length for item in items)
    if long:
        texts = "1 text has" if long == 1 else f"{long:,} texts have"
        words = (
            f"{texts} more than the {max_length:,} tokens that this model reads: truncated, so "
            "that only the beginning was read; split long texts, if the rest matters"
        )
        warnings.warn(CutText(words, long), stacklevel=2)
    return [
        task.shorten(item, max_length) if max(task.sizes(item)) > max_length else item
        for item in items
    ]
