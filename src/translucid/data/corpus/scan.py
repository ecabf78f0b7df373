"""Files cut into jobs: whole documents, in order, about as many bytes as one shard should take.

Every file is read once from front to back, for its digest, for the places where documents begin and
for the line numbers there. That is many times faster than encoding, which goes on meanwhile in
other processes and finds the file warm. Jobs depend on the files alone, never on who does them.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from translucid.core.errors import InputError
from translucid.data.readers.lines import Span, check_unchanged, open_binary, packing_of

Unit = Literal["line", "paragraph", "file"]
# What ends a document wherever it stands. Further blank lines (of spaces, say) end a paragraph too,
# but not every one of them must be a place to cut.
_ENDS = {"line": re.compile(rb"\n"), "paragraph": re.compile(rb"\n\r?\n")}
_LONGEST_END = 3
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Piece:
    """Whole documents of one file."""

    file: int  # its number among the inputs
    path: str
    span: Span | None  # None: the whole file, where it is packed or one document
    size: int  # in bytes as stored
    stat: os.stat_result  # what the file was when it was cut


@dataclass(frozen=True)
class Scanned:
    """A file as it was read."""

    size: int
    mtime_ns: int
    sha256: str


Job = tuple[Piece, ...]


def cut(files: Sequence[str], unit: Unit, job_bytes: int, scanned: list[Scanned]) -> Iterator[Job]:
    """The jobs, as soon as they are known; `scanned` is filled with the files on the way."""
    job: list[Piece] = []
    for number, path in enumerate(files):
        for piece in _pieces(number, path, unit, job_bytes, scanned):
            job.append(piece)
            if sum(piece.size for piece in job) >= job_bytes:
                yield tuple(job)
                job = []
    if job:
        yield tuple(job)


def _pieces(
    number: int, path: str, unit: Unit, least: int, scanned: list[Scanned]
) -> Iterator[Piece]:
    digest = hashlib.sha256()
    with open_binary(path) as file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise InputError(
                f"{path}: is no regular file, so its parts cannot be read apart; write the text "
                "into a file first"
            )
        whole = unit == "file" or packing_of(path, file) != "plain"
        start = lines_before = 0  # of the next piece
        place = lines = 0  # up to where newlines were counted, and how many
        window, base = b"", 0  # what was read last, and where that begins
        while block := file.read(_BLOCK):
            digest.update(block)
            if whole:
                continue
            keep = window[1 - _LONGEST_END :]  # an end may lie across two blocks
            window, base = keep + block, base + len(window) - len(keep)
            while (end := _first_end(window, unit, start + least - base)) is not None:
                lines += window.count(b"\n", place - base, end)
                place = base + end
                span = Span(start, place, lines_before)
                yield Piece(number, path, span, place - start, before)
                start, lines_before = place, lines
            lines += window.count(b"\n", place - base)
            place = base + len(window)
        check_unchanged(file, before, path, before.st_size)
    if whole:
        yield Piece(number, path, None, before.st_size, before)
    elif start < before.st_size or not before.st_size:
        span = Span(start, before.st_size, lines_before)
        yield Piece(number, path, span, before.st_size - start, before)
    scanned.append(Scanned(before.st_size, before.st_mtime_ns, digest.hexdigest()))


def _first_end(window: bytes, unit: Unit, least: int) -> int | None:
    """Where the first document ends that ends at or after `least`."""
    for match in _ENDS[unit].finditer(window, max(0, least - _LONGEST_END)):
        if match.end() >= least:
            return match.end()
    return None


def digest_of(path: str) -> str:
    """The sha256 of a file, as `cut` finds it."""
    with open_binary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
