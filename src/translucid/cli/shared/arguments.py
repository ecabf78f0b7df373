"""Arguments that several commands share: task, data files and recipe, and `--code`."""

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from translucid.tasks.registry import TASKS

if TYPE_CHECKING:  # keeps the start of a command light
    from translucid.runs.recipe.named import Named

OVERRIDE = re.compile(r"(\w+)\.\w+=")  # section.key=value

TrainFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--train", help="Training data: one file; for translation, source and target, or one table."
    ),
]
ValidFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--valid",
        help="Validation data, which chooses the best model (default: 5 % of the training data).",
    ),
]
TestFiles = Annotated[
    list[str] | None,
    typer.Option("--test", help="Test data, scored once with the best model."),
]
MadeUp = Annotated[int | None, typer.Option(help="Train on this many made-up sentences.")]
DataFolder = Annotated[str | None, typer.Option("--data", help="Folder of the recipe's files.")]


def tasks(incomplete: str = "") -> list[str]:
    """Names of tasks that begin with this text, for completion."""
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
        """The arguments as they can be typed after `translucid train`."""
        words = [self.what]
        for name, paths in self.files.items():
            words += [f"--{name}", *paths] if paths else []
        words += ["--toyland", str(self.toyland)] if self.toyland is not None else []
        words += ["--data", self.folder] if self.folder is not None else []
        return shlex.join([*words, *self.overrides])


Command = TypeVar("Command", bound=Callable[..., Any])
Code = Annotated[
    list[str] | None,
    typer.Option("--code", help="A Python file with your own task or positions; may be repeated."),
]


def with_code(command: Command) -> Command:
    """Add the option `--code` to a command; its files are loaded before the command begins."""

    @functools.wraps(command)
    def run(*arguments: Any, code: list[str] | None = None, **options: Any) -> Any:
        from translucid.core import extensions

        for file in code or ():
            extensions.load(file)
        return command(*arguments, **options)

    signature = inspect.signature(command)
    option = inspect.Parameter(
        "code", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Code
    )
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]  # what typer reads
        parameters=[*signature.parameters.values(), option]
    )
    run.__annotations__ = {**command.__annotations__, "code": Code}
    return run  # type: ignore[return-value]
