"""Read files from an untrusted folder, such as a model or run from someone else.

File names must not point outside the folder. Only regular files of limited size are opened, never
links, pipes or devices. The folder itself was named by the user and may be a link. One kind of link
is followed: in the cache of huggingface_hub, every file in `models--ORG--NAME/snapshots/REVISION`
links to a file in `models--ORG--NAME/blobs`.
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

LARGEST = 1 << 30  # maximum size in bytes of a file without tensors
LARGEST_JSON = 32 << 20
MOST_PARTS = 200_000  # lists and objects in a JSON file, at least 100 bytes each
TENSORS = ".safetensors"  # extension of files that may be as large as memory
_KINDS = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder",
}  # fmt: skip


def inside(folder: Path, name: object, where: str) -> Path:
    """The path of a file in the folder; raises an error if the name leads outside the folder or
    through a link. where: the origin of the name, for the error message."""
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    plain = bool(parts) and not {"..", "/", "//"}.intersection(parts) and "\0" not in str(name)
    try:
        str(name).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair
        plain = False
    if not plain or (os.name == "nt" and any(c in str(name) for c in ":\\")):
        raise InputError(
            f"{where} names {str(name)[:200]!r}, which is outside of {folder}; only names inside "
            "this folder are allowed. Do not use it unless you know who made it"
        )
    path = folder
    for part in parts:
        path = path / part
        _refuse_links(path)
    return path


def present(path: Path) -> bool:
    """Whether an optional file exists. Raises an error for a folder, pipe or link of this name,
    since ignoring it would change the model."""
    if not os.path.lexists(path):
        return False
    place = _blob(path) or path
    with suppress(FileNotFoundError):
        _check_regular(path, place.lstat().st_mode)
    return True


def entries(path: Path) -> Iterator[os.DirEntry[str]]:
    """All entries of a folder and its subfolders; links are not followed."""
    with os.scandir(path) as listing:
        for entry in listing:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from entries(Path(entry.path))


def check_tree(path: Path) -> None:
    """Raise an error if a path, or anything below it, is not a regular file or folder."""
    if not os.path.lexists(path):
        return
    _check_plain(path)
    if path.is_dir():
        for entry in entries(path):
            _check_plain(Path(entry.path))


def open_regular(path: Path, largest: int = LARGEST) -> BufferedReader:
    """Open a regular file for reading. largest: maximum size in bytes."""
    place = _blob(path) or path
    with suppress(FileNotFoundError):
        _check_regular(path, place.lstat().st_mode)
    # O_NONBLOCK: do not wait for a pipe's writer. O_NOFOLLOW: refuse links made since the check.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(place, flags | getattr(os, "O_BINARY", 0))
    status = os.fstat(descriptor)
    try:
        _check_regular(path, status.st_mode)
        _check_size(path, status.st_size, largest)
    except InputError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_text(path: Path, largest: int, remedy: str) -> str:
    """Read a UTF-8 text file. remedy: what to do if the file is not UTF-8, for the error
    message."""
    try:
        with open_regular(path, largest) as file:
            return file.read().decode("utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 at byte {error.start}; {remedy}") from None


def read_json(path: Path, largest: int = LARGEST_JSON) -> Any:
    """Parse a JSON file; raises an InputError with the file name."""
    try:
        with open_regular(path, largest) as file:
            return parsed_json(file.read(), str(path))
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def parsed_json(text: str | bytes, where: str, most_parts: int = MOST_PARTS) -> Any:
    """Parse JSON text. A text with more than `most_parts` lists and objects is rejected, because
    they may take 30 times the memory of the text. where: the name of the text, for the error
    message."""
    lists, objects = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    parts = text.count(lists) + text.count(objects)  # type: ignore[arg-type]
    if parts > most_parts:
        raise InputError(
            f"{where} contains {parts:,} lists and objects, above the limit of {most_parts:,}; "
            "check that it is the right file"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not valid JSON: {str(error)[:200]}") from None


def read_object(path: Path, largest: int = LARGEST_JSON) -> dict[str, Any]:
    """Parse a JSON file that must contain an object."""
    value = read_json(path, largest)
    if not isinstance(value, dict):
        raise InputError(
            f"{path} contains a {type(value).__name__}, not a JSON object; copy the file again"
        )
    return value


def read_lines(path: Path, largest: int = LARGEST_JSON) -> list[dict[str, Any]]:
    """Parse a JSON Lines file of objects; ignores an incomplete last line."""
    with open_regular(path, largest) as file:
        *whole, _ = file.read().split(b"\n")
    lines = [parsed_json(line, str(path)) for line in whole]
    if not all(isinstance(line, dict) for line in lines):
        raise InputError(f"{path} contains lines that are not JSON objects; copy the file again")
    return lines


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Convert errors raised in the block, which opens a model, to TranslucidErrors that name its
    path."""
    try:
        yield
    except TranslucidError as error:
        if not _names(str(error), path):
            error.args = (f"{path}: {error}", *error.args[1:])
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError,
            TypeError, ValueError) as error:  # fmt: skip
        raise InputError(
            f"{path} does not contain a model that can be opened: {type(error).__name__}: "
            f"{str(error)[:300]}; copy it again in full"
        ) from error


def _names(message: str, path: Path) -> bool:
    names = [str(path)]
    if not path.name:  # "." is part of every message; the names in it are not
        names = [os.path.realpath(path), *(os.listdir(path) if path.is_dir() else ())]
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names)


def ram_bytes() -> int | None:
    """The total memory of this machine in bytes; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return None


def _check_plain(path: Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        _check_regular(path, status.st_mode)
        _check_size(path, status.st_size, LARGEST)


def _refuse_links(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # reported when it is opened
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: the file name cannot be represented in this locale, whose encoding is "
            f"{sys.getfilesystemencoding()}; set PYTHONUTF8=1"
        ) from None
    if stat.S_ISLNK(mode) and _blob(path) is None:
        _check_regular(path, mode)


def _blob(path: Path) -> Path | None:
    """The target of a link in a snapshot of the Hugging Face cache, if it is in the blobs of the
    same repository; otherwise None. If the target is itself a link, opening it raises an error."""
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


def _check_regular(path: Path, mode: int) -> None:
    kind = stat.S_IFMT(mode)
    if kind != stat.S_IFREG:
        raise InputError(
            f"{path} is {_KINDS.get(kind, 'no file')}; model and run folders must contain regular "
            "files, because links, pipes and devices are not followed; replace it with the file "
            "itself (cp -rL copies the targets of links)"
        )


def _check_size(path: Path, size: int, largest: int) -> None:
    if path.suffix == TENSORS:
        largest = ram_bytes() or size
    if size > largest:
        raise InputError(
            f"{path} has {size:,} bytes, above the limit of {largest:,}; check that it is the "
            "right file"
        )
