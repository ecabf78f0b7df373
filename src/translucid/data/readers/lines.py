"""Read numbered lines of text (UTF-8 by default), plain or compressed with gzip or xz.

A line ends only at \\n or \\r\\n. (str.splitlines also splits at U+2028, U+0085, form feeds and
other characters, which would misalign parallel files.)
"""

import codecs
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, cast

from translucid.core.errors import InputError, nearest
from translucid.core.spelling import quoted
from translucid.data.readers.loading import Loading
from translucid.data.readers.standard_input import standard_input

BOM = b"\xef\xbb\xbf"
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
OFFICE = (".xlsx", ".ods", ".docx", ".odt")  # these are zip archives, too
NOT_READ = {  # unsupported formats, by their first bytes
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"BZh91AY&SY": ("a bzip2 archive", "unpack it first, or pack it with gzip or xz"),
    b"\x28\xb5\x2f\xfd": ("a Zstandard archive", "unpack it first, or pack it with gzip or xz"),
    b"PAR1\x15": ("a parquet file", "name it .parquet, or set data.format = 'parquet'"),
}
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UTF16_ADVICE = "set data.encoding=utf-16, or convert it: iconv -f UTF-16 -t UTF-8"


@dataclass(frozen=True)
class LineRule:
    """The maximum length of a line in bytes (without its line end), what to do with longer lines,
    and the encoding of the text."""

    max_bytes: int = 1 << 20
    too_long: Literal["error", "skip"] = "error"
    encoding: str = "utf-8"

    @property
    def ascii_line_ends(self) -> bool:
        """Whether the byte 0x0a always ends a line and has no other meaning, unlike in UTF-16."""
        return "\n".encode(self.encoding) == b"\n"


DEFAULT = LineRule()


@dataclass(frozen=True)
class LineSpan:
    """A range of whole lines of an uncompressed file, so that several processes can read parts of
    it."""

    start: int
    end: int
    lines_before: int


class Lines(Protocol):
    def readline(self, limit: int, /) -> bytes: ...


def read_lines(
    path: str | Path,
    rule: LineRule = DEFAULT,
    *,
    loading: Loading | None = None,
    may_be_empty: bool = False,
    span: LineSpan | None = None,
    report: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, str | None]]:
    """Yield the lines of a file with their numbers. A line that is too long is yielded as None and
    counted in `loading`. path: `-` means standard input. report: called after each line with the
    position in the file.
    """
    name = "standard input" if str(path) == "-" else str(path)
    loading = loading if loading is not None else Loading()
    before = number = span.lines_before if span else 0
    recoded = rule.encoding
    try:
        with _open(path, name, span.end if span else None, rule) as (stream, file):
            part: Lines = _FilePart(file, span) if span else stream
            if not rule.ascii_line_ends:
                part, rule = _Recoded(stream, rule.encoding), replace(rule, encoding="utf-8")
            for number, line in split_lines(part, name, rule, loading, before):
                yield number, line
                if report is not None:
                    report(file.tell())
    except DAMAGED as error:
        raise InputError(
            f"{name}: the archive is damaged or truncated after line {number} "
            f"({str(error) or type(error).__name__}); create or download it again"
        ) from None
    except UnicodeError as error:  # of `_Recoded`
        raise InputError(
            f"{name}:{number + 1}: this line or the next is not {recoded.upper()} ({error}); set "
            "data.encoding, such as utf-8 or cp1252"
        ) from None
    except OSError as error:
        raise InputError(f"{name}: reading failed after line {number} ({error})") from None
    if not number and not may_be_empty:
        raise InputError(f"{name}: the file is empty; at least one line is needed")


def split_lines(
    stream: Lines, name: str, rule: LineRule, loading: Loading, number: int = 0
) -> Iterator[tuple[int, str | None]]:
    """Yield the numbered lines of a stream. number: how many lines come before the stream. A long
    line does not fill the memory, because `rule` limits the length of lines."""
    limit = rule.max_bytes + 2  # room for \r\n
    while raw := stream.readline(limit + (len(BOM) if number == 0 else 0)):
        number += 1
        skipped = 0
        if number == 1 and raw.startswith(BOM):
            raw, skipped = raw[len(BOM) :], len(BOM)
            if not raw:  # the file contains only a byte order mark
                return
        ended = raw.endswith(b"\n")
        line = raw.removesuffix(b"\n").removesuffix(b"\r") if ended else raw
        if len(line) > rule.max_bytes:
            if rule.too_long == "error":
                raise InputError(
                    f"{name}:{number}: the line is longer than {rule.max_bytes:,} bytes; is this "
                    "a text file with line ends? Split the line (from Python, a LineRule can raise "
                    "the limit, or skip and count such lines)"
                )
            while not ended and (rest := stream.readline(1 << 16)):
                ended = rest.endswith(b"\n")
            loading.leave_out("too long", number)
            yield number, None
        else:
            yield number, _decode(line, name, number, skipped, rule.encoding)


def _decode(line: bytes, name: str, number: int, skipped: int, encoding: str) -> str:
    if b"\0" in line:
        raise InputError(
            f"{name}:{number}: byte {line.index(0) + skipped + 1} of the line is NUL, so the file "
            f"is either UTF-16 or not a text file. If it is UTF-16, {UTF16_ADVICE}; otherwise, "
            "remove NUL with: tr -d '\\0'"
        )
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"{name}:{number}: byte {error.start + skipped + 1} of the line "
        where += f"(0x{line[error.start]:02x}) is not {encoding.upper()}; set data.encoding, "
        if encoding != "utf-8":
            raise InputError(f"{where}such as utf-8 or cp1252") from None
        raise InputError(
            f"{where}such as latin-1, or convert the file: "
            f"iconv -f LATIN1 -t UTF-8{_into_another(Path(name))}"
        ) from None


