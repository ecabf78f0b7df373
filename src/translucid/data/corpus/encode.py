"""The jobs of building a token store: files cut into whole documents, and documents encoded into
one shard of token ids.

Several processes do this side by side, so nothing here needs torch.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from translucid.core.errors import InputError
from translucid.data.readers.lines import (
    LineRule,
    LineSpan,
    check_unchanged,
    open_binary,
    packing_of,
    read_lines,
)
from translucid.data.readers.loading import Loading
from translucid.data.tokenizers.word_cache import WordCache

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
    span: LineSpan | None  # None: the whole file, where it is packed or one document
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
                span = LineSpan(start, place, lines_before)
                yield Piece(number, path, span, place - start, before)
                start, lines_before = place, lines
            lines += window.count(b"\n", place - base)
            place = base + len(window)
        check_unchanged(file, before, path, before.st_size)
    if whole:
        yield Piece(number, path, None, before.st_size, before)
    elif start < before.st_size or not before.st_size:
        span = LineSpan(start, before.st_size, lines_before)
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


TOKENIZER = "tokenizer"  # the folder beside the shards
_BATCH = 1 << 19  # characters encoded at once: more only takes memory
_MOST = 4096  # texts encoded at once

Moved = Callable[[int], None]  # told how many bytes have been read since it was told last


@dataclass(frozen=True)
class EncodingSettings:
    """What besides the files decides the ids."""

    folder: Path  # of the shards
    unit: Unit
    rule: LineRule
    dtype: Literal["<u2", "<u4"]
    max_bytes: int  # of a text that the tokenizer takes at once
    eos: int  # the token that ends a document


@dataclass
class Shard:
    """What came out of a job."""

    tokens: int = 0
    documents: int = 0
    characters: int = 0
    sha256: str = ""
    loading: dict[int, Loading] = field(default_factory=dict)  # by the number of the file


def shard_name(number: int) -> str:
    return f"{number:05d}.tokens"


def encode_job(
    job: Job, number: int, settings: EncodingSettings, words: WordCache, moved: Moved
) -> Shard:
    """Write the shard of a job, down to the disk."""
    shard = Shard()
    digest = hashlib.sha256()
    with open(settings.folder / shard_name(number), "xb") as file:
        for piece in job:
            try:
                _encode_piece(piece, shard, settings, words, _tee(file, digest.update), moved)
            except InputError:
                _check_same(piece)  # the better explanation, if so
                raise
            _check_same(piece)
        file.flush()
        os.fsync(file.fileno())
    shard.sha256 = digest.hexdigest()
    return shard


def _tee(file: BinaryIO, other: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        file.write(data)
        other(data)

    return write


def _check_same(piece: Piece) -> None:
    with open_binary(piece.path) as file:
        check_unchanged(file, piece.stat, piece.path)


def _encode_piece(
    piece: Piece,
    shard: Shard,
    settings: EncodingSettings,
    words: WordCache,
    write: Callable[[bytes], None],
    moved: Moved,
) -> None:
    loading = shard.loading[piece.file] = Loading(piece.path)
    start = piece.span.start if piece.span else 0
    place = done = start

    def report(now: int) -> None:
        nonlocal place
        place = now

    lines = read_lines(piece.path, settings.rule, loading=loading, span=piece.span, report=report)
    for texts, ended in _batches(parts(lines, settings.unit, settings.max_bytes, loading)):
        ids: list[int] = []
        for encoded, end in zip(words.encode_batch(texts), ended, strict=True):
            ids += encoded
            if end:
                ids.append(settings.eos)
        write(np.array(ids, dtype=settings.dtype).tobytes())
        shard.tokens += len(ids)
        shard.documents += sum(ended)
        shard.characters += sum(map(len, texts)) + sum(ended)
        moved(place - done)
        done = place
    moved(start + piece.size - done)


def parts(
    lines: Iterable[tuple[int, str | None]], unit: Unit, max_bytes: int, loading: Loading
) -> Iterator[tuple[str, bool]]:
    """Documents as the readers find them, in parts as `Tokenizer.encode_document` takes them: each
    with whether it ends a document. However long a document is, few of its lines are held."""
    held: list[str] = []
    size = -1  # of the document so far, its lines joined
    for number, text in lines:
        if text is None:
            continue
        blank = unit != "file" and not text.strip()
        if unit == "line" and blank:
            loading.leave_out("empty", number)
        if not blank:
            held.append(text)
            size += 1 + (len(text) if text.isascii() else len(text.encode()))
            if size > max_bytes:  # too long at once, so it goes line by line
                yield from ((line + "\n", False) for line in held[:-1])
                del held[:-1]
        if held and (blank or unit == "line"):
            loading.records += 1
            yield "\n".join(held), True
            held, size = [], -1
    if held:
        loading.records += 1
        yield "\n".join(held), True


def _batches(parts: Iterable[tuple[str, bool]]) -> Iterator[tuple[list[str], list[bool]]]:
    texts: list[str] = []
    ended: list[bool] = []
    size = 0
    for text, end in parts:
        texts.append(text)
        ended.append(end)
        size += len(text)
        if size >= _BATCH or len(texts) == _MOST:
            yield texts, ended
            texts, ended, size = [], [], 0
    if texts:
        yield texts, ended
