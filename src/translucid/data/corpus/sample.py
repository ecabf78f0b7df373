"""A part of a large corpus that stands for all of it, to learn a vocabulary from.

Blocks of whole lines are taken at even distances, so that the sample sees every region of the files
and nothing else is read. The same files give the same sample.
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
from translucid.data.tokenizers.limits import MAX_BYTES

SAMPLE = 100_000_000  # bytes: far more than a vocabulary of usual size needs to settle
_BLOCKS = 1000  # more would only be slower, fewer could miss a region


def sample_texts(
    files: Sequence[str | Path],
    most: int = SAMPLE,
    *,
    unit: Unit = "line",
    rule: LineRule = DEFAULT,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[str]:
    """About `most` bytes of the files as texts for `Tokenizer.train`; all of them if that is less.

    A packed file can only be read from its beginning: its part of the sample is its first part.
    What is left out is said before the first text.
    """
    if most < 1:
        raise ConfigError(f"most = {most}: a sample has at least 1 byte")
    sizes = [_size(file) for file in files]
    total = sum(sizes)
    if total <= most:
        for file in files:
            yield from _texts(file, unit, rule)
        return
    packed = [_is_packed(file) for file in files]
    say(
        f"the vocabulary is learnt from a sample: {most / 1e6:,.1f} MB of {total / 1e6:,.1f} MB, "
        "taken at even distances"
        + (f", but from the first part of {sum(packed)} packed files" if any(packed) else "")
    )
    for file, size, is_packed in zip(files, sizes, packed, strict=True):
        part_bytes = most * size // total
        if is_packed:
            yield from _first_texts(file, unit, rule, part_bytes)
            continue
        for span in _blocks(file, size, part_bytes):
            yield from _texts_at(file, unit, rule, span)


def _size(file: str | Path) -> int:
    with open_binary(file) as opened:
        return os.fstat(opened.fileno()).st_size


def _is_packed(file: str | Path) -> bool:
    with open_binary(file) as opened:
        return packing_of(file, opened) != "plain"


def _blocks(file: str | Path, size: int, part_bytes: int) -> Iterator[LineSpan]:
    """Spans of whole lines at even distances. Since lines are whole, a block takes more than its
    part; as often as needed for the sum to be right, one is left out."""
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
                yield LineSpan(start, end, int(start > 0))  # the number matters for messages only


def _to_line_end(opened: BinaryIO) -> bool:
    """Go to where the next line begins, if there is one."""
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


def _texts_at(file: str | Path, unit: Unit, rule: LineRule, span: LineSpan) -> Iterator[str]:
    try:
        yield from _texts(file, unit, rule, span)
    except InputError:  # again, with the numbers that the lines have in the file
        yield from _texts(
            file, unit, rule, LineSpan(span.start, span.end, _lines_before(file, span))
        )


def _first_texts(file: str | Path, unit: Unit, rule: LineRule, part_bytes: int) -> Iterator[str]:
    """Texts while the bytes that were read of the packed file are below its part."""
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


def _lines_before(file: str | Path, span: LineSpan) -> int:
    lines = left = 0
    with open_binary(file) as opened:
        left = span.start
        while left and (block := opened.read(min(left, 1 << 20))):
            lines += block.count(b"\n")
            left -= len(block)
    return lines
