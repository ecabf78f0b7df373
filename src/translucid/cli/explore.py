"""`translucid explore`: the studio, a page on this machine that opens your own models."""

import secrets
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from translucid.cli.writing_options import Device, check_device
from translucid.errors import ConfigError, InputError


def explore(
    models: Annotated[
        list[Path], typer.Argument(help="Folders that training wrote; two or more to compare.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    browser: Annotated[
        bool, typer.Option(help="Open the page; otherwise its address is printed only.")
    ] = True,
    device: Device = "auto",
) -> None:
    """Open models in the studio: a page in your browser, served by and for this machine only.

    Example: translucid explore runs/demo

    Example: translucid explore runs/lstm runs/transformer
    """
    ready = server().ready
    from translucid.studio.runs import Library, followed_runs, open_folders

    if len(models) > 8:
        raise InputError(f"{len(models)} models; the page shows up to 8")
    opened = open_folders(models, check_device(device))
    library = Library(opened, start=secrets.token_hex(8))
    page = ready(library, followed_runs(models, opened), port)
    typer.echo(f"studio: {page.address}")
    typer.echo("stop with Ctrl-C", err=True)
    sys.stdout.flush()
    if browser:
        # Others on this machine may see a browser's command line: what stands there works once.
        # Browsers in a terminal do not return before they are left, so nobody waits for it.
        threading.Thread(
            target=webbrowser.open, args=(page.begin + page.once,), daemon=True
        ).start()
    page.run()


def server() -> Any:
    """The module that serves the page, whose packages may be missing."""
    try:
        import wsproto  # noqa: F401 (uvicorn asks for it only when it begins)

        from translucid.studio import server
    except ImportError as error:
        raise ConfigError(
            f"the studio needs the package {error.name}; install it with: "
            'pip install "translucid[web]"'
        ) from error
    return server
