"""`translucid explore`: the studio, a page on this machine that opens your own models."""

import gc
import secrets
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from translucid import shipped_models
from translucid.cli.shared.generation_options import Device, check_device, fetch, tell
from translucid.core.errors import ConfigError, InputError
from translucid.studio.lesson import Lesson, read

if TYPE_CHECKING:
    from translucid.studio.handlers import Handlers
    from translucid.studio.page_model import Load
    from translucid.studio.server.serve import Ready


def explore(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run or model folders, models of other tools, demo:NAME, or hf:ORG/NAME on the "
            "hub; without one, the models that come with the package.",
            callback=fetch,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="0: any [8642, or the next that is free]."),
    ] = None,
    browser: Annotated[
        bool, typer.Option(help="Open the page; otherwise its address is printed only.")
    ] = True,
    save: Annotated[
        Path | None,
        typer.Option(help="Write all views of one text into this HTML file, and end."),
    ] = None,
    lesson: Annotated[
        Path | None,
        typer.Option(help="Begin with your own lesson, a Python file (docs/lessons.md)."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="What the models read in that file; there is a default.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Open models in the studio: a page in your browser, served by and for this machine only.

    Example: translucid explore

    Example: translucid explore runs/demo

    Example: translucid explore runs/lstm runs/transformer

    Example: translucid explore demo:translate --lesson lesson.py

    Example: translucid explore runs/demo --save session.html --text "The old dog sleeps."
    """
    own = None if lesson is None else read(lesson)
    begin = "" if models and own is None else f"#/lesson{_first(own)}"
    models = models or [shipped_models.find(name) for name in shipped_models.names()]
    if text is not None and save is None:
        raise InputError("--text goes with --save; the page asks for a text itself")
    if len(models) > 8:
        raise InputError(f"{len(models)} models; the page shows up to 8")
    check_device(device)
    for folder in models:
        if not folder.exists():
            raise InputError(
                f"{folder}: there is no such folder; give one that training wrote, or a model of "
                "another tool"
            )
    if save is not None:
        return _save(models, save, text, device)
    serving = server()
    page = serving.ready(port)
    announce(page, port, begin)
    typer.echo("stop with Ctrl-C", err=True)
    sys.stdout.flush()
    if browser:
        # Others on this machine may see a browser's command line: what stands there works once.
        # Browsers in a terminal do not return before they are left, so nobody waits for it.
        threading.Thread(
            target=webbrowser.open, args=(page.begin + page.once + begin,), daemon=True
        ).start()
    page.run_opening(
        lambda: _handlers(models, device, own, lesson), serving.HEAD_START if browser else 0.0
    )


def _first(own: Lesson | None) -> str:
    """Where the page begins: with the stations, or with the user's own lesson."""
    if own is None:
        return ""
    query = {"lesson": "own.1"} | ({"text": own.text} if own.text else {})
    return "?" + urlencode(query)


def announce(page: "Ready", port: int | None, begin: str = "") -> None:
    typer.echo(f"studio: {page.address}{begin}")
    if note := page.announced(port):
        typer.echo(note, err=True)


def _loads(device: str) -> "Load":
    """How the studio opens a folder."""
    from translucid.model import load

    return lambda folder: load(folder, device, say=tell)


def _handlers(
    models: list[Path], device: str, own: Lesson | None, lesson: Path | None = None
) -> "Handlers":
    """lesson: the file of the user's own lesson."""
    from translucid.studio.handlers import Handlers
    from translucid.studio.library import Library, followed_runs, open_folders

    opened = open_folders(models, _loads(device))
    library = Library(opened, start=secrets.token_hex(8))
    if own is not None:
        from translucid.studio.lesson_answers import refuse

        refuse(library, own, str(lesson))
    return Handlers(library, followed_runs(models, opened), own)


def _save(models: list[Path], file: Path, text: str | None, device: str) -> None:
    gc.disable()  # what is imported stays: to look through it for garbage takes half a second
    from translucid.studio.handlers import Handlers
    from translucid.studio.library import Library, followed_runs, open_folders

    gc.freeze()
    gc.enable()
    opened = open_folders(models, _loads(device))
    library = Library(opened)
    if text is not None:
        library.run(next(iter(library.opened)), text)  # refused here, before anything is written
    query = "" if text is None else "?" + urlencode({"text": text})
    content = Handlers(library, followed_runs(models, opened)).saved(text, f"#/flow{query}")
    try:
        file.write_bytes(content)
    except OSError as error:
        raise InputError(f"--save {file}: {error.strerror or error}") from error
    typer.echo(f"saved: {file} ({len(content) / 1e6:.1f} MB)")


def server() -> Any:
    """The module that serves the page, whose packages may be missing."""
    try:
        import wsproto  # noqa: F401 (uvicorn asks for it only when it begins)

        from translucid.studio.server import serve
    except ImportError as error:
        raise ConfigError(
            f"the studio needs the package {error.name}; install it with: "
            'pip install "translucid[web]"'
        ) from error
    return serve
