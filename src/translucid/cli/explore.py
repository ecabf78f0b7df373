"""`translucid explore`: open models in the studio, a local web page."""

import gc
import re
import secrets
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from translucid.cli.shared.generation_options import Device, check_device, fetch, tell
from translucid.core.errors import ConfigError, InputError
from translucid.data import shipped_models
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
        typer.Option(
            min=0, max=65535, help="The port; 0 for any (default: 8642 or the next free one)."
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option(help="Open the page in a browser, or only print its address.")
    ] = True,
    save: Annotated[
        Path | None,
        typer.Option(help="Write all views of one text to this HTML file instead."),
    ] = None,
    lesson: Annotated[
        Path | None,
        typer.Option(
            help="Start with a lesson of your own: a Python file (docs/guides/lessons.md)."
        ),
    ] = None,
    view: Annotated[
        Path | None,
        typer.Option(help="Add a view of your own: a JavaScript file (docs/guides/extend.md)."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="With --save: the text that the models read (default: an example)."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Open models in the studio, a page in your browser that is served on this machine only.

    Example: translucid explore

    Example: translucid explore runs/demo

    Example: translucid explore runs/lstm runs/transformer

    Example: translucid explore demo:translate --lesson lesson.py

    Example: translucid explore demo:translate --view examples/own_view.js

    Example: translucid explore runs/demo --save session.html --text "The old dog sleeps."
    """
    own = None if lesson is None else read(lesson)
    if view is not None:
        _check_view(view, save)
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
    page = serving.ready(port, view)
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


def _check_view(view: Path, save: Path | None) -> None:
    """Refuse a file that the page cannot load; its name becomes part of the page's address."""
    if view.suffix != ".js" or not view.is_file() or not re.fullmatch(r"\w+", view.stem):
        raise InputError(
            f"--view {view}: there is no such JavaScript file; give one such as own_view.js, named "
            "with letters, digits and _"
        )
    if save is not None:
        raise InputError("--view: a saved page has the views of the studio alone; leave it out")


def _first(own: Lesson | None) -> str:
    """The part of the address with which the page starts: the list of lessons, or the user's own
    lesson."""
    if own is None:
        return ""
    query = {"lesson": "own.1"} | ({"text": own.text} if own.text else {})
    return "?" + urlencode(query)


def announce(page: "Ready", port: int | None, begin: str = "") -> None:
    typer.echo(f"studio: {page.address}{begin}")
    if note := page.announced(port):
        typer.echo(note, err=True)


def _loads(device: str) -> "Load":
    """The function with which the studio opens a folder."""
    from translucid.model import load

    return lambda folder: load(folder, device, say=tell)


def _handlers(
    models: list[Path], device: str, own: Lesson | None, lesson: Path | None = None
) -> "Handlers":
    """Open the models. lesson: the file of the user's own lesson."""
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
    """Import the module that serves the page; its packages may not be installed."""
    try:
        import wsproto  # noqa: F401 (uvicorn asks for it only when it begins)

        from translucid.studio.server import serve
    except ImportError as error:
        raise ConfigError(
            f"the studio needs the package {error.name}; install it with: "
            'pip install "translucid[web]"'
        ) from error
    return serve
