"""Notes beside answers: empty texts, and what a model's vocabulary lacks. A summary at the end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:  # a command's top stays light
    from translucid.data.predictions import InputRows
    from translucid.model import Model
    from translucid.tasks.input_notes import InputNote, InputNotes


class Noting:
    """Notes of the texts that a command reads, counted."""

    def __init__(self, held: "Model", counts: "InputNotes") -> None:
        self._held, self._counts = held, counts

    def of(self, texts: Sequence[Any]) -> "list[InputNote]":
        notes = self._held.input_notes(texts)
        for note in notes:
            self._counts.add(note)
        return notes


@contextmanager
def noting(held: "Model") -> Iterator[Noting]:
    """The summary is printed to standard error when the command ends, however it ends."""
    from translucid.tasks.input_notes import InputNotes

    counts = InputNotes(empty_is_noted=not held.task.empty_stays_empty)
    try:
        yield Noting(held, counts)
    finally:
        for line in counts.lines():
            typer.echo(line, err=True)


def in_line(note: "InputNote") -> str:
    """Behind an answer that is a line of text; only of an empty one, so that columns stay."""
    return f"\t({note.words})" if note.empty else ""


def in_columns(
    source: "InputRows", new: dict[str, Any], note: "InputNote", *, as_json: bool
) -> dict[str, Any]:
    """The new columns of a row with its note: keys of an object, or a cell of a table. A table has
    the column in every row, lines only where there is something to note, CoNLL has no place."""
    from translucid.data.predictions import ConllSentences, TableRows

    if as_json or (isinstance(source, TableRows) and source.as_json):
        return new | note.as_json()
    if isinstance(source, ConllSentences):
        return new
    if isinstance(source, TableRows):
        return new | {"note": note.words}
    return new | ({"note": f"({note.words})"} if note.empty else {})
