"""The registry of tasks, and the decorator `@task`."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, overload

from translucid.core.errors import ConfigError
from translucid.core.registry import Registry, place_of

# A subclass of `tasks.base.Task`. That module is not imported here: it imports options, which use
# this registry, and the command line's help needs the names without waiting for torch.
TaskClass = TypeVar("TaskClass", bound=type[Any])

NEEDED = ("metric", "higher_is_better", "shape", "head")  # attributes that every task must set


def _check(cls: type[Any]) -> None:
    """Raise an error if a task class lacks a method or an attribute; the error describes it."""
    lacking = sorted(getattr(cls, "__abstractmethods__", ()))
    if not any("read" in vars(base) for base in cls.__mro__ if base.__name__ != "Task"):
        lacking = ["read", *lacking]  # not abstract: tasks that are not trained here need no files
    if lacking:
        methods = "; ".join(_described(cls, name) for name in lacking)
        raise ConfigError(f"{place_of(cls)} lacks {methods}")
    for name in NEEDED:
        if not hasattr(cls, name):
            raise ConfigError(
                f"{place_of(cls)} lacks the attribute {name}; docs/guides/extend.md describes it"
            )


def _described(cls: type, name: str) -> str:
    """Describe a method: `loss(self, model, batch) -> Tensor: The summed loss of a batch.`"""
    method = inspect.getattr_static(cls, name)
    function = getattr(method, "__func__", method)
    names = ", ".join(inspect.signature(function).parameters)
    result = inspect.signature(function).return_annotation
    summary = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
    kind = result if isinstance(result, str) else getattr(result, "__name__", str(result))
    return f"{name}({names}), which must return {kind}: {summary}"


TASKS: Registry[type[Any]] = Registry(
    "task",
    {
        name: f"translucid.tasks.{name}"
        for name in (
            "regress",
            "table",
            "language",
            "classify",
            "tag",
            "translate",
            "fill",
            "embed",
        )
    },
    _check,
    not_for_recipes={"fill": "models for task fill come from other tools and are not trained here"},
)
TaskName = Annotated[str, TASKS]


@overload
def task(named: TaskClass) -> TaskClass: ...
@overload
def task(named: str) -> Callable[[TaskClass], TaskClass]: ...
def task(named: Any) -> Any:
    """Register a task: `@task("name")`, or `@task` if the class defines `name`."""
    if isinstance(named, str):

        def register(cls: Any) -> Any:
            cls.name = named
            TASKS.add(named, cls)
            return cls

        return register
    TASKS.add(getattr(named, "name", ""), named)
    return named
