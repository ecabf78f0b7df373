"""`translucid explore`: open models in the studio, a local web page."""

import gc
import re
import secrets
import shlex
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from translucid.cli.shared import options as o
from translucid.core.errors import ConfigError, InputError, install_command
from translucid.data import shipped_models
from translucid.studio.lesson import Lesson, read

if TYPE_CHECKING:
    from translucid.studio.handlers import Handlers
    from translucid.studio.server.serve import Ready


def explore(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run or model folders, other tools' models, demo:NAME or hf:ORG/NAME [default: "
            "the shipped models].",
            callback=o.fetch,
        ),
    ] = None,
    lesson: Annotated[
        Path | None,
        o.in_run(metavar="FILE", help="Start with your own lesson, a Python file."),
    ] = None,
    view: Annotated[
        Path | None,
        o.in_run(metavar="FILE", help="Add your own view, a JavaScript file."),
    ] = None,
    port: o.Port = None,
    browser: Annotated[
        bool, o.in_run(help="Open the page in a browser, or only print its address.")
    ] = True,
    save: Annotated[
        Path | None,
        o.in_output(metavar="FILE", help="Write all views of one text to an HTML file instead."),
    ] = None,
    text: Annotated[
        str | None,
        o.in_output(metavar="TEXT", help="Text for --save [default: an example]."),
    ] = None,
    with_models: Annotated[
        bool,
        o.in_output(
            "--with-models",
            help="Include the models in the --save file, so that it answers other texts.",
        ),
    ] = False,
    site: Annotated[
        Path | None,
        o.in_output(metavar="FOLDER", help="Write a web site that runs the models in the browser."),
    ] = None,
    device: o.Device = "auto",
) -> None:
    """Open models in the studio, a local web page.

    Example: translucid explore

    Example: translucid explore runs/demo

    Example: translucid explore runs/lstm runs/transformer

    Example: translucid explore demo:translate --lesson lesson.py

    Example: translucid explore demo:translate --view examples/own_view.js

    Example: translucid explore runs/demo --save session.html --text "The old dog sleeps."

    Example: translucid explore --site site
    """
    if site is not None and (lesson or view or save):
        raise InputError("--site writes the built-in lessons and views; omit the other options")
    own = None if lesson is None else read(lesson)
    if view is not None:
        _check_view(view, save)
    begin = "" if own is None else f"#/lesson{_first(own)}"
    models = models or [shipped_models.find(name) for name in shipped_models.names()]
    if text is not None and save is None:
        raise InputError("--text needs --save; on the page, type the text yourself")
    if with_models and save is None:
        raise InputError("--with-models needs --save; a site always contains its models")
    if len(models) > 8:
        raise InputError(f"got {len(models)} models; the page shows at most 8")
    o.check_device(device)
    for folder in models:
        if not folder.exists():
            raise InputError(
                f"{folder}: no such folder; give a run or model folder, or another tool's model"
            )
    if save is not None:
        return _save(models, save, text, device, with_models)
    if site is not None:
        return _write_site(models, site, device)
    serving = server()
    page = serving.ready(port, view)
    announce(page, port, begin)
    typer.echo("stop with Ctrl-C", err=True)
    sys.stdout.flush()
    if browser:
        # Other users may see a browser's command line, so its address works only once. Browsers in
        # a terminal return only when they are closed, so open them in a thread.
        threading.Thread(
            target=webbrowser.open, args=(page.begin + page.once + begin,), daemon=True
        ).start()
    page.run_opening(
        lambda: _handlers(models, device, own, lesson), serving.HEAD_START if browser else 0.0
    )


def _check_view(view: Path, save: Path | None) -> None:
    """Raise an error for a view that the page cannot load. Only simple file names are allowed,
    because the name becomes part of the page's address."""
    if view.suffix != ".js" or not view.is_file() or not re.fullmatch(r"\w+", view.stem):
        raise InputError(
            f"--view {view}: no such JavaScript file; give one such as own_view.js, named with "
            "letters, digits and _"
        )
    if save is not None:
        raise InputError("--view: a saved page has only the built-in views; omit --view")


def _first(own: Lesson) -> str:
    """The query of the first address for the user's own lesson."""
    query = {"lesson": "own.1"} | ({"text": own.text} if own.text else {})
    return "?" + urlencode(query)


def announce(page: "Ready", port: int | None, begin: str = "") -> None:
    typer.echo(f"studio: {page.address}{begin}")
    if note := page.announced(port):
        typer.echo(note, err=True)


def _handlers(
    models: list[Path], device: str, own: Lesson | None = None, lesson: Path | None = None,
    text: str | None = None,
) -> "Handlers":  # fmt: skip
    """Open the models. lesson: the file of the user's own lesson. text: a text to process first."""
    from translucid.model import load
    from translucid.studio.handlers import Handlers
    from translucid.studio.library import Library, followed_runs, open_folders

    opened = open_folders(models, lambda folder: load(folder, device, say=o.print_note))
    library = Library(opened, start=secrets.token_hex(8))
    if own is not None:
        from translucid.studio.lesson_answers import refuse

        refuse(library, own, str(lesson))
    if text is not None:
        library.run(next(iter(library.opened)), text)  # refuses a bad text
    return Handlers(library, followed_runs(models, opened), own)


def _save(models: list[Path], file: Path, text: str | None, device: str, with_models: bool) -> None:
    gc.disable()  # imports leave no garbage, but collecting them would take half a second
    import translucid.studio.handlers  # noqa: F401

    gc.freeze()
    gc.enable()
    query = "" if text is None else "?" + urlencode({"text": text})
    handlers, parts = _handlers(models, device, text=text), None
    if with_models:
        from translucid.studio.browser_models import embedded

        opened = handlers.library.opened
        parts = {key: embedded(handlers.library, model) for key, model in opened.items()}
    content = handlers.saved(text, f"#/flow{query}", models=parts)
    try:
        file.write_bytes(content)
    except OSError as error:
        raise InputError(f"--save {file}: {error.strerror or error}") from error
    size = sum(len(data) for part in (parts or {}).values() for data in part["files"].values())
    of_models = f", {size / 1e6:.1f} MB of it models" if parts else ""
    typer.echo(f"saved: {file} ({len(content) / 1e6:.1f} MB{of_models})")


def _write_site(models: list[Path], folder: Path, device: str) -> None:
    from translucid.studio.site import write

    size = write(_handlers(models, device), folder)
    typer.echo(f"saved: {folder} ({size / 1e6:.1f} MB)")
    typer.echo(f"to look at it: python -m http.server --directory {shlex.quote(str(folder))}")


def server() -> Any:
    """Import the server of the page, whose packages are optional."""
    try:
        import wsproto  # noqa: F401 (uvicorn imports it only later)

        from translucid.studio.server import serve
    except ImportError as error:
        raise ConfigError(
            f"the studio needs the package {error.name}; install it with: {install_command('web')}"
        ) from error
    return serve
