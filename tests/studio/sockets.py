"""A client for the studio's WebSocket, for tests: wsproto without a browser."""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.studio.serving import Served
from wsproto import ConnectionType, WSConnection
from wsproto.events import BytesMessage, CloseConnection, Ping, Request, TextMessage
from wsproto.utilities import generate_nonce

from translucid.studio.tensors import unpacked


def shake(studio: Served, path: str, headers: Mapping[str, Any] | None = None) -> bytes:
    """The first line of the answer to a handshake in which these headers replace honest ones."""
    given = {**studio.honest, **(headers or {})}
    given.pop("content-type")
    given |= {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
              "sec-websocket-key": generate_nonce().decode()}  # fmt: skip
    lines = [f"GET {path} HTTP/1.1"]
    for name, values in given.items():
        lines += [
            f"{name}: {value}"
            for value in (values if isinstance(values, list) else [values])
            if value is not None
        ]
    with socket.create_connection(("127.0.0.1", studio.port), timeout=180) as link:
        link.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        return link.recv(65536).split(b"\r\n")[0]


class Ear:
    """A client that receives what the Train view would receive."""

    def __init__(self, link: socket.socket, studio: Served, path: str) -> None:
        self.link, self.closed = link, None
        self.bytes: list[tuple[float, int]] = []  # time and number of received bytes
        self._heard: list[Any] = []
        self._ws = WSConnection(ConnectionType.CLIENT)
        extra = [(b"origin", studio.honest["origin"].encode()),
                 (b"cookie", studio.honest["cookie"].encode())]  # fmt: skip
        link.sendall(self._ws.send(Request(host=studio.host, target=path, extra_headers=extra)))

    def say(self, text: str) -> None:
        self.link.sendall(self._ws.send(TextMessage(data=text)))

    def hear(self, within: float = 180) -> Any:
        """The next message: an object of JSON, or a list of frames; None if the connection is
        closed."""
        until = time.monotonic() + within
        while not self._heard:
            if self.closed is not None:
                return None
            self.link.settimeout(max(0.01, until - time.monotonic()))
            read = self.link.recv(65536)
            self._ws.receive_data(read or None)
            self._take()
        return self._heard.pop(0)

    def _take(self) -> None:
        parts: list[Any] = getattr(self, "_parts", [])
        for event in self._ws.events():
            if isinstance(event, CloseConnection):
                self.closed = event.code
            elif isinstance(event, Ping):
                self.link.sendall(self._ws.send(event.response()))
            elif isinstance(event, TextMessage | BytesMessage):
                parts.append(event.data)
                if event.message_finished:
                    whole = parts[0][:0].join(
                        bytes(p) if not isinstance(p, str) else p for p in parts
                    )
                    self.bytes.append((time.monotonic(), len(whole)))
                    self._heard.append(
                        json.loads(whole) if isinstance(whole, str) else unpacked(bytes(whole))
                    )
                    parts = []
        self._parts = parts


@contextmanager
def listening(studio: Served, path: str) -> Iterator[Ear]:
    with socket.create_connection(("127.0.0.1", studio.port), timeout=180) as link:
        yield Ear(link, studio, path)
