"""`translucid fill`: what may stand where a token is hidden."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import generation_options as o
from translucid.core.errors import ConfigError

if TYPE_CHECKING:
    from translucid.tasks.fill import Filling


def fill(
    model: o.Folder,
    text: Annotated[
        list[str] | None,
        typer.Argument(help="A text with a mask, such as [MASK] or <mask>; in quotes."),
    ] = None,
    texts: Annotated[
        str | None, typer.Option(help="A file with one text per line; - is standard input.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many tokens to show at each mask.")] = 5,
    as_json: o.Json = False,
    device: o.Device = "auto",
) -> None:
    """Show the most probable tokens at each mask of a text.

    For masked language models: BERT, RoBERTa, DistilBERT. A model says how its mask is written
    where a text has none.

    Example: translucid fill ./bert-base-uncased "The capital of France is [MASK]."
    """
    from translucid.tasks.model_folder import check_task

    if bool(text) == (texts is not None):
        raise ConfigError("give texts in quotes, or a file with --texts; one of the two")
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
