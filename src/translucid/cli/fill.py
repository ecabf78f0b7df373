"""`translucid fill`: predict masked tokens."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.inputs import inputs_of, prompt

if TYPE_CHECKING:
    from translucid.tasks.fill import Filling


def fill(
    model: o.Folder,
    file: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|TEXT...] [data.encoding=NAME]",
            help="Texts in quotes, each with a mask such as [MASK] or <mask>, or a file with one "
            "such text per line [default: standard input].",
        ),
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

    inputs = inputs_of(file, "fill", model)
    (held,) = o.load_models(model, None, device)
    check_task(held.task, "fill")
    task: Any = held.task
    prompt(inputs, held)
    records = list(inputs.records())
    for record in records:
        task.check_question(record.text, f"{inputs.name}:{record.line}", held.network)
    lines = [record.text for record in records]
    for line, masks in zip(lines, task.predict_lines(held.network, lines, top), strict=True):
        if as_json:
            typer.echo(json.dumps(task.answer_json(line, masks), ensure_ascii=False))
        else:
            typer.echo(_table(line, masks))


def _table(line: str, masks: "list[list[Filling]]") -> str:
    rows = [line]
    for number, mask in enumerate(masks, start=1):
        if len(masks) > 1:
            rows.append(f"mask {number}")
        rows += [f"  {filling.probability:6.4f}  {filling.token}" for filling in mask]
    return "\n".join(rows)
