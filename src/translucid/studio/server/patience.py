"""Connections that must say what they want in time: the head of a request has a deadline, also
when it comes byte by byte, and there are only so many at once. (Bodies have one in `guard`.)"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0  # seconds in which the head of a request must have come
MOST = 256  # connections at once
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class PatientProtocol(H11Protocol):
    """uvicorn's, which waits for ever for the first request of a connection."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """The deadline runs as long as a head is awaited, whatever of it has come."""
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
