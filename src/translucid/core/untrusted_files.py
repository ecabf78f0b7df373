"""Files of a folder that somebody else may have written: a model or a run that was sent.

A name that such a folder gives is a name inside it. What is opened is a regular file, never a
link, a pipe or a device, and no larger than it may be. The folder itself was named by the user,
and may be a link. One kind of link is followed: in the cache of huggingface_hub every file of
`models--ORG--NAME/snapshots/REVISION` is a link to one in `models--ORG--NAME/blobs`.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any

from translucid.core.errors import InputError, TranslucidError

LARGEST = 1 << 30  # bytes of a file that holds no tensors
LARGEST_JSON = 32 << 20
MOST_PARTS = 200_000  # lists and objects in a JSON file, each of which takes 100 bytes and more
TENSORS = ".safetensors"  # how the names of files end that may be as large as memory allows
_KINDS = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder",
}  # fmt: skip


def inside(folder: Path, name: object, where: str) -> Path:
    """The file or folder of this name, which stands inside the folder and behind no link.

    where: what gave the name, for the message.
    """
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    plain = bool(parts) and not {"..", "/", "//"}.intersection(parts) and "\0" not in str(name)
    try:
        str(name).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair names no file in any locale
        plain = False
    if not plain or (os.name == "nt" and any(c in str(name) for c in ":\\")):
        raise InputError(
            f"{where} names {str(name)[:200]!r}, which is outside of {folder}; names inside it "
            "are allowed only: do not use this folder unless you know who made it"
        )
    path = folder
    for part in parts:
        path = path / part
        _refuse_links(path)
    return path


def present(path: Path) -> bool:
    """Whether an optional file of a folder is there. Anything else under its name (a folder, a
    pipe, a link) is an error: whoever took it for absent would read another model."""
    if not os.path.lexists(path):
        return False
    place = _blob(path) or path
    with suppress(FileNotFoundError):
        _check_kind(path, place.lstat().st_mode, stat.S_IFREG)
    return True


def entries(path: Path) -> Iterator[os.DirEntry[str]]:
    """All that stands in a folder and below; links are listed, not followed."""
    with os.scandir(path) as listing:
        for entry in listing:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from entries(Path(entry.path))


def check_tree(path: Path) -> None:
    """Refuse a file or folder that is, or holds, anything but regular files and folders."""
    if not os.path.lexists(path):
        return
    _check_plain(path)
    if path.is_dir():
        for entry in entries(path):
            _check_plain(Path(entry.path))


def open_regular(path: Path, largest: int = LARGEST) -> BufferedReader:
    """To read; neither a link nor a pipe nor a device, and not larger than this."""
    place = _blob(path) or path
    with suppress(FileNotFoundError):
        _check_kind(path, place.lstat().st_mode, stat.S_IFREG)
    # Not waiting for a pipe's other end; links that came this moment are refused by the system.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(place, flags | getattr(os, "O_BINARY", 0))
    status = os.fstat(descriptor)
    try:
        _check_kind(path, status.st_mode, stat.S_IFREG)
        _check_size(path, status.st_size, largest)
    except InputError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_text(path: Path, largest: int, remedy: str) -> str:
    """A text in UTF-8. remedy: what to do with a file that is none, for the message."""
    try:
        with open_regular(path, largest) as file:
            return file.read().decode("utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 at byte {error.start}; {remedy}") from None


def read_json(path: Path, largest: int = LARGEST_JSON) -> Any:
    """What a JSON file holds; what cannot be read is an InputError that names the file."""
    try:
        with open_regular(path, largest) as file:
            return parsed_json(file.read(), str(path))
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def parsed_json(text: str | bytes, where: str, most_parts: int = MOST_PARTS) -> Any:
    """What a JSON text holds. The lists and objects in it are counted before they are made: of
    3 bytes each, they would take 30 times the memory. where: its name, for the message."""
    lists, objects = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    parts = text.count(lists) + text.count(objects)  # type: ignore[arg-type]
    if parts > most_parts:
        raise InputError(
            f"{where} holds {parts:,} lists and objects, above the limit of {most_parts:,}; it is "
            "not what its name says"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON that can be read: {str(error)[:200]}") from None


def read_object(path: Path, largest: int = LARGEST_JSON) -> dict[str, Any]:
    """The same, of a file that must hold an object."""
    value = read_json(path, largest)
    if not isinstance(value, dict):
        raise InputError(f"{path} holds {type(value).__name__}, not an object")
    return value


def read_lines(path: Path, largest: int = LARGEST_JSON) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; half a line at its end is left out."""
    with open_regular(path, largest) as file:
        *whole, _ = file.read().split(b"\n")
    lines = [parsed_json(line, str(path)) for line in whole]
    if not all(isinstance(line, dict) for line in lines):
        raise InputError(f"{path} holds lines that are no objects")
    return lines


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever fails while this model is opened becomes a TranslucidError that names it."""
    try:
        yield
    except TranslucidError as error:
        if not _names(str(error), path):
            error.args = (f"{path}: {error}", *error.args[1:])
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError,
            TypeError, ValueError) as error:  # fmt: skip
        raise InputError(
            f"{path} does not hold a model that can be opened: {type(error).__name__}: "
            f"{str(error)[:300]}; copy it again, whole"
        ) from error


def _names(message: str, path: Path) -> bool:
    names = [str(path)]
    if not path.name:  # "." is part of every message; what stands in it is not
        names = [os.path.realpath(path), *(os.listdir(path) if path.is_dir() else ())]
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names)


def ram_bytes() -> int | None:
    """Bytes of this machine's memory, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return None


def _check_plain(path: Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        _check_kind(path, status.st_mode, stat.S_IFREG)
        _check_size(path, status.st_size, LARGEST)


def _refuse_links(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # whoever opens it says so
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: this locale cannot name the file, since its encoding is "
            f"{sys.getfilesystemencoding()}; set PYTHONUTF8=1"
        ) from None
    if stat.S_ISLNK(mode) and _blob(path) is None:
        _check_kind(path, mode, stat.S_IFREG)


def _blob(path: Path) -> Path | None:
    """Of a link in a snapshot of the hub's cache, the file in the same repository's blobs that it
    stands for; of anything else, None. The file may be a link in turn: whoever opens it looks."""
    try:
        target = os.readlink(path)
        parent = path.parent.resolve()
    except OSError:  # no link
        return None
    for snapshots in parent.parents:
        repository = snapshots.parent
        if snapshots.name == "snapshots" and repository.name.startswith("models--"):
            blob = Path(os.path.normpath(parent / target))
            blobs = repository / "blobs"
            return blob if blob.parent == blobs and not blobs.is_symlink() else None
    return None


def _check_kind(path: Path, mode: int, wanted: int) -> None:
    kind = stat.S_IFMT(mode)
    if kind != wanted:
        raise InputError(
            f"{path} is {_KINDS.get(kind, 'no file')}, but a model or run folder must contain a "
            "regular file there: links, pipes and devices are not followed; put the file itself "
            "there (cp -rL copies the targets of links)"
        )


def _check_size(path: Path, size: int, largest: int) -> None:
    if path.suffix == TENSORS:
        largest = ram_bytes() or size
    if size > largest:
        raise InputError(f"{path} has {size:,} bytes, above the limit of {largest:,}")
