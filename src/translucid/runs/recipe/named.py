"""Find a recipe by what the user names: a task, a Python file with one, a recipe file, or a
shipped recipe; apply their data and settings."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from translucid.core import extensions
from translucid.core.config import unknown_key
from translucid.core.errors import ConfigError, InputError
from translucid.runs.recipe import recipe, shipped
from translucid.runs.recipe.recipe import Recipe, keys_by_section
from translucid.tasks.registry import TASKS


@dataclass(frozen=True)
class Named:
    recipe: Recipe
    by_task: bool  # what it leaves open is to be picked


def task_named(what: str) -> str | None:
    """The task of this name, or the one that a Python file registers; None: it is no task."""
    if not what.endswith(".py"):
        return what if TASKS.knows(what) else None
    names = TASKS.from_file(extensions.load(what))
    if len(names) != 1:
        raise InputError(
            f"{what}: registers {len(names)} tasks{': ' if names else ''}{', '.join(names)}; a "
            "file that is trained registers one, with @tl.task; others are named with --code"
        )
    return names[0]


def named(
    what: str,
    overrides: Iterable[str] = (),
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Named:
    """With changes as sections and keys, and over them overrides as they are typed."""
    changes = changes or {}
    task = task_named(what)
    if task is not None:
        values = {**changes, "task": {**changes.get("task", {}), "kind": task}}
        return Named(recipe.parse(values, overrides), by_task=True)
    path = shipped.find(what)
    data = changes.get("data", {})
    if not data.get("train"):
        return Named(recipe.read(path, overrides, changes), by_task=False)
    # What else the recipe names belongs to its own training data.
    others: dict[str, Any] = {"valid": [], "test": [], "folder": "", "toyland": None}
    chosen = recipe.read(path, overrides, {**changes, "data": others | {**data}})
    own = recipe.read(path).data
    left_out = {*own.valid, *own.test} - {*chosen.data.valid, *chosen.data.test}
    if left_out:
        say(
            f"--train: the recipe's own {', '.join(sorted(left_out))} left out, which belong "
            "to its own training data; name others with --valid and --test"
        )
    return Named(chosen, by_task=False)


def in_sections(changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """steps=300 is {"training": {"steps": 300}}; all mistakes are reported at once."""
    known = keys_by_section()
    result: dict[str, dict[str, Any]] = {}
    mistakes = []
    for name, value in changes.items():
        section, dot, key = name.partition(".")
        having = [other for other, keys in known.items() if name in keys]
        if dot:
            result.setdefault(section, {})[key] = value
        elif name in known:
            if isinstance(value, Mapping):
                result.setdefault(name, {}).update(value)
            else:
                mistakes.append(
                    f"{name} = {value!r}: a section is a dict of its keys, such as "
                    f"{name}={{{known[name][0]!r}: ...}}"
                )
        elif len(having) == 1:
            result.setdefault(having[0], {})[name] = value
        elif having:
            *some, last = (f"{section}={{{name!r}: ...}}" for section in having)
            mistakes.append(
                f"{name}: a key of several sections; say which: {', '.join(some)} or {last}"
            )
        else:
            mistakes.append(unknown_key(name, [key for keys in known.values() for key in keys]))
    if mistakes:
        raise ConfigError(*mistakes)
    return result
