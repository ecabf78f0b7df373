"""What a model is asked must be what it was trained for."""

from collections.abc import Sequence
from typing import Any, TypeVar

from translucid.core.errors import InputError, WrongTaskError
from translucid.tasks.base import Task
from translucid.tasks.registry import TASKS

Item = TypeVar("Item")


def expect(task: Task[Any, Any], *names: str) -> Any:
    """Return the task if it is one of these, or derived from one; otherwise raise an error that
    shows how to use its models."""
    if not isinstance(task, tuple(TASKS[name] for name in names)):
        raise WrongTaskError(task.name, task.command)
    return task


def check_task(task: Task[Any, Any], name: str) -> None:
    """Refuse a model that was trained for another task than the one of this name."""
    if task.name != name:
        raise WrongTaskError(task.name, task.command)


def several(texts: Sequence[Item]) -> Sequence[Item]:
    """The texts, if they are a list of them."""
    if isinstance(texts, str):
        shown = repr(texts) if len(texts) <= 60 else "text"  # half a text would be another one
        raise InputError(f"a list of texts is needed, not one text; write [{shown}]")
    return texts
