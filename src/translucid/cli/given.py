"""What a command was told about task, files and recipe, as a recipe and as words to type again."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # a command's top stays light
    from translucid.training.recipe import Recipe

# The options that say so, for every command that takes them.
TrainFiles = Annotated[
    list[str] | None,
    typer.Option("--train", help="Training file; for translation two, or one table."),
]
ValidFiles = Annotated[list[str] | None, typer.Option("--valid", help="Held out.")]
TestFiles = Annotated[list[str] | None, typer.Option("--test", help="For the end.")]
MadeUp = Annotated[int | None, typer.Option(help="Use this many made-up sentences.")]
DataFolder = Annotated[str | None, typer.Option("--data", help="Folder of the recipe's files.")]
TASKS = ("regress", "language", "classify", "tag", "translate")


@dataclass(frozen=True)
class Given:
    """A task or a recipe, its files, and changes to it."""

    what: str
    overrides: Sequence[str]
    files: dict[str, list[str] | None]  # of train, valid and test
    toyland: int | None
    folder: str | None

    @property
    def by_task(self) -> bool:
        return self.what in TASKS

    def recipe(self) -> "Recipe":
        from translucid.training import recipe as recipes
        from translucid.training import shelf

        data: dict[str, Any] = {name: list(paths) for name, paths in self.files.items() if paths}
        if self.toyland is not None:
            data["toyland"] = self.toyland
        if self.folder is not None:
            data["folder"] = self.folder
        if self.by_task:
            return recipes.parse({"task": {"kind": self.what}, "data": data}, self.overrides)
        return recipes.read(shelf.find(self.what), self.overrides, data=data)

    def words(self) -> str:
        """As it can be typed after `translucid train`."""
        said = [self.what]
        for name, paths in self.files.items():
            said += [f"--{name}", *paths] if paths else []
        said += ["--toyland", str(self.toyland)] if self.toyland is not None else []
        said += ["--data", self.folder] if self.folder is not None else []
        return shlex.join([*said, *self.overrides])
