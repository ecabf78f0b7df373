"""Read standard input line by line, as soon as each line arrives. This is necessary because the
program that writes to the pipe may wait for the output for one line before it writes the next."""

import select
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from translucid.core.errors import InputError

Item = TypeVar("Item")
CHUNK = 1 << 16


class StandardInput:
    """A stream of bytes that can report whether a line can be read without waiting."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._raw = getattr(
            stream, "raw", stream
        )  # without Python's buffer, whose content cannot be inspected
        self._held = bytearray()
        self._ended = False
        self._read = 0

    def readline(self, limit: int = -1, /) -> bytes:
        """Read up to the end of the line, or up to `limit` bytes."""
        while not (end := self._line(limit)) and not self._ended:
            self._fill()
        end = end or len(self._held)
        line = bytes(self._held[:end])
        del self._held[:end]
        self._read += len(line)
        return line

    def peek(self, _: int = 0, /) -> bytes:
        """The bytes in the buffer, at least one line of them unless the input ends. They remain in
        the buffer."""
        while b"\n" not in self._held and not self._ended and len(self._held) < CHUNK:
            self._fill()
        return bytes(self._held)

    def tell(self) -> int:
        return self._read

    def waiting(self) -> bool:
        """Whether a whole line, or the end of the input, can be read without waiting."""
        while b"\n" not in self._held and not self._ended:
            if not self._readable():
                return False
            self._fill()
        return True

    def _line(self, limit: int) -> int:
        """The length of the first buffered line; 0 if it is not complete yet."""
        end = self._held.find(b"\n") + 1
        if limit >= 0 and (end > limit or (not end and len(self._held) >= limit)):
            return limit
        return end

    def _fill(self) -> None:
        data = self._raw.read(CHUNK)
        self._held += data or b""
        self._ended = not data

    def _readable(self) -> bool:
        try:
            return bool(select.select([self._raw.fileno()], [], [], 0)[0])
        except (OSError, ValueError):  # not a real file, so all of its content is in memory
            return True


_opened: list[StandardInput] = []


def standard_input() -> StandardInput:
    """The standard input of this process. Bytes that were peeked at are still in its buffer."""
    if sys.stdin is None:  # closed in the shell with <&-
        raise InputError("standard input is closed; pass a file, or pipe text into the command")
    if not _opened or _opened[0].stream is not sys.stdin.buffer:
        _opened[:] = [StandardInput(sys.stdin.buffer)]
    return _opened[0]


def at_once(path: str | Path, items: Iterable[Item]) -> Iterator[Item]:
    """Yield all items of a file; for standard input, only those that can be read without
    waiting."""
    iterator = iter(items)
    while str(path) != "-" or standard_input().waiting():
        try:
            yield next(iterator)
        except StopIteration:
            return
