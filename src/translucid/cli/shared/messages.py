"""Messages that several commands print: findings of checks, notes on inputs, and the matching
command for a model of a different task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from translucid.cli.shared.arguments import OVERRIDE, is_text
from translucid.core.errors import WrongTaskError
from translucid.core.spelling import quoted
from translucid.data import shipped_models

if TYPE_CHECKING:  # keeps the start of a command light
    from translucid.data.predictions import InputRows
    from translucid.model import Model
    from translucid.tasks.findings import Finding
    from translucid.tasks.input_notes import InputNote


Notes = Callable[[Sequence[Any]], "list[InputNote]"]


def show_findings(findings: Sequence["Finding"]) -> None:
    """Print one line per finding, marked + (fine), ! (worth a look) or - (wrong), and a summary."""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        typer.echo(f"{finding.mark} {finding.name:{width}}  {finding.words}")
    marks = [finding.mark for finding in findings]
    summary = f"{len(marks)} checks: {marks.count('+')} passed"
    for mark, meaning in (("!", "worth a look"), ("-", "wrong")):
        if mark in marks:
            summary += f", {marks.count(mark)} {meaning} ({mark})"
    typer.echo(f"\n{summary}")


def any_wrong(findings: Sequence["Finding"]) -> bool:
    return any(finding.mark == "-" for finding in findings)


@contextmanager
def noting(held: "Model") -> "Iterator[Notes]":
    """Yield a function that returns the notes on texts; at the end, even after an error, print a
    summary of the notes to standard error."""
    from translucid.tasks.input_notes import InputNotes

    counts = InputNotes(empty_is_noted=not held.task.traits.empty_stays_empty)

    def notes_on(texts: Sequence[Any]) -> "list[InputNote]":
        notes = held.input_notes(texts)
        for note in notes:
            counts.add(note)
        return notes

    try:
        yield notes_on
    finally:
        for line in counts.lines():
            typer.echo(line, err=True)


def in_line(note: "InputNote") -> str:
    """The note to append to a one-line answer. Only empty texts get one, so that columns align."""
    return f"\t({note.words})" if note.empty or note.remarks else ""


def in_columns(
    source: "InputRows", new: dict[str, Any], note: "InputNote", *, as_json: bool
) -> dict[str, Any]:
    """Add the note to the new columns of a row: to every row of a table, to plain lines only if
    there is a note, and never to CoNLL files."""
    from translucid.data.predictions import ConllSentences, TableRows

    if as_json or (isinstance(source, TableRows) and source.as_json):
        return new | note.as_json()
    if isinstance(source, ConllSentences):
        return new
    if isinstance(source, TableRows):
        return new | {"note": note.words}
    return new | ({"note": f"({note.words})"} if note.empty or note.remarks else {})


# Commands whose arguments are only texts, with their option for a file.
BY_FILE = {"generate": "--prompts"}


def other_command(error: WrongTaskError, arguments: Sequence[str], program: Any) -> str:
    """The error message, with the command that fits the model and the typed arguments."""
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
    return message + (f"; shipped models for {command}: {', '.join(fitting)}" if fitting else "")


def _line(fits: str, command: str, rest: Sequence[str], commands: Mapping[str, Any]) -> str:
    """The matching command, with the typed arguments and options that it accepts."""
    (model, *words), options = _apart(rest, commands[command])
    words = [word for word in words if not OVERRIDE.match(word)]  # keys of the other task
    if command in BY_FILE or any(map(is_text, words)):
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
        if texts and all(map(is_text, texts)):
            behind = texts
        elif texts:
            piped = f"echo {quoted(' '.join(texts))} | "
    known = {option for param in commands[fits].params for option in param.opts}
    kept = [word for name, typed in options if name in known for word in typed]
    return f"{piped}translucid {' '.join(map(quoted, [fits, model, *behind, *kept]))}"


def _for_table(command: str, files: Sequence[str]) -> str:
    """The command for these files: `predict` in place of `translate` if one of them is a table,
    because `translate` reads one text per line."""
    from translucid.data.readers.tables import format_of

    tables = [file for file in files if format_of(file, "text") != "text"]
    return "predict" if command == "translate" and tables else command


def _apart(words: Sequence[str], command: Any) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Split words into arguments, and options by name with their values."""
    flags = {name for p in command.params if getattr(p, "is_flag", False) for name in p.opts}
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
