"""Connections of clients. Requests above the limits are refused at once, before they are parsed, so
that refusing many of them leaves the processor to the others."""

import asyncio
import json
import logging
import re
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import Any

import h11
import uvicorn

from translucid.serving.access import HEADERS, Load
from translucid.serving.bodies import LIBRE_PATHS, ApiError
from translucid.serving.metrics import Metrics
from translucid.serving.served import Models
from translucid.studio.server.serve import LEAVE, MOST_UNREAD, PatientProtocol

log = logging.getLogger(__name__)
CONNECTIONS = 4096  # at the same time; more are refused
ONE_READ = 1 << 20  # bytes
ENTERING = 1.0  # seconds for which a request that has not arrived completely keeps its place
LARGEST_HEAD = 8192  # bytes in which headers and the model's name are looked for
UNREAD = 30.0  # seconds in which a client must read some of its answer
LEAST_READ = 16_000  # bytes, or all that is left
ACCEPTING = 0.01  # seconds in which connections are accepted in one turn of the event loop
SILENT = 5.0  # seconds for which a new connection may be silent before it gets a protocol
AT_ONCE = 16  # accepted connections whose requests are read in one turn
SWEEP = 0.05  # seconds between two looks at the connections that were refused
PAUSE = 1.0  # seconds, if no connection can be accepted, as with too many open files
CLOSING = 0.05  # seconds between two looks at the requests that are left when the server stops
_LIBRE = tuple(f"POST {path}".encode() for path in LIBRE_PATHS)
_TAG = re.compile(rb"\r\nx-request-id:[ \t]*([\w.:/+=-]{1,128})[ \t]*\r\n", re.IGNORECASE)
_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,200})"')  # quotes in texts are escaped
_ORIGIN = re.compile(rb"\r\norigin:", re.IGNORECASE)


class Refusals:
    """Decides which requests are refused at once, and counts them."""

    def __init__(
        self, load: Load, metrics: Metrics, log: Callable[[str], None] | None, models: Models
    ) -> None:
        """log: receives a line of JSON for each second in which requests were refused."""
        self.load, self.metrics, self.log = load, metrics, log
        self._engines = {name.encode(): one.engine for name, one in models.items()}
        self._counts: Counter[int] = Counter()  # by status, since the last line of the log

    @property
    def possible(self) -> bool:
        """Whether some requests are refused now."""
        return self.load.full or any(engine.full for engine in self._engines.values())

    def answer(self, data: bytes) -> bytes | None:
        """The answer that refuses the request that begins with these bytes, or None to accept it.
        Accepted are requests without a body, and those of other sites' pages, which need more
        headers to read the answer."""
        if not (self.possible and data.startswith(b"POST ")) or _ORIGIN.search(
            data, 0, LARGEST_HEAD
        ):
            return None
        if not self.load.full:
            name = _MODEL.search(data, 0, LARGEST_HEAD)
            engine = self._engines.get(name[1]) if name else None
            if engine is None or not engine.full:
                return None
        error = self.load.refusal()
        self._count(error.status)
        tag = _TAG.search(data, 0, LARGEST_HEAD)
        return prepared(error, data.startswith(_LIBRE), tag[1] if tag else b"")

    def _count(self, status: int) -> None:
        self.metrics.refused(status)
        if self.log is not None:
            if not self._counts:
                asyncio.get_running_loop().call_later(1.0, self._write)
            self._counts[status] += 1

    def _write(self) -> None:
        assert self.log is not None
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for status, count in self._counts.items():
            self.log(json.dumps({"time": at, "refused": count, "status": status}))
        self._counts.clear()


def prepared(error: ApiError, libre: bool, tag: bytes = b"") -> bytes:
    """An error as a whole HTTP response, after which the connection is closed. libre: in the shape
    of LibreTranslate's API. tag: the request id."""
    body = json.dumps(error.content(libre)).encode()
    status = HTTPStatus(error.status)
    headers = [
        (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"%d" % error.seconds), (b"connection", b"close"), *HEADERS,
        *([(b"x-request-id", tag)] if tag else []),
    ]  # fmt: skip
    first = f"HTTP/1.1 {status.value} {status.phrase}".encode()
    return b"\r\n".join([first, *(b"%s: %s" % pair for pair in headers), b"", body])


