"""A model that was asked by another task's command: which command it answers to."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from translucid import shipped_models
from translucid.cli.shared.recipe_arguments import OVERRIDE
from translucid.core.errors import WrongTaskError
from translucid.core.spelling import quoted

# Commands that take texts where others take a file, and their option for a file.
BY_FILE = {"generate": "--prompts", "fill": "--texts"}


def other_command(error: WrongTaskError, arguments: Sequence[str], program: Any) -> str:
    """What to type instead. arguments: the command, and what stood behind it."""
    command, *rest = arguments
    commands: Mapping[str, Any] = program.commands
    line = _line(error.command, command, rest, commands)
    model = _apart(rest, commands[command])[0][0]
    message = f"{model}: this model is for task {error.task}; use {line}"
    fitting = [
        name for name, about in zip(shipped_models.names(), shipped_models.manifest().values(),
                                    strict=True)
        if about["command"] == command
    ]  # fmt: skip
    return message + (f"; for {command} there are {', '.join(fitting)}" if fitting else "")


def _line(fits: str, command: str, rest: Sequence[str], commands: Mapping[str, Any]) -> str:
    """The command that fits, with all that was typed behind the other and has a use here."""
    (model, *words), options = _apart(rest, commands[command])
    words = [word for word in words if not OVERRIDE.match(word)]  # keys of the other task
    if command in BY_FILE or any(re.search(r"\s", word) for word in words):
        option = BY_FILE.get(command)
        texts, files = words, [typed[-1] for name, typed in options if name == option]
    else:
        texts, files = [], words[:1] or ["-"]
    piped = ""
    if fits in BY_FILE:
        behind = texts or [word for file in files for word in (BY_FILE[fits], file)]
    else:
        fits = _for_table(fits, files)
        behind = [file for file in files if file != "-"]
        piped = f"echo {quoted(' '.join(texts))} | " if texts else ""
    known = {option for param in commands[fits].params for option in param.opts}
    kept = [word for name, typed in options if name in known for word in typed]
    return f"{piped}translucid {' '.join(map(quoted, [fits, model, *behind, *kept]))}"


def _for_table(command: str, files: Sequence[str]) -> str:
    """`translate` reads one text a line; the rows of a table are for `predict`."""
    from translucid.data.readers.tables import format_of

    tables = [file for file in files if format_of(file, "text") != "text"]
    return "predict" if command == "translate" and tables else command


def _apart(words: Sequence[str], command: Any) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Arguments, and options by name with all words of theirs."""
    flags = {option for param in command.params if _is_flag(param) for option in param.opts}
    arguments: list[str] = []
    options: list[tuple[str, list[str]]] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            arguments += rest
        elif word.startswith("-") and word != "-":
            name, equals, behind = word.partition("=")
            value = [behind] if equals else [] if name in flags else [next(rest, "")]
            options.append((name, [name, *value]))
        else:
            arguments.append(word)
    return arguments, options


def _is_flag(param: Any) -> bool:
    return bool(param.param_type_name == "option" and param.is_flag)
