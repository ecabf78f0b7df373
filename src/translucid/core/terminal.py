"""Escape control characters in terminal output.

Data, labels and names may contain sequences that set a terminal's title, clear its screen, simulate
input or reverse text. The command line escapes them in one place, where it writes; piped output is
data and is not changed.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_TURNING = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_SHOWN = {
    number: f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
    for number in (*_CONTROLS, *_TURNING, *range(0xD800, 0xE000))
    if chr(number) not in "\n\t"
}

# Bold, dim, green and plain are used in Translucid's own output and harmless.
_STYLES = re.compile(r"(\x1b\[(?:0|1|2|32|1;32)m)")


def visible(text: str) -> str:
    """Escape control characters, such as ESC as \\x1b; line ends and tabs are kept."""
    return text if text.isascii() and text.isprintable() else text.translate(_SHOWN)


class _Visible:
    """Wrap a stream and escape what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        pieces = _STYLES.split(text)  # every second one is a style
        self.raw.write("".join(p if n % 2 else visible(p) for n, p in enumerate(pieces)))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def raw(stream: Any) -> Any:
    """The stream that a wrapped stream writes to, for output that uses control sequences."""
    return stream.raw if isinstance(stream, _Visible) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Escape control characters in the output of the block: always on standard error, and on
    standard output if it is a terminal."""
    before = {"stdout": sys.stdout, "stderr": sys.stderr}
    ours = {"stderr": _Visible(sys.stderr)}
    if sys.stdout is not None and sys.stdout.isatty():
        ours["stdout"] = _Visible(sys.stdout)
    for name, stream in ours.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in ours.items():
            if getattr(sys, name) is stream:  # typer replaces it when the pipe is closed
                setattr(sys, name, before[name])
