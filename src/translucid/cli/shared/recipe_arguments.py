"""What a command was told about task, files and recipe, as a recipe and as words to type again."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid import extensions
from translucid.errors import InputError
from translucid.tasks.registry import TASKS

if TYPE_CHECKING:  # a command's top stays light
    from translucid.recipe.recipe import Recipe

# The options that say so, for every command that takes them.
TrainFiles = Annotated[
    list[str] | None,
    typer.Option("--train", help="Training data: one file; for translation two, or one table."),
]
ValidFiles = Annotated[
    list[str] | None,
    typer.Option("--valid", help="Validation data, held out to choose the best model."),
]
TestFiles = Annotated[
    list[str] | None, typer.Option("--test", help="Test data, scored once at the end.")
]
MadeUp = Annotated[int | None, typer.Option(help="Train on this many made-up sentences.")]
DataFolder = Annotated[str | None, typer.Option("--data", help="Folder of the recipe's files.")]


def tasks(incomplete: str = "") -> list[str]:
    """Names of tasks that begin so, for completion."""
    return [name for name in TASKS.names() if name.startswith(incomplete)]


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


@dataclass(frozen=True)
class RecipeArguments:
    """A task or a recipe, its files, and changes to it."""

    what: str
    overrides: Sequence[str]
    files: dict[str, list[str] | None]  # of train, valid and test
    toyland: int | None
    folder: str | None

    @property
    def task(self) -> str | None:
        """The task, if that is what was named and not a recipe."""
        return task_named(self.what)

    @property
    def by_task(self) -> bool:
        return self.task is not None

    def recipe(self) -> "Recipe":
        from translucid.recipe import recipe as recipes
        from translucid.recipe import shipped

        data: dict[str, Any] = {name: list(paths) for name, paths in self.files.items() if paths}
        if self.toyland is not None:
            data["toyland"] = self.toyland
        if self.folder is not None:
            data["folder"] = self.folder
        if self.task is not None:
            return recipes.parse({"task": {"kind": self.task}, "data": data}, self.overrides)
        path = shipped.find(self.what)
        if not data.get("train"):
            return recipes.read(path, self.overrides, data=data)
        # What else the recipe names belongs to its own training data.
        others: dict[str, Any] = {"valid": [], "test": [], "folder": "", "toyland": None}
        chosen = recipes.read(path, self.overrides, data=others | data)
        own = recipes.read(path).data
        left_out = {*own.valid, *own.test} - {*chosen.data.valid, *chosen.data.test}
        if left_out:
            typer.echo(
                f"--train: the recipe's own {', '.join(sorted(left_out))} left out, which belong "
                "to its own training data; name others with --valid and --test",
                err=True,
            )
        return chosen

    def words(self) -> str:
        """As it can be typed after `translucid train`."""
        words = [self.what]
        for name, paths in self.files.items():
            words += [f"--{name}", *paths] if paths else []
        words += ["--toyland", str(self.toyland)] if self.toyland is not None else []
        words += ["--data", self.folder] if self.folder is not None else []
        return shlex.join([*words, *self.overrides])
