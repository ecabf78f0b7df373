"""The studio's server on a port of this machine: for itself, or beside a training."""

import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from translucid.errors import InputError
from translucid.studio.app import make_app
from translucid.studio.following import Followed
from translucid.studio.runs import Library

LOOPBACK = ("127.0.0.1", "localhost")
FAREWELL = 5.0  # seconds, at most, in which pages are told how a training ended
AFTERWARDS = 0.5  # seconds in which they may ask for the last table
OPTIONS: dict[str, Any] = {
    "log_level": "warning", "http": "h11", "ws": "wsproto", "ws_max_size": 1024, "lifespan": "off",
    "proxy_headers": False, "timeout_graceful_shutdown": 2, "server_header": False,
}  # fmt: skip


@dataclass(frozen=True)
class Ready:
    """A server that holds its port and has not begun."""

    server: uvicorn.Server
    held: socket.socket
    begin: str  # of an address; a token follows
    token: str
    once: str  # works a single time
    followed: Mapping[str, Followed]

    @property
    def address(self) -> str:
        return self.begin + self.token

    def run(self) -> None:
        """Until Ctrl-C."""
        self.server.run(sockets=[self.held])

    @contextmanager
    def beside(self) -> Iterator[None]:
        """On a thread of its own, as long as the block lasts."""
        thread = threading.Thread(target=self.run, name="studio", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._say_goodbye()
            self.server.should_exit = True
            thread.join(5)
            self.held.close()

    def _say_goodbye(self) -> None:
        listened, until = any(run.pages for run in self.followed.values()), FAREWELL
        while until > 0 and any(run.owed for run in self.followed.values()):
            time.sleep(0.05)
            until -= 0.05
        if listened:
            time.sleep(AFTERWARDS)


def ready(library: Library, followed: Mapping[str, Followed], port: int) -> Ready:
    """Take a port of this machine, any for 0."""
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
    app = make_app(library, token=token, hosts=frozenset(hosts), once=once, followed=followed)
    server = uvicorn.Server(uvicorn.Config(app, **OPTIONS))
    return Ready(server, held, f"http://{LOOPBACK[0]}:{number}/open/", token, once, followed)


def beside_training(folder: Path, port: int) -> Ready:
    """For a run that is about to begin: there is no model to open, only its files to follow."""
    run = Followed(folder, folder.resolve().name)
    return ready(Library({}), {"a": run}, port)
