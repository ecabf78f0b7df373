"""Find a recipe by name: a task, a Python file with a task, a recipe file, or a shipped recipe."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.core import extensions
from translucid.core.config import unknown_key, with_overrides
from translucid.core.errors import ConfigError, InputError, nearest
from translucid.runs.recipe import recipe
from translucid.runs.recipe.automatic_sizes import with_picks
from translucid.runs.recipe.recipe import Recipe, keys_by_section
from translucid.tasks.registry import TASKS

_PACKAGE = Path(__file__).parents[2]
# In an installed package, or beside `src` in a checkout.
FOLDER = next(f for f in (_PACKAGE / "recipes", _PACKAGE.parents[1] / "recipes") if f.is_dir())


@dataclass(frozen=True)
class Entry:
    name: str
    path: Path
    title: str  # the first line of its comment


def entries() -> list[Entry]:
    """All shipped recipes, by name."""
    paths = sorted(FOLDER.glob("*.toml"))
    return [Entry(path.stem, path, header(path.read_text("utf-8"))[0]) for path in paths]


def header(text: str) -> list[str]:
    """The comment at the top of a recipe."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("#:"):  # a line for editors
            lines.append(line.removeprefix("#").removeprefix(" "))
    return lines or [""]


def find(name: str | Path) -> Path:
    """A recipe file, or the shipped recipe of that name."""
    if Path(name).is_file():
        return Path(name)
    names = [entry.name for entry in entries()]
    if str(name) in names:
        return FOLDER / f"{name}.toml"
    close = nearest(str(name), [*TASKS.names(), *names])
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    tasks = ", ".join(TASKS.names())
    raise InputError(
        f"no such recipe: {name}; {hint}give a TOML file, a task ({tasks}), or a shipped recipe "
        "(see `translucid recipe list`)"
    )


@dataclass(frozen=True)
class Named:
    recipe: Recipe
    by_task: bool  # unset keys are to be chosen


def task_named(what: str) -> str | None:
    """The task of this name, or the one that a Python file registers; None if neither."""
    if not what.endswith(".py"):
        return what if TASKS.knows(what) else None
    names = TASKS.from_file(extensions.load(what))
    if len(names) != 1:
        raise InputError(
            f"{what}: registers {len(names)} tasks{': ' if names else ''}{', '.join(names)}; "
            "register exactly one with @tl.task, or name the file with --code"
        )
    return names[0]


def named(
    what: str,
    overrides: Iterable[str] = (),
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Named:
    """Find a recipe by name, and change it. changes: values by section and key; overrides: settings
    as the user typed them, applied last."""
    changes = changes or {}
    task = task_named(what)
    if task is not None:
        values = {**changes, "task": {**changes.get("task", {}), "kind": task}}
        overrides = list(overrides)
        chosen = recipe.parse(values, overrides)
        # Unless the user names a model, the baseline is used if it is better.
        free = not with_overrides(values, overrides).get("model")
        if free and chosen.training.start_from is None and recipe.baseline_kind(task) is not None:
            chosen = with_picks(chosen, {"training": {"baseline": "choose"}})[0]
        return Named(chosen, by_task=True)
    path = find(what)
    data = changes.get("data", {})
    if not data.get("train"):
        return Named(recipe.read(path, overrides, changes), by_task=False)
    # Other data of the recipe belongs to its own training data.
    others: dict[str, Any] = {"valid": [], "test": [], "folder": "", "toyland": None}
    chosen = recipe.read(path, overrides, {**changes, "data": others | {**data}})
    own = recipe.read(path).data
    left_out = {*own.valid, *own.test} - {*chosen.data.valid, *chosen.data.test}
    if left_out:
        say(
            f"--train: not using the recipe's {', '.join(sorted(left_out))}, which belong to its "
            "own training data; name others with --valid and --test"
        )
    return Named(chosen, by_task=False)


def in_sections(changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Group changes by section: steps=300 -> {"training": {"steps": 300}}; report all mistakes at
    once."""
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
            mistakes.append(f"{name}: several sections have it; write {', '.join(some)} or {last}")
        else:
            mistakes.append(unknown_key(name, [key for keys in known.values() for key in keys]))
    if mistakes:
        raise ConfigError(*mistakes)
    return result
