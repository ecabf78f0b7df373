"""`translucid explore`: the studio, a page on this machine that opens your own models."""

import secrets
import socket
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from translucid.cli.writing_options import Device, check_device
from translucid.errors import ConfigError, InputError

LOOPBACK = ("127.0.0.1", "localhost")


def explore(
    models: Annotated[
        list[Path], typer.Argument(help="Folders that training wrote; two or more to compare.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    browser: Annotated[
        bool, typer.Option(help="Open the page; otherwise its address is printed only.")
    ] = True,
    save: Annotated[
        Path | None,
        typer.Option(help="Write all views of one text into this HTML file, and end."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="What the models read in that file; there is a default.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Open models in the studio: a page in your browser, served by and for this machine only.

    Example: translucid explore runs/demo

    Example: translucid explore runs/lstm runs/transformer

    Example: translucid explore runs/demo --save session.html --text "The old dog sleeps."
    """
    if text is not None and save is None:
        raise InputError("--text goes with --save; the page asks for a text itself")
    if len(models) > 8:
        raise InputError(f"{len(models)} models; the page shows up to 8")
    if save is not None:
        return _save(models, save, text, device)
    try:
        import uvicorn

        from translucid.studio.app import make_app
    except ImportError as error:
        raise ConfigError(
            f"the studio needs the package {error.name}; install it with: "
            'pip install "translucid[web]"'
        ) from error
    from translucid.studio.runs import Library, open_folders

    library = Library(open_folders(models, check_device(device)), start=secrets.token_hex(8))
    try:
        held = socket.create_server((LOOPBACK[0], port))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"port {port} cannot be used ({why}); leave --port out for a free one"
        ) from error
    number = held.getsockname()[1]
    token, once = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    hosts = {f"{name}:{number}" for name in LOOPBACK} | set(LOOPBACK if number == 80 else ())
    app = make_app(library, token=token, hosts=frozenset(hosts), once=once)
    begin = f"http://{LOOPBACK[0]}:{number}/open/"
    typer.echo(f"studio: {begin}{token}")
    typer.echo("stop with Ctrl-C", err=True)
    sys.stdout.flush()
    if browser:
        # Others on this machine may see a browser's command line: what stands there works once.
        # Browsers in a terminal do not return before they are left, so nobody waits for it.
        threading.Thread(target=webbrowser.open, args=(begin + once,), daemon=True).start()
    options: dict[str, Any] = {"log_level": "warning", "http": "h11", "ws": "none"}
    options |= {"lifespan": "off", "proxy_headers": False, "timeout_graceful_shutdown": 2}
    server = uvicorn.Server(uvicorn.Config(app, server_header=False, **options))
    server.run(sockets=[held])


def _save(models: list[Path], file: Path, text: str | None, device: str) -> None:
    from translucid.studio.desk import Desk
    from translucid.studio.runs import Library, open_folders

    library = Library(open_folders(models, check_device(device)))
    if text is not None:
        library.run(next(iter(library.opened)), text)  # refused here, before anything is written
    given = "" if text is None else "?" + urlencode({"text": text})
    content = Desk(library).saved(text, f"#/flow{given}")
    try:
        file.write_bytes(content)
    except OSError as error:
        raise InputError(f"--save {file}: {error.strerror or error}") from error
    typer.echo(f"saved: {file} ({len(content) / 1e6:.1f} MB)")
