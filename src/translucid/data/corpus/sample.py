"""A representative sample of a large corpus, from which a vocabulary is learned.

It consists of blocks of whole lines, evenly spaced over all files. Nothing else is read, and the
same files always give the same sample.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from translucid.core.errors import ConfigError, InputError
from translucid.data.corpus.encode import Unit, parts
from translucid.data.readers.lines import (
    DEFAULT,
    LineRule,
    LineSpan,
    open_binary,
    packing_of,
    read_lines,
)
from translucid.data.readers.loading import Loading
from translucid.data.tokenizers.pipelines import MAX_BYTES

SAMPLE = 100_000_000  # bytes, far more than needed for a vocabulary of usual size
_BLOCKS = 1000  # more blocks would only be slower; fewer could miss a part of the corpus


def sample_texts(
    files: Sequence[str | Path],
    most: int = SAMPLE,
    *,
    unit: Unit = "line",
    rule: LineRule = DEFAULT,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[str]:
    """Yield about `most` bytes of the files as texts for `Tokenizer.train`, or everything if the
    files are smaller.

    Compressed files are sampled from the beginning. `say` is called with the size of the sample
    before the first text.
    """
    if most < 1:
        raise ConfigError(f"most = {most}: the size of the sample must be at least 1 byte")
    sizes = [_size(file) for file in files]
    total = sum(sizes)
    if total <= most:
        for file in files:
            yield from _texts(file, unit, rule)
        return
    packed = [_is_packed(file) for file in files]
    say(
        f"learning the vocabulary from a sample: {most / 1e6:,.1f} MB of {total / 1e6:,.1f} MB, "
        "evenly spaced"
        + (f", but from the beginning of {sum(packed)} compressed files" if any(packed) else "")
    )
    for file, size, is_packed in zip(files, sizes, packed, strict=True):
        part_bytes = most * size // total
        if is_packed:
            yield from _first_texts(file, unit, rule, part_bytes)
            continue
        for span in _blocks(file, size, part_bytes):
            try:
                yield from _texts(file, unit, rule, span)
            except InputError:  # read again, to get correct line numbers for the message
                exact = LineSpan(span.start, span.end, _lines_before(file, span.start))
                yield from _texts(file, unit, rule, exact)


def _size(file: str | Path) -> int:
    with open_binary(file) as opened:
        return os.fstat(opened.fileno()).st_size


def _is_packed(file: str | Path) -> bool:
    with open_binary(file) as opened:
        return packing_of(file, opened) != "plain"


def _blocks(file: str | Path, size: int, part_bytes: int) -> Iterator[LineSpan]:
    """Evenly spaced spans of whole lines. A block is extended to whole lines, which makes it larger
    than planned. To compensate for this, some blocks are skipped."""
    blocks = min(_BLOCKS, part_bytes)
    end = taken = 0
    with open_binary(file) as opened:
        for block in range(blocks):
            if taken > part_bytes * block // blocks:
                continue
            first = max(end, size * block // blocks)
            opened.seek(max(first - 1, 0))
            if first and not _to_line_end(opened):
                return
            start = opened.tell()
            opened.seek(max(start, first + part_bytes // blocks - 1))
            _to_line_end(opened)
            end = opened.tell()
            taken += end - start
            if start < end:
                yield LineSpan(start, end, int(start > 0))  # the line number is only for messages


def _to_line_end(opened: BinaryIO) -> bool:
    """Move to the start of the next line; returns whether there is one."""
    while raw := opened.readline(1 << 16):
        if raw.endswith(b"\n"):
            return True
    return False


def _texts(
    file: str | Path, unit: Unit, rule: LineRule, span: LineSpan | None = None
) -> Iterator[str]:
    loading = Loading()
    lines = read_lines(file, rule, loading=loading, span=span)
    return (text for text, _ in parts(lines, unit, MAX_BYTES, loading) if text)


def _first_texts(file: str | Path, unit: Unit, rule: LineRule, part_bytes: int) -> Iterator[str]:
    """Yield texts from the beginning of a compressed file, until `part_bytes` of the file have been
    read."""
    place = 0

    def report(now: int) -> None:
        nonlocal place
        place = now

    loading = Loading()
    lines = read_lines(file, rule, loading=loading, report=report)
    for text, _ in parts(lines, unit, MAX_BYTES, loading):
        if text:
            yield text
        if place >= part_bytes:
            return


def _lines_before(file: str | Path, place: int) -> int:
    lines = 0
    with open_binary(file) as opened:
        while place and (block := opened.read(min(place, 1 << 20))):
            lines += block.count(b"\n")
            place -= len(block)
    return lines
