"""`--code FILE.py`, for every command that reads a recipe or a model: the user's own task or
positions. One place adds it."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., Any])
Code = Annotated[
    list[str] | None,
    typer.Option("--code", help="A Python file with your own task or positions; may be repeated."),
]


def with_code(command: Command) -> Command:
    """The command with this option; the files are loaded before it begins."""

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
