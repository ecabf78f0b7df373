"""Arguments that name a recipe: a task, its data files, settings, and `--code`."""

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from translucid.cli.shared.options import in_data, in_model, print_note
from translucid.core.errors import ConfigError
from translucid.tasks.registry import TASKS

if TYPE_CHECKING:  # keeps the start of a command light
    from translucid.runs.recipe.named import Named

ENDING = re.compile(r"\.[a-zA-Z]\w{0,7}")  # of a file name
OVERRIDE = re.compile(r"(\w+)\.\w+=")  # section.key=value

TrainFiles = Annotated[
    list[str] | None,
    in_data(
        "--train", metavar="FILE...", help="Training data; for translation, two files or one table."
    ),
]
ValidFiles = Annotated[
    list[str] | None,
    in_data("--valid", metavar="FILE...", help="Validation data [default: 5 % of --train]."),
]
TestFiles = Annotated[
    list[str] | None,
    in_data("--test", metavar="FILE...", help="Test data, scored once with the best model."),
]
Toyland = Annotated[
    int | None, in_data(metavar="N", help="Use N generated sentences instead of files.")
]
DataFolder = Annotated[
    str | None, in_data("--data", metavar="FOLDER", help="Folder of the files named in the recipe.")
]


def tasks(incomplete: str = "") -> list[str]:
    """Names of tasks that begin with this text, for completion."""
    return [name for name in TASKS.names() if name.startswith(incomplete)]


def is_text(word: str) -> bool:
    """Whether an argument is a text rather than the name of a file: it contains white space or a
    comma, and does not end like a file name."""
    return bool(re.search(r"[\s,]", word.strip())) and not ENDING.fullmatch(Path(word).suffix)


def check_once(overrides: Sequence[str]) -> None:
    """Refuse a command line that sets a key twice."""
    typed: dict[str, str] = {}
    for override in overrides:
        key = override.partition("=")[0].strip()
        if typed.setdefault(key, override) is not override:
            raise ConfigError(f"{typed[key]} and {override}: {key} is set twice; keep one")


def files_and_keys(
    words: Sequence[str], sections: Sequence[str] = ("data",)
) -> tuple[list[str], dict[str, Any]]:
    """Split arguments into files and settings of these sections of a recipe."""
    from translucid.core.config import with_overrides

    matches = [(word, OVERRIDE.match(word)) for word in words]
    overrides = [word for word, match in matches if match and match[1] in sections]
    check_once(overrides)
    keys = with_overrides({}, overrides)
    chosen = {key: value for section in sections for key, value in keys.get(section, {}).items()}
    return [word for word in words if word not in overrides], chosen


@dataclass(frozen=True)
class RecipeArguments:
    """A task or recipe, its files, and settings that override it."""

    what: str
    overrides: Sequence[str]
    files: dict[str, list[str] | None]  # of train, valid and test
    toyland: int | None
    folder: str | None

    def __post_init__(self) -> None:
        check_once(self.overrides)

    def named(self, say: Callable[[str], None] = print_note) -> "Named":
        from translucid.runs.recipe.named import named

        data: dict[str, Any] = {name: list(paths) for name, paths in self.files.items() if paths}
        if self.toyland is not None:
            data["toyland"] = self.toyland
        if self.folder is not None:
            data["folder"] = self.folder
        changes = {"data": data} if data else {}
        return named(self.what, self.overrides, changes, say)

    def words(self) -> str:
        """The arguments as typed after `translucid train`."""
        words = [self.what]
        for name, paths in self.files.items():
            words += [f"--{name}", *paths] if paths else []
        words += ["--toyland", str(self.toyland)] if self.toyland is not None else []
        words += ["--data", self.folder] if self.folder is not None else []
        return shlex.join([*words, *self.overrides])


TYPED_CODE: ContextVar[Sequence[str]] = ContextVar("code", default=())


def code_words(task: str) -> list[str]:
    """The option `--code` for the suggested next command: as typed, or else the user's own file
    that defines the task, if there is one."""
    files, source = list(TYPED_CODE.get()), TASKS.source(task)
    if not files and source is not None and source.path is not None:
        here = Path.cwd()
        path = source.path
        files = [str(path.relative_to(here) if path.is_relative_to(here) else path)]
    return [word for file in files for word in ("--code", file)]


Command = TypeVar("Command", bound=Callable[..., Any])
Code = Annotated[
    list[str] | None,
    in_model(
        "--code",
        metavar="FILE",
        help="Python file with your own task or position scheme; may be repeated.",
    ),
]


def with_code(command: Command) -> Command:
    """Add the option `--code` to a command. The files that the option names are loaded before the
    command starts."""

    @functools.wraps(command)
    def run(*arguments: Any, code: list[str] | None = None, **options: Any) -> Any:
        from translucid.core import extensions

        for file in code or ():
            extensions.load(file)
        before = TYPED_CODE.set(code or ())
        try:
            return command(*arguments, **options)
        finally:
            TYPED_CODE.reset(before)

    signature = inspect.signature(command)
    option = inspect.Parameter(
        "code", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Code
    )
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]  # what typer reads
        parameters=[*signature.parameters.values(), option]
    )
    run.__annotations__ = {**command.__annotations__, "code": Code}
    return run  # type: ignore[return-value]
