"""`translucid explore`: the studio, a page on this machine that opens your own models."""

import secrets
import socket
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

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
    device: Device = "auto",
) -> None:
    """Open models in the studio: a page in your browser, served by and for this machine only.

    Example: translucid explore runs/demo

    Example: translucid explore runs/lstm runs/transformer
    """
    try:
        import uvicorn

        from translucid.studio.app import make_app
    except ImportError as error:
        raise ConfigError(
            f"the studio needs the package {error.name}; install it with: "
            'pip install "translucid[web]"'
        ) from error
    from translucid.studio.runs import Library, open_folders

    if len(models) > 8:
        raise InputError(f"{len(models)} models; the page shows up to 8")
    library = Library(open_folders(models, check_device(device)))
    try:
        held = socket.create_server((LOOPBACK[0], port))
    except OSError as error:
        raise InputError(
            f"port {port} cannot be used ({error.strerror}); leave --port out for a free one"
        ) from error
    number = held.getsockname()[1]
    token = secrets.token_urlsafe(24)
    hosts = frozenset(f"{name}:{number}" for name in LOOPBACK)
    app = make_app(library, token=token, hosts=hosts)
    address = f"http://{LOOPBACK[0]}:{number}/open/{token}"
    typer.echo(f"studio: {address}")
    typer.echo("stop with Ctrl-C", err=True)
    sys.stdout.flush()
    if browser:
        webbrowser.open(address)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", lifespan="off"))
    server.run(sockets=[held])
