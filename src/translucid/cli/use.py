"""`translucid classify | tag | predict`: a trained model at work.

Lines in, lines out, in order; `--json` writes one object a line.
"""

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from translucid.cli.lines import name_of
from translucid.cli.writing_options import File, Folder, Json

if TYPE_CHECKING:
    from translucid.model import Model

CHUNK = 256  # lines that are read before the first answer is written


def _chunks(file: str, held: "Model") -> Iterator[list[str]]:
    from translucid.data.readers import read_text

    records = read_text(file, keep_empty=True)
    while chunk := list(islice(records, CHUNK)):
        for record in chunk:
            held.check_text(record.text, f"{name_of(file)}:{record.line}")
        yield [record.text for record in chunk]


def _write(values: dict[str, Any], as_json: bool, plain: str) -> None:
    typer.echo(json.dumps(values, ensure_ascii=False) if as_json else plain)


def classify(model: Folder, file: File = "-", as_json: Json = False) -> None:
    """Give each line its label.

    Example: echo "The food was not good." | translucid classify runs/sentiment
    """
    from translucid.model import load

    held = load(model)
    for texts in _chunks(file, held):
        for text, found in zip(texts, held.classify(texts), strict=True):
            values = {"text": text, "label": found.label, "probability": found.probability}
            _write(values, as_json, f"{found.label}\t{found.probability:.3f}")


def tag(model: Folder, file: File = "-", as_json: Json = False) -> None:
    """Find the labelled spans of each line.

    Example: echo "Peter lives in Berlin." | translucid tag runs/entities
    """
    from translucid.model import load

    held = load(model)
    for texts in _chunks(file, held):
        for text, spans in zip(texts, held.tag(texts), strict=True):
            values = [
                {"start": s.start, "end": s.end, "label": s.label, "text": s.text} for s in spans
            ]
            plain = "\t".join(f"{s.label}: {s.text}" for s in spans)
            _write({"text": text, "spans": values}, as_json, plain)


def predict(model: Folder, file: File = "-", as_json: Json = False) -> None:
    """Give each line of numbers its output.

    Example: echo "0.5" | translucid predict runs/curve
    """
    from translucid.data.lines import read_lines
    from translucid.model import load

    held = load(model)
    lines = read_lines(file, may_be_empty=True)
    while chunk := list(islice(lines, CHUNK)):
        rows = [held.read_row(text or "", f"{name_of(file)}:{line}") for line, text in chunk]
        for row, answer in zip(rows, held.predict(rows), strict=True):
            plain = " ".join(f"{number:.6g}" for number in answer)
            _write({"inputs": row, "outputs": answer}, as_json, plain)
