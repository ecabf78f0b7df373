"""`translucid fill`: predict masked tokens."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import options as o
from translucid.core.errors import ConfigError

if TYPE_CHECKING:
    from translucid.tasks.fill import Filling


def fill(
    model: o.Folder,
    text: Annotated[
        list[str] | None,
        typer.Argument(help="Text with a mask, such as [MASK] or <mask>, in quotes."),
    ] = None,
    texts: Annotated[
        str | None,
        o.in_data(metavar="FILE", help="File with one text per line; - for standard input."),
    ] = None,
    top: Annotated[int, o.in_output(min=1, metavar="N", help="Tokens to show per mask.")] = 5,
    as_json: o.JsonLines = False,
    device: o.Device = "auto",
) -> None:
    """Show the most probable tokens at each mask.

    For masked language models such as BERT, RoBERTa and DistilBERT. If a text has no mask, the
    error shows how this model writes it.

    Example: translucid fill ./bert-base-uncased "The capital of France is [MASK]."
    """
    from translucid.tasks.model_folder import check_task

    if bool(text) == (texts is not None):
        raise ConfigError("give either texts in quotes or a file with --texts")
    (held,) = o.load_models(model, None, device)
    check_task(held.task, "fill")
    task: Any = held.task
    named = [(f"text {n}", one) for n, one in enumerate(text or (), start=1)] or _lines(texts)
    for where, line in named:
        task.check_question(line, where, held.network)
    lines = [line for _, line in named]
    for line, masks in zip(lines, task.predict_lines(held.network, lines, top), strict=True):
        if as_json:
            typer.echo(json.dumps(task.answer_json(line, masks), ensure_ascii=False))
        else:
            typer.echo(_table(line, masks))


def _lines(file: str | None) -> list[tuple[str, str]]:
    from translucid.cli.shared.answering import name_of
    from translucid.data.readers.read import read_text

    assert file is not None
    records = read_text(file, keep_empty=True)
    return [(f"{name_of(file)}:{record.line}", record.text) for record in records]


def _table(line: str, masks: "list[list[Filling]]") -> str:
    rows = [line]
    for number, mask in enumerate(masks, start=1):
        if len(masks) > 1:
            rows.append(f"mask {number}")
        rows += [f"  {filling.probability:6.4f}  {filling.token}" for filling in mask]
    return "\n".join(rows)
