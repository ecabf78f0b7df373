"""What a command was told about task, files and recipe, as a recipe and as words to type again."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.tasks.registry import TASKS

if TYPE_CHECKING:  # a command's top stays light
    from translucid.runs.recipe.named import Named

OVERRIDE = re.compile(r"\w+\.\w+=")  # section.key=value

# The options that say so, for every command that takes them.
TrainFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--train", help="Training data: one file; for translation source and target, or one table."
    ),
]
ValidFiles = Annotated[
    list[str] | None,
    typer.Option("--valid", help="Validation data, held out to choose the best model."),
]
TestFiles = Annotated[
    list[str] | None,
    typer.Option("--test", help="Test data, scored once at the end, into test.json."),
]
MadeUp = Annotated[int | None, typer.Option(help="Train on this many made-up sentences.")]
DataFolder = Annotated[str | None, typer.Option("--data", help="Folder of the recipe's files.")]


def tasks(incomplete: str = "") -> list[str]:
    """Names of tasks that begin so, for completion."""
    return [name for name in TASKS.names() if name.startswith(incomplete)]


@dataclass(frozen=True)
class RecipeArguments:
    """A task or a recipe, its files, and changes to it."""

    what: str
    overrides: Sequence[str]
    files: dict[str, list[str] | None]  # of train, valid and test
    toyland: int | None
    folder: str | None

    def named(self) -> "Named":
        from translucid.runs.recipe.named import named

        data: dict[str, Any] = {name: list(paths) for name, paths in self.files.items() if paths}
        if self.toyland is not None:
            data["toyland"] = self.toyland
        if self.folder is not None:
            data["folder"] = self.folder
        changes = {"data": data} if data else {}
        return named(self.what, self.overrides, changes, lambda line: typer.echo(line, err=True))

    def words(self) -> str:
        """As it can be typed after `translucid train`."""
        words = [self.what]
        for name, paths in self.files.items():
            words += [f"--{name}", *paths] if paths else []
        words += ["--toyland", str(self.toyland)] if self.toyland is not None else []
        words += ["--data", self.folder] if self.folder is not None else []
        return shlex.join([*words, *self.overrides])