class _Recoded:
    """The lines of a stream whose encoding is not based on ASCII, such as UTF-16, converted to
    UTF-8."""

    def __init__(self, stream: Lines, encoding: str) -> None:
        self._stream, self._decoder = stream, codecs.getincrementaldecoder(encoding)()
        self._held, self._ended = "", False

    def readline(self, limit: int, /) -> bytes:
        while "\n" not in self._held and len(self._held) < limit and not self._ended:
            raw = self._stream.readline(limit)
            self._held += self._decoder.decode(raw, not raw)
            self._ended = not raw
        end = min(self._held.find("\n") + 1 or limit, limit)
        line, self._held = self._held[:end], self._held[end:]
        return line.encode()


def _into_another(path: Path) -> str:
    """The end of an iconv command, such as ` a.txt > a.utf8.txt`; empty if the file does not exist
    or is compressed."""
    if not path.is_file() or path.suffix in (".gz", ".xz"):
        return ""
    return f" {quoted(str(path))} > {quoted(str(path.with_suffix('.utf8' + path.suffix)))}"


class _FilePart:
    """A view of one part of a file. Reading starts at the beginning of the part and stops at its
    end."""

    def __init__(self, file: BinaryIO, span: LineSpan) -> None:
        file.seek(span.start)
        self._file, self._left = file, span.end - span.start

    def readline(self, limit: int, /) -> bytes:
        raw = self._file.readline(min(limit, self._left))
        self._left -= len(raw)
        return raw


@contextmanager
def _open(
    path: str | Path, name: str, end: int | None, rule: LineRule
) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file; yield a stream of its decompressed bytes, and the file itself. Raises an error
    if the file (up to `end`) changes while it is read."""
    if str(path) == "-":
        stream = cast(BinaryIO, standard_input())
        yield stream, stream
        return
    with open_binary(path) as file:
        before = os.fstat(file.fileno())
        packed = packing_of(path, file, utf16=not rule.ascii_line_ends)
        try:
            yield _unpacked(file, packed), file
        except DAMAGED:
            check_unchanged(file, before, name)  # if the file changed, that explains the error
            raise
        check_unchanged(file, before, name, before.st_size if end is None else end)


def _unpacked(file: BinaryIO, packed: str) -> BinaryIO:
    if packed == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    return cast(BinaryIO, lzma.LZMAFile(file)) if packed == "xz" else file


def beginning(path: str | Path, rule: LineRule) -> str:
    """The first characters of a file or of standard input. Empty for a missing or damaged file, and
    for a pipe, since a pipe cannot be read twice."""
    if str(path) == "-":
        return standard_input().peek().decode(rule.encoding, "replace")
    if not Path(path).is_file():
        return ""
    with open_binary(path) as file:
        try:
            packed = packing_of(path, file, utf16=not rule.ascii_line_ends)
            return _unpacked(file, packed).read(1 << 12).decode(rule.encoding, "replace")
        except DAMAGED:
            return ""


def open_binary(path: str | Path) -> BufferedReader:
    """Open a file for reading; failures raise an InputError instead of an OSError."""
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {_look_around(Path(path))}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; expected a file") from None
    except PermissionError:
        raise InputError(f"{path}: no permission to read it; try: chmod u+r {path}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(f"{str(path)!r}: cannot be opened ({error})") from None


def _look_around(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return f"the folder {folder} cannot be read either"
    stems = {name: Path(name).stem for name in nearest(path.name, names)}
    close = [name for name, stem in stems.items() if nearest(path.stem, [stem])]
    if close:  # names that share only the extension do not count
        return f"did you mean {folder / close[0]}?"
    listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"{folder} contains {listed}" if names else f"the folder {folder} is empty"


def packing_of(path: str | Path, file: BufferedReader, *, utf16: bool = False) -> str:
    """The compression of a file that was just opened (gzip, xz or plain), detected from its first
    bytes. utf16: whether the file may begin with a byte order mark of UTF-16."""
    path, head = Path(path), file.peek(10)[:10]
    for magic, packed in ((GZIP, "gzip"), (XZ, "xz")):
        if head.startswith(magic):
            return packed
        if path.suffix == {"gzip": ".gz", "xz": ".xz"}[packed] and head:
            raise InputError(
                f"{path} ends in {path.suffix}, but its content is not a {packed} archive; "
                "rename it, or download it again"
            )
    for magic, (what, advice) in NOT_READ.items():
        if head.startswith(magic):
            if path.suffix in OFFICE:
                what, advice = f"a {path.suffix} document", "save it as CSV, or as text in UTF-8"
            raise InputError(f"{path} is {what}, which Translucid does not read; {advice}")
    if head.startswith(UTF16) and not utf16:
        raise InputError(f"{path} is UTF-16 text; {UTF16_ADVICE}{_into_another(path)}")
    return "plain"


def check_unchanged(file: BinaryIO, before: os.stat_result, name: str, read: int = 0) -> None:
    """Raise an error if the file has changed since `before`, or was not read up to byte `read`."""
    if not stat.S_ISREG(before.st_mode):  # a pipe has no size
        return
    after = os.fstat(file.fileno())
    short = file.tell() < read
    if short or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise InputError(
            f"{name} changed while it was read (from {before.st_size:,} to {after.st_size:,} "
            "bytes); read it again while no other program is writing to it"
        )
