"""`translucid explain`: show every step from a text to the output."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.arguments import code_words
from translucid.core.errors import InputError, TraceBudgetError

if TYPE_CHECKING:
    from translucid.model import Model
    from translucid.see.reading import Reading
    from translucid.see.walk.walk import Walk

NARROWEST, WIDEST = 60, 100  # columns
LONG = 120  # characters of a text that suggestions do not repeat


def explain(
    model: o.Folder,
    text: Annotated[
        str, typer.Argument(help="Text that the model reads, in quotes; - for standard input.")
    ],
    target: Annotated[
        str | None,
        o.in_data(
            metavar="TEXT", help="Reference translation, or expected label, tags or numbers."
        ),
    ] = None,
    layer: Annotated[
        int | None, o.in_output(metavar="N", help="Show layer N in detail; the first is 0.")
    ] = None,
    head: Annotated[
        str | None, o.in_output(metavar="N", help="Show attention head N instead of the mean.")
    ] = None,
    terms: Annotated[
        str | None,
        o.in_output(
            metavar="POINT",
            help="Show only how one number is computed, such as head.logits[0, 3, 5].",
        ),
    ] = None,
    top: Annotated[
        int, o.in_output(metavar="N", help="Number of likely answers, or of terms.")
    ] = 5,
    width: Annotated[
        int | None, o.in_output(metavar="N", help="Width in columns [default: the terminal's].")
    ] = None,
    html: Annotated[
        Path | None, o.in_output(metavar="FILE", help="Write an HTML page with figures instead.")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Explain an answer step by step.

    Shows every step from the text to the output. A text that starts with - must be
    the last argument, after --.

    Example: translucid explain demo:translate "The dog sees a cat."
    """
    from translucid.model import load

    if text == "-":
        text = "\n".join(o.read_lines(text)).rstrip("\n")
    if not text.strip():
        raise InputError("the text is empty; pass a sentence in quotes")
    if width is not None and width < NARROWEST:
        raise InputError(f"--width {width} is too small; use at least {NARROWEST} columns")
    one = _one_head(head)
    if terms is not None and (html is not None or layer is not None or one is not None):
        raise InputError("--terms shows one number; omit --html, --layer and --head")
    if html is not None:
        _check_page(html)
    held = load(model, say=o.print_note)
    task = held.task.name
    reading = _read(held, text, target)
    if terms is not None:
        from translucid.see.terms import as_json as terms_as_json

        opened = reading.terms(terms, top=top)
        if as_json:
            typer.echo(json.dumps(terms_as_json(opened), ensure_ascii=False, allow_nan=False))
        else:
            typer.echo(str(opened))
        return
    walked = reading.walk(layer=layer, head=one, top=top)
    if html is not None:
        write_page(html, reading, walked)
    if as_json:
        typer.echo(json.dumps(walked.as_dict(), ensure_ascii=False, allow_nan=False))
        return
    if html is None:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        typer.echo(walked.as_text(width or _columns(), colour=colour), color=colour)
    if layer is None and html is None and (address := _sum_of(reading, walked)):
        command = _command(model, task, f"--terms {shlex.quote(address)}", text)
        typer.echo(f"where a number comes from: {command}")
    typer.echo(f"next: {_next(walked, model, task, text, layer=layer, html=html)}")


def _one_head(head: str | None) -> int | None:
    """The number of a head; None for the mean of all heads."""
    if head is None or head == "mean":
        return None
    try:
        return int(head)
    except ValueError as error:
        raise InputError(
            f"--head {head}: must be the number of a head, such as 0, or mean"
        ) from error


def _columns() -> int:
    return max(NARROWEST, min(shutil.get_terminal_size((96, 24)).columns, WIDEST))


def _read(held: "Model", text: str, target: str | None) -> "Reading":
    held.task.check_line(text, "the text", held.network)
    try:
        return held.trace(text, target)
    except TraceBudgetError as error:
        raise InputError(
            f"the text is too long to trace everything ({error.fact}); explain a part of it"
        ) from error


def _check_page(path: Path) -> None:
    """Refuse a bad file name before the model runs."""
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--html {path}: must end in .html")
    if not path.parent.is_dir():
        raise InputError(f"--html {path}: no such folder {path.parent}; create it first")


def write_page(path: Path, reading: "Reading", walked: "Walk") -> None:
    from translucid.core.atomic_files import write_text
    from translucid.see.walk.page import as_page, figures

    drawn = figures(reading, walked)
    write_text(path, as_page(walked, drawn))
    pictures = sum(map(len, drawn.values()))
    o.print_note(f"{path}: {len(walked.stages)} stages, {pictures} pictures")


def _next(
    walked: "Walk", folder: Path, task: str, text: str, *, layer: int | None, html: Path | None
) -> str:
    """The command to try next."""
    if html is None and layer is None:
        return _command(folder, task, "--html walk.html", text)
    closer = {stage.layer for stage in walked.stages} - {None}
    if layer is None and closer:
        return _command(folder, task, f"--layer {min(n for n in closer if n is not None)}", text)
    return _command(folder, task, "", text)


def _command(folder: Path, task: str, option: str, text: str) -> str:
    words = ["translucid", "explain", o.name_of_model(folder), *code_words(task)]
    start = f"{shlex.join(words)} {option}".rstrip()
    if len(text) > LONG:
        return f'{start} "..."  (... is the same text)'
    quoted_text = f'"{text}"' if not set(text) & set('"$`\\!') else shlex.quote(text)
    return f"{start} -- {quoted_text}" if text.startswith("-") else f"{start} {quoted_text}"


def _sum_of(reading: "Reading", walked: "Walk") -> str:
    """The address of the weighted sum behind a regression model's output; empty for text models."""
    from translucid.parts.expression import Number

    if any(stage.kind == "tokens" for stage in walked.stages):
        return ""
    for stage in walked.stages:
        if stage.kind == "values" and stage.address:
            address = f"{stage.address}[{', '.join('0' * len(stage.shape))}]"
            expression = reading.terms(address).expression
            return expression.address if isinstance(expression, Number) else address
    return ""
