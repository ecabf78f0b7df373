"""`translucid explain`: every step of a model from a text to its answer."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from translucid.cli.shared.generation_options import Folder, name_of_model, tell
from translucid.core.errors import InputError, SaveError, TraceBudgetError

if TYPE_CHECKING:
    from translucid.model import Model
    from translucid.see.reading import Reading
    from translucid.see.terms import OpenedNumber
    from translucid.see.walk.walk import Walk

NARROWEST, WIDEST = 60, 100  # columns
LONG = 120  # letters of a text that is not said again


def explain(
    model: Folder,
    text: Annotated[str, typer.Argument(help="The text that the model reads; in quotes.")],
    target: Annotated[
        str | None,
        typer.Option(help="Read this translation, or compare with this label, tags or numbers."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Show one layer in detail; the first is 0.")
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Show one attention head instead of their mean.")
    ] = None,
    terms: Annotated[
        str | None,
        typer.Option(
            help="Show where one number comes from instead: a point of the trace, a weight or an "
            "input, such as head.logits[0, 3, 5]."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="How many likely answers to show, or terms of a number.")
    ] = 5,
    width: Annotated[
        int | None, typer.Option(help="Width in columns (default: the terminal's).")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page with figures to this file instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Explain an answer: every step from the text to the output, part by part.

    Put a text that begins with - last, after --.

    Example: translucid explain demo:translate "The dog sees a cat."
    """
    from translucid.model import load

    if not text.strip():
        raise InputError("the text is empty; give a sentence in quotes")
    if width is not None and width < NARROWEST:
        raise InputError(f"--width {width}: at least {NARROWEST} columns")
    one = _one_head(head)
    if terms is not None and (html is not None or layer is not None or one is not None):
        raise InputError("--terms shows one number; leave --html, --layer and --head out")
    if html is not None:
        _check_page(html)
    held = load(model, say=tell)
    reading = _read(held, text, target)
    if terms is not None:
        _say_terms(reading.terms(terms, top=top), as_json=as_json)
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
        command = _command(model, f"--terms {shlex.quote(address)}", text)
        typer.echo(f"where a number comes from: {command}")
    typer.echo(f"next: {_next(walked, model, text, layer=layer, html=html)}")


def _say_terms(opened: "OpenedNumber", *, as_json: bool) -> None:
    from translucid.see.terms import as_json as terms_as_json

    if as_json:
        typer.echo(json.dumps(terms_as_json(opened), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(str(opened))


def _one_head(head: str | None) -> int | None:
    """The number of a head; None for the mean of the heads, which is the default."""
    if head is None or head == "mean":
        return None
    try:
        return int(head)
    except ValueError as error:
        raise InputError(f"--head {head}: give the number of a head, such as 0, or mean") from error


def _columns() -> int:
    return max(NARROWEST, min(shutil.get_terminal_size((96, 24)).columns, WIDEST))


def _read(held: "Model", text: str, target: str | None) -> "Reading":
    held.task.check_line(text, "the text", held.network)
    try:
        return held.trace(text, target)
    except TraceBudgetError as error:
        raise InputError(
            f"the text is too long to keep all that the model computes ({error.fact}); "
            "explain a part of it"
        ) from error


def _check_page(path: Path) -> None:
    """Refuse a bad file name before the model runs."""
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--html {path}: the name of a page ends in .html")
    if not path.parent.is_dir():
        raise InputError(f"--html {path}: there is no folder {path.parent}; make it first")


def write_page(path: Path, reading: "Reading", walked: "Walk") -> None:
    from translucid.see.walk.page import as_page, figures

    drawn = figures(reading, walked)
    page = as_page(walked, drawn)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(page, "utf-8", newline="\n")
        os.replace(part, path)  # a reader finds the old page or the new one, never half of it
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SaveError(f"{path}: cannot be written ({error.strerror})") from error
    pictures = sum(map(len, drawn.values()))
    typer.echo(f"{path}: {len(walked.stages)} stages, {pictures} pictures", err=True)


def _next(walked: "Walk", folder: Path, text: str, *, layer: int | None, html: Path | None) -> str:
    """The command to try next."""
    if html is None and layer is None:
        return _command(folder, "--html walk.html", text)
    closer = {stage.layer for stage in walked.stages} - {None}
    if layer is None and closer:
        return _command(folder, f"--layer {min(n for n in closer if n is not None)}", text)
    return _command(folder, "", text)


def _command(folder: Path, option: str, text: str) -> str:
    start = f"translucid explain {shlex.quote(name_of_model(folder))} {option}".rstrip()
    if len(text) > LONG:
        return f'{start} "..."  (... is the same text)'
    quoted_text = f'"{text}"' if not set(text) & set('"$`\\!') else shlex.quote(text)
    return f"{start} -- {quoted_text}" if text.startswith("-") else f"{start} {quoted_text}"


def _sum_of(reading: "Reading", walked: "Walk") -> str:
    """The address of the weighted sum behind the output of a regression model; empty for models
    that read text."""
    from translucid.parts.expression import Number

    if any(stage.kind == "tokens" for stage in walked.stages):
        return ""
    for stage in walked.stages:
        if stage.kind == "values" and stage.address:
            address = f"{stage.address}[{', '.join('0' * len(stage.shape))}]"
            expression = reading.terms(address).expression
            return expression.address if isinstance(expression, Number) else address
    return ""