class ServingProtocol(PatientProtocol):
    """uvicorn's protocol for many connections, which refuses requests at once."""

    def __init__(self, refusals: Refusals, **options: Any) -> None:
        # Each request has a copy of app_state as its state, so that Load can report that it has
        # counted the request.
        super().__init__(**options | {"app_state": {"counted": self._counted}})
        self.refusals = refusals
        self._place: asyncio.TimerHandle | None = None  # counted in Load.entering until then
        self._reading: asyncio.TimerHandle | None = None  # while the client has not read all

    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits(high=0)  # so that pause_writing means: something waits
        super().connection_made(transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        self._stop_reading()
        super().resume_writing()

    def _await_reading(self) -> None:
        self._stop_reading()
        self._reading = self.loop.call_later(UNREAD, self._check_reading, self._not_received())

    def _not_received(self) -> int:
        """The bytes that the client has not received, also those that the operating system holds,
        which can be megabytes."""
        size = self.transport.get_write_buffer_size()
        with suppress(ImportError, OSError, ValueError):  # Windows has no termios
            from fcntl import ioctl
            from termios import TIOCOUTQ

            held = ioctl(self.transport.get_extra_info("socket").fileno(), TIOCOUTQ, bytes(4))
            size += int.from_bytes(held, sys.byteorder)
        return size

    def _check_reading(self, before: int) -> None:
        """Disconnect a client that does not read its answer, so that its rows become free. The
        connection is reset, since closing it would leave the rest to the operating system."""
        if before - self._not_received() < LEAST_READ:
            with suppress(OSError):
                self.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            self.transport.abort()
        else:
            self._await_reading()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def data_received(self, data: bytes) -> None:
        """Refuse a new request, or keep a place for it until it is counted."""
        idle = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        if idle and not self.is_refused:
            answer = self.refusals.answer(data)
            if answer is not None:
                self.refuse(answer)
                return
            if self._place is None:
                self.refusals.load.entering += 1
                self._place = self.loop.call_later(ENTERING, self._counted)
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._counted()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_reading()
        self._counted()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection after its answer. A client that was refused leaves by itself."""
        if not self.is_refused:
            super().shutdown()

    def most_connections(self) -> int:
        return CONNECTIONS

    def _counted(self) -> None:
        """The request is counted in Load.requests, or has ended, or arrives too slowly."""
        if self._place is not None:
            self._place.cancel()
            self._place = None
            self.refusals.load.entering -= 1


class Leaving:
    """Connections whose request was refused. They are closed when the client has closed them: if it
    still sends, closing would reset the connection, and the client might not see the answer."""

    def __init__(self) -> None:
        self._all: list[tuple[socket.socket, float, int]] = []  # with deadline and bytes to discard

    def add(self, connection: socket.socket, answer: bytes) -> None:
        try:
            connection.send(answer)
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # the client has left
            connection.close()
            return
        if not self._all:
            asyncio.get_running_loop().call_later(SWEEP, self._sweep)
        self._all.append((connection, time.monotonic() + LEAVE, MOST_UNREAD))

    def close(self) -> None:
        for connection, _, _ in self._all:
            connection.close()
        self._all.clear()

    def _sweep(self) -> None:
        now = time.monotonic()
        still = []
        for connection, until, most in self._all:
            try:
                data = connection.recv(min(most, ONE_READ))
            except BlockingIOError:
                if now < until:
                    still.append((connection, until, most))
                    continue
                data = b""
            except OSError:
                data = b""
            if data:
                still.append((connection, now + LEAVE, most - len(data)))
            else:
                connection.close()
        self._all = still
        if still:
            asyncio.get_running_loop().call_later(SWEEP, self._sweep)


class HttpServer(uvicorn.Server):
    """uvicorn's server with its own accept loop. It accepts all connections at once, but in each
    turn of the event loop it reads only a few new requests, so that accepted ones are not delayed.
    """

    def __init__(self, config: uvicorn.Config, refusals: Refusals) -> None:
        super().__init__(config)
        self.refusals, self._leaving = refusals, Leaving()
        self._waiting: deque[socket.socket] = deque()  # with a request; they count in Load.entering
        self._connecting: set[asyncio.Task[Any]] = set()
        self.silent: dict[socket.socket, asyncio.TimerHandle] = {}  # without a request until now

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._accepting = [asyncio.create_task(self._accept(held)) for held in sockets or []]

    async def main_loop(self) -> None:
        """Serve until the process is asked to stop, then until the accepted requests are finished.
        Meanwhile, `/ready` and new requests are answered with status 503."""
        await super().main_loop()
        load, loop = self.refusals.load, asyncio.get_running_loop()
        load.closing = True
        until = loop.time() + (self.config.timeout_graceful_shutdown or 0)
        while load.requests and not self.force_exit and loop.time() < until:
            await asyncio.sleep(CLOSING)
        self.config.timeout_graceful_shutdown = max(0, ceil(until - loop.time()))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._accepting:
            task.cancel()
        for connection in list(self.silent):
            self._heard(connection)
            self._waiting.append(connection)
        for connection in self._waiting:
            connection.close()
        self._leaving.close()
        await super().shutdown(sockets)

    async def _accept(self, held: socket.socket) -> None:
        """Accept all connections, so that each is refused or has its place in the queue: the
        operating system resets those that it has held for too long."""
        loop = asyncio.get_running_loop()
        held.setblocking(False)
        turn = loop.time()
        while True:
            began = loop.time()
            until = began + max(ACCEPTING, began - turn)  # as long as the rest of the last turn
            while len(self._waiting) < CONNECTIONS and loop.time() < until:
                try:
                    connection, _ = await loop.sock_accept(held)
                except OSError as error:
                    log.warning("no connection can be accepted: %s", error)
                    await asyncio.sleep(PAUSE)
                else:
                    self._admit(connection)
            turn = loop.time()
            await asyncio.sleep(0)

    def _admit(self, connection: socket.socket) -> None:
        """Refuse a request without giving its connection to the event loop, which takes longer, or
        let it wait for its turn. A connection that has sent nothing gets its protocol at once,
        unless requests are being refused: then its request will probably be refused, too."""
        data = _first_bytes(connection)
        answer = self.refusals.answer(data or b"")
        if answer is not None:
            self._leaving.add(connection, answer)
        elif data:
            if not self._waiting:
                asyncio.get_running_loop().call_soon(self._read_some)
            self._waiting.append(connection)
            self.refusals.load.entering += 1
        elif data is None and self.refusals.possible and len(self.silent) < CONNECTIONS:
            loop = asyncio.get_running_loop()
            self.silent[connection] = loop.call_later(SILENT, self._hear, connection)
            loop.add_reader(connection, self._hear, connection)
        else:
            self._connect(connection)

    def _hear(self, connection: socket.socket) -> None:
        """A silent connection has sent something, or has been silent for too long."""
        self._heard(connection)
        if _first_bytes(connection):
            self._admit(connection)
        else:
            self._connect(connection)

    def _heard(self, connection: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(connection)
        self.silent.pop(connection).cancel()

    def _read_some(self) -> None:
        """Read the requests that wait the longest."""
        for _ in range(min(AT_ONCE, len(self._waiting))):
            self.refusals.load.entering -= 1
            self._connect(self._waiting.popleft())
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._read_some)

    def _connect(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        options = {"config": self.config, "server_state": self.server_state, "app_state": {}}
        make = partial(ServingProtocol, self.refusals, **options)
        task = loop.create_task(loop.connect_accepted_socket(make, connection))
        self._connecting.add(task)
        task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[Any]) -> None:
        self._connecting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a connection failed: %s", error)


def _first_bytes(connection: socket.socket) -> bytes | None:
    """What a connection has sent first, or None if nothing has arrived; empty if it is closed."""
    try:
        return connection.recv(LARGEST_HEAD, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
