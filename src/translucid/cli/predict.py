"""`translucid predict | classify | tag`: a trained model at work.

Lines in, lines out, in order; `--json` writes one object a line.
"""

import json
from collections.abc import Iterator
from itertools import islice

import typer

from translucid.cli.shared.generation_options import File, Folder, Json
from translucid.cli.shared.lines import name_of

CHUNK = 256  # lines that are read before the first answer is written
Lines = Iterator[tuple[int, str]]


def classify(model: Folder, file: File = "-", as_json: Json = False) -> None:
    """Give each line its label.

    Example: echo "The food was not good." | translucid classify runs/sentiment
    """
    _answer(model, file, _texts(file), as_json=as_json, task="classify")


def tag(model: Folder, file: File = "-", as_json: Json = False) -> None:
    """Find the labelled spans of each line.

    Example: echo "Peter lives in Berlin." | translucid tag runs/entities
    """
    _answer(model, file, _texts(file), as_json=as_json, task="tag")


def predict(model: Folder, file: File = "-", as_json: Json = False) -> None:
    """Answer each line as the model's task has it; for numbers, with numbers.

    Example: echo "0.5" | translucid predict runs/curve
    """
    _answer(model, file, _plain(file), as_json=as_json)


def _texts(file: str) -> Lines:
    """The lines of a file, or of the only column of a table."""
    from translucid.data.readers.read import read_text

    return ((record.line, record.text) for record in read_text(file, keep_empty=True))


def _plain(file: str) -> Lines:
    """The lines of a file, whatever its name: a task may read several columns of them."""
    from translucid.data.readers.lines import read_lines

    return ((line, text or "") for line, text in read_lines(file, may_be_empty=True))


def _answer(
    model: Folder, file: str, lines: Lines, *, as_json: bool, task: str | None = None
) -> None:
    from translucid.model import load

    held = load(model)
    if task is not None:
        held.check_task(task)
    while chunk := list(islice(lines, CHUNK)):
        for line, text in chunk:
            held.task.check_line(text, f"{name_of(file)}:{line}", held.network)
        texts = [text for _, text in chunk]
        for text, answer in zip(texts, held.task.predict_lines(held.network, texts), strict=True):
            values = held.task.answer_json(text, answer)
            plain = held.task.answer_text(answer)
            typer.echo(json.dumps(values, ensure_ascii=False) if as_json else plain)
