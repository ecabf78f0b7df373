"""Encode text files for a token store. A job encodes whole documents of the input files into one
shard of token ids.

Several processes run jobs in parallel. They start faster without torch, so nothing here needs it.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

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
from translucid.data.tokenizers.imported import IMPORTED
from translucid.data.tokenizers.tokenizer import Tokenizer

Unit = Literal["line", "paragraph", "file"]
# Ends of documents, at which a file may be cut. A line of spaces also ends a paragraph, but files
# are not cut there.
_ENDS = {"line": re.compile(rb"\n"), "paragraph": re.compile(rb"\n\r?\n")}
_LONGEST_END = 3
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Piece:
    """A part of one file that consists of whole documents."""

    file: int  # index of the file among the inputs
    path: str
    span: LineSpan | None  # None: the whole file, which is compressed or a single document
    size: int  # size in bytes, before decompression
    stat: os.stat_result  # status of the file when it was cut


@dataclass(frozen=True)
class Scanned:
    """The size, modification time and digest that an input file had when it was read."""

    size: int
    mtime_ns: int
    sha256: str


Job = tuple[Piece, ...]


def cut(files: Sequence[str], unit: Unit, job_bytes: int, scanned: list[Scanned]) -> Iterator[Job]:
    """Yield jobs with at least `job_bytes` of text each. When a file has been read completely, it
    is appended to `scanned`."""
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
                f"{path} is not a regular file, so several processes cannot read it; write the "
                "text to a file first"
            )
        whole = unit == "file" or packing_of(path, file) != "plain"
        start = lines_before = 0  # offset of the next piece, and number of lines before it
        place = lines = 0  # offset up to which newlines were counted, and their number
        window, base = b"", 0  # the bytes read last, and their offset in the file
        while block := file.read(_BLOCK):
            digest.update(block)
            if whole:
                continue
            keep = window[1 - _LONGEST_END :]  # the end of a document may cross two blocks
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
    """The index after the first end of a document at or after `least`; None if there is none."""
    for match in _ENDS[unit].finditer(window, max(0, least - _LONGEST_END)):
        if match.end() >= least:
            return match.end()
    return None


_PLACE = re.compile(r" (?<=\S )")
_MARK = "\0"  # readers reject it in text
_LONG_PIECE = 48  # characters; longer pieces seldom repeat
_MOST_PIECES = 1 << 18  # number of cached pieces, about 90 MB


class WordCache:
    """A cache that makes `Tokenizer.encode_batch` several times faster, because each word is
    encoded only once.

    Tokenizers trained with Translucid split text before a space that follows a visible character,
    and no token crosses such a boundary. So the ids of a text are the concatenated ids of the
    pieces between these boundaries. Imported tokenizers may behave differently, so they encode
    whole texts.
    """

    def __init__(self, tokenizer: Tokenizer, most: int = _MOST_PIECES) -> None:
        self._tokenizer, self._most = tokenizer, most
        self._known: dict[str, list[int]] = {}

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        pieces = [self._split(text) for text in texts]
        known = self._known
        if len(known) > self._most:
            known.clear()  # common words are soon cached again
        new = [piece for piece in set(chain.from_iterable(pieces)) if piece not in known]
        known.update(zip(new, self._tokenizer.encode_batch(new), strict=True))
        ids = [list(chain.from_iterable(map(known.__getitem__, own))) for own in pieces]
        for piece in new:
            if len(piece) > _LONG_PIECE:
                del known[piece]
        return ids

    def _split(self, text: str) -> list[str]:
        # A text above the limit is passed on unsplit, so that the tokenizer rejects it.
        small = len(text) <= self._tokenizer.max_bytes // 4 or (
            len(text.encode()) <= self._tokenizer.max_bytes
        )
        if not small or _MARK in text or self._tokenizer.kind == IMPORTED:
            return [text]
        if " ".join(text.split()) == text:  # the common case, without a search
            return text.replace(" ", _MARK + " ").split(_MARK)
        return _PLACE.sub(_MARK + " ", text).split(_MARK)


TOKENIZER = "tokenizer"  # the folder next to the shards
_BATCH = 1 << 19  # characters encoded at once; more would need more memory and not be faster
_MOST = 4096  # maximum number of texts encoded at once

Moved = Callable[[int], None]  # called with the number of bytes read since the last call


@dataclass(frozen=True)
class EncodingSettings:
    """Settings that, together with the files, determine the token ids."""

    folder: Path  # folder of the shards
    unit: Unit
    rule: LineRule
    dtype: Literal["<u2", "<u4"]
    max_bytes: int  # size of the longest text that is encoded as a whole
    eos: int  # the token that ends a document


@dataclass
class Shard:
    """The result of a job: a file of token ids, described by its counts and digest."""

    tokens: int = 0
    documents: int = 0
    characters: int = 0
    sha256: str = ""
    loading: dict[int, Loading] = field(default_factory=dict)  # by the index of the input file


def shard_name(number: int) -> str:
    return f"{number:05d}.tokens"


def encode_job(
    job: Job, number: int, settings: EncodingSettings, words: WordCache, moved: Moved
) -> Shard:
    """Encode a job, write its shard and flush it to disk. Return the counts and the digest of the
    shard."""
    shard = Shard()
    digest = hashlib.sha256()
    with open(settings.folder / shard_name(number), "xb") as file:

        def write(data: bytes) -> None:
            file.write(data)
            digest.update(data)

        for piece in job:
            try:
                _encode_piece(piece, shard, settings, words, write, moved)
            except InputError:
                _check_same(piece)  # if the file changed, that explains the error
                raise
            _check_same(piece)
        file.flush()
        os.fsync(file.fileno())
    shard.sha256 = digest.hexdigest()
    return shard


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
    """Split documents into the parts that `Tokenizer.encode_document` encodes one by one. Yield
    each part, and whether it ends a document. Even for a very long document, only a few lines are
    kept in memory."""
    held: list[str] = []
    size = -1  # bytes of the document so far, with line ends
    for number, text in lines:
        if text is None:
            continue
        blank = unit != "file" and not text.strip()
        if unit == "line" and blank:
            loading.leave_out("empty", number)
        if not blank:
            held.append(text)
            size += 1 + (len(text) if text.isascii() else len(text.encode()))
            if size > max_bytes:  # too long to encode as a whole, so line by line
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
