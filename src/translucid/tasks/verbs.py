"""What a model for each task is asked to do."""

from typing import Any

from translucid.errors import InputError
from translucid.tasks.base import Task

VERBS = {"translate": "translate", "classify": "classify", "tag": "tag",
         "language": "generate", "regress": "predict"}  # fmt: skip


def expect(task: Task[Any, Any], *kinds: type[Any]) -> Any:
    """The task, if it is of one of these kinds; otherwise what its models can do is said."""
    if not isinstance(task, kinds):
        raise InputError(f"this model is for task {task.name}; use model.{VERBS[task.name]}")
    return task


def several(texts: Any) -> Any:
    """The texts, if they are a list."""
    if isinstance(texts, str):
        raise InputError(f"a list of texts is needed, not one text; write [{texts[:20]!r}]")
    return texts
