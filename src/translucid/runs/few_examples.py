"""A score on few examples says little: a warning before training."""

from collections.abc import Sequence
from typing import Any

from translucid.tasks.base import Task
from translucid.tasks.options import DataConfig

FEW = 100  # examples; below, 95 of 100 right may as well be 89 or 98
DEVIATIONS = 1.96  # of a normal distribution, for 95 %


def are_few(task: Task[Any, Any], items: Sequence[Any]) -> bool:
    """Rows of running text are scored token by token, and those are many."""
    return not task.running_text and task.count_examples(items) < FEW


def warning(task: Task[Any, Any], valid: Sequence[Any], data: DataConfig) -> str:
    """What is said before training, where the validation data are few; else nothing."""
    if not are_few(task, valid):
        return ""
    count = task.count_examples(valid)
    more = "--valid FILE" if data.toyland is None else f"--toyland {20 * FEW}"
    words = f"! the validation data are only {_counted(count)}: a score on them says little"
    if task.metric == "accuracy":
        lowest = lowest_of_all_right(count)
        words += f" ({count} of {count} right is an accuracy of {lowest:.2f} to 1, with 95 %)"
    return f"{words}; give more with {more}"


def lowest_of_all_right(count: int) -> float:
    """The lower end of Wilson's 95 % interval where all examples are right."""
    return count / (count + DEVIATIONS**2)


def _counted(count: int) -> str:
    return f"{count} example{'s'[: count - 1]}"
