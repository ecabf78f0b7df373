"""Run the studio's server on a local port, alone or during training; slow clients are dropped."""

import asyncio
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from translucid.core.errors import InputError
from translucid.studio.server.app import make_app

if TYPE_CHECKING:  # imports torch, which must not delay the page
    from translucid.studio.handlers import Handlers

HEAD = 10.0  # seconds within which a request's headers must be complete
MOST = 256  # concurrent connections
LEAVE = 2.0  # seconds after which a refused client that sends nothing more is disconnected
LONGEST_LEAVE = 20.0  # seconds for a refused client that is still sending
MOST_UNREAD = 16_000_000  # bytes that a refused client may still send
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
REASON = b'{"error": {"message": "too many connections; try again later"}}'
TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(REASON) + REASON
)


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with a deadline for headers, which uvicorn itself does not have, and a
    limit on the number of connections. A connection above the limit gets status 503; one above
    twice the limit is closed without an answer."""

    _deadline: asyncio.TimerHandle | None = None
    _superfluous = False  # above the limit
    _unread: int | None = None  # bytes that came after a request was refused

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        count, most = len(self.connections), self.most_connections()
        if count > 2 * most:
            transport.abort()
            return
        self._superfluous = count > most
        if self._superfluous:
            self._deadline = self.loop.call_later(LEAVE, self.refuse, TOO_MANY)
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        if self._unread is not None:
            self._unread += len(data)
            if self._unread > MOST_UNREAD:
                self.transport.abort()
        elif self._superfluous:
            self.refuse(TOO_MANY)
        else:
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def most_connections(self) -> int:
        return MOST

    @property
    def is_refused(self) -> bool:
        """Whether all requests on this connection are refused."""
        return self._superfluous or self._unread is not None

    def refuse(self, answer: bytes) -> None:
        """Send an answer, and read what the client still sends before closing the connection. If it
        were closed at once, it would be reset, and the client might not see the answer."""
        self._forget()
        self._unset_keepalive_if_required()
        self._unread = 0
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.write_eof()
            until = self.loop.time() + LONGEST_LEAVE
            self._deadline = self.loop.call_later(LEAVE, self._leave, until, 0)

    def _leave(self, until: float, before: int) -> None:
        """Close the connection, unless the client has sent more since the last call."""
        assert self._unread is not None
        if self._unread > before and self.loop.time() < until:
            self._deadline = self.loop.call_later(LEAVE, self._leave, until, self._unread)
        else:
            self.transport.abort()

    def _watch(self) -> None:
        """Run the deadline timer while the headers of a request are incomplete."""
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD, self._end)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.write(TOO_SLOW)
            self.transport.close()


PORT = 8642  # the default
PORTS = 20  # how many ports to try, starting at the default
LOOPBACK = ("127.0.0.1", "localhost")
FAREWELL = 5.0  # seconds to send the end of training to all pages
HEAD_START = 3.0  # maximum seconds for the browser to load the page before models are opened
AFTERWARDS = 0.5  # seconds for pages to request the last table
OPTIONS: dict[str, Any] = {
    "log_level": "warning", "http": PatientProtocol, "ws": "wsproto", "ws_max_size": 1024,
    "lifespan": "off", "proxy_headers": False, "timeout_graceful_shutdown": 2,
    "server_header": False,
}  # fmt: skip


@dataclass(frozen=True)
class Ready:
    """A server that holds its port but has not started."""

    server: uvicorn.Server
    held: socket.socket
    begin: str  # start of the address; a token follows
    token: str
    once: str  # a token that works a single time
    opening: "Future[Handlers]"
    loaded: threading.Event  # set when a page has loaded its files

    @property
    def address(self) -> str:
        return self.begin + self.token

    def announced(self, asked: int | None) -> str:
        """A message if the default port was in use; otherwise empty. asked: the port that the user
        asked for, if any."""
        number = self.held.getsockname()[1]
        usual = asked is not None or number == PORT
        return "" if usual else f"port {PORT} is in use (another studio?); using port {number}"

    def run(self) -> None:
        """Serve until Ctrl-C."""
        self.server.run(sockets=[self.held])

    def run_opening(self, opened: "Callable[[], Handlers]", after: float = 0.0) -> None:
        """Serve until Ctrl-C. A thread opens the models once a page has loaded its files, or after
        `after` seconds, since importing torch would slow the page down. If the models cannot be
        opened, waiting pages get the error and the server stops."""
        thread = threading.Thread(target=self._open, args=(opened, after), name="opening")
        thread.start()
        self.run()
        thread.join()
        self.opening.result()

    def _open(self, opened: "Callable[[], Handlers]", after: float) -> None:
        try:
            self.loaded.wait(after)
            self.opening.set_result(opened())
        except BaseException as error:
            self.opening.set_exception(error)
            self.server.should_exit = True

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Serve on a separate thread for the duration of the block."""
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
        followed, until = self.opening.result().followed.values(), FAREWELL
        listened = any(run.pages for run in followed)
        while until > 0 and any(run.owed for run in followed):
            time.sleep(0.05)
            until -= 0.05
        if listened:
            time.sleep(AFTERWARDS)


def ready(port: int | None, view: Path | None = None) -> Ready:
    """Bind a port. For None, it is the default port or, if that is in use, the next free one; for
    0, any free port. view: a JavaScript file with the user's own view."""
    held = _usual() if port is None else _taken(port)
    # Set TCP_NODELAY, which asyncio only does for sockets with an explicit protocol; without it,
    # every answer waits 40 ms for an acknowledgement.
    held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number = held.getsockname()[1]
    token, once = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    hosts = {f"{name}:{number}" for name in LOOPBACK} | set(LOOPBACK if number == 80 else ())
    opening: Future[Handlers] = Future()
    loaded = threading.Event()
    app = make_app(
        opening, token=token, hosts=frozenset(hosts), once=once, view=view, loaded=loaded
    )
    server = uvicorn.Server(uvicorn.Config(app, **OPTIONS))
    return Ready(server, held, f"http://{LOOPBACK[0]}:{number}/open/", token, once, opening, loaded)


def _taken(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK[0], port))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot use port {port} ({why}); omit --port to use a free one"
        ) from error


def _usual() -> socket.socket:
    """Bind the default port if possible, so that links and bookmarks keep working."""
    for port in range(PORT, PORT + PORTS):
        with suppress(OSError):
            return socket.create_server((LOOPBACK[0], port))
    return _taken(0)


def for_training(folder: Path, port: int | None) -> Ready:
    """A server for a run that is about to start: it follows the run's files and opens no model."""
    from translucid.studio.handlers import Handlers
    from translucid.studio.library import Library
    from translucid.studio.run_follower import RunFollower

    page = ready(port)
    page.opening.set_result(
        Handlers(Library({}), {"a": RunFollower(folder, folder.resolve().name)})
    )
    return page
