"""Atomic writes: files and folders are written under a temporary name, flushed to disk and renamed.
A folder has a manifest with the SHA-256 of each file."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from safetensors import SafetensorError

from translucid.core.errors import InputError, SaveError
from translucid.core.untrusted_files import entries, inside, open_regular, read_object

MANIFEST = "manifest.json"
CARD = "README.md"  # has no digest, since people may edit it
_ASIDE, _OLD = ".writing", ".old"


@contextmanager
def saving(path: Path) -> Iterator[None]:
    """Convert errors of the operating system in the block to a SaveError that names the path and
    the cause."""
    try:
        yield
    except OSError as error:
        raise SaveError(f"{path} could not be written: {error.strerror or error}") from error
    except SafetensorError as error:  # raised by safetensors on a full disk
        raise SaveError(f"{path} could not be written: {error}") from error


def write_whole(folder: Path, fill: Callable[[Path], None]) -> None:
    """Write a folder atomically. `fill` writes the files; an existing folder is replaced.

    If the process dies, what remains is either the complete old folder or the complete new one.
    After an error, incomplete files are removed.
    """
    with saving(folder), _halves_removed(folder):
        place, before = aside(folder), old(folder)
        remove(place)
        place.mkdir(parents=True)
        fill(place)
        write_manifest(place)
        _as_usual(place)
        for path in [*place.rglob("*"), place]:
            flush(path)
        recover(folder)
        if folder.exists():
            folder.rename(before)
        place.rename(folder)
        flush(folder.parent)
        remove(before)


def write_text(file: Path, text: str) -> None:
    """Write a text file atomically: if the process dies, the old file or the new one is left."""
    with saving(file), _halves_removed(file):
        remove(aside(file))  # left incomplete, or a link, which open would follow
        with aside(file).open("x", encoding="utf-8") as half:
            half.write(text)
        flush(aside(file))
        aside(file).replace(file)
        flush(file.parent)


def unshare(file: Path) -> None:
    """Replace a hard link (as created by `cp -al`) by a copy, so that writing to it does not change
    the other file."""
    if file.is_file() and file.stat().st_nlink > 1:
        with saving(file), _halves_removed(file):
            remove(aside(file))
            shutil.copy2(file, aside(file))
            aside(file).replace(file)


@contextmanager
def _halves_removed(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        remove(aside(path))
        recover(path)
        raise


def remove(path: Path) -> None:
    """Remove a file, a folder or a link (not the link's target). Errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def recover(folder: Path) -> None:
    """Restore the old version of a folder if a process died while it replaced the folder."""
    before = old(folder)
    if before.exists():
        if folder.exists():
            remove(before)
        else:
            before.rename(folder)


def standing(folder: Path) -> Path:
    """The path to read a folder from: its old version if a process died while it replaced the
    folder, otherwise the folder itself. Changes nothing on disk, so that reading does not interfere
    with a save."""
    return old(folder) if old(folder).exists() and not folder.exists() else folder


def sweep(parent: Path) -> None:
    """Clean up after a process that died while it wrote in `parent`: remove incomplete files,
    restore the old versions of folders."""
    for half in parent.glob(f".*{_ASIDE}"):
        remove(half)
    for before in parent.glob(f".*{_OLD}"):
        recover(parent / before.name.removeprefix(".").removesuffix(_OLD))


def fault(folder: Path) -> str | None:
    """Describe how a folder is damaged; None if every file matches the manifest."""
    path = folder / MANIFEST
    try:
        wanted = read_object(path)
        with open_regular(path) as file:  # compare the exact text: parsing hides some changes
            if file.read() != _manifest(wanted).encode("utf-8", "replace"):
                return f"{path} is damaged or was changed"
    except (InputError, OSError) as error:
        return f"{error}; without a valid manifest, nothing in {folder} can be trusted"
    for name, digest in wanted.items():
        try:
            with open_regular(inside(folder, name, str(path))) as file:
                if _digest(file) != digest:
                    return f"{folder / name} is damaged or was changed"
        except InputError as error:
            return str(error)
        except FileNotFoundError:
            return f"{folder / name} is missing"
        except OSError as error:
            return f"{folder / name} cannot be read: {error}"
    return None


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file except the manifest, by path relative to the folder."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    return {p.relative_to(folder).as_posix(): digest_of(p) for p in files}


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return _digest(file)


def _digest(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path) -> None:
    wanted = {name: digest for name, digest in digests(folder).items() if name != CARD}
    (folder / MANIFEST).write_text(_manifest(wanted), "utf-8")


def _as_usual(folder: Path) -> None:
    """Give all files the default permissions, since safetensors writes private files."""
    usual = stat.S_IMODE((folder / MANIFEST).stat().st_mode)
    for entry in entries(folder):
        if entry.is_file(follow_symlinks=False):
            os.chmod(entry.path, usual)


def _manifest(wanted: dict[str, str]) -> str:
    return json.dumps(wanted, indent=2) + "\n"


def aside(path: Path) -> Path:
    """The temporary name of a file or folder that is being written."""
    return _neighbour(path, _ASIDE)


def old(folder: Path) -> Path:
    """The temporary name of a folder that is being replaced."""
    return _neighbour(folder, _OLD)


def _neighbour(path: Path, ending: str) -> Path:
    named = path if path.name not in ("", "..") else path.resolve()  # "." has no name
    return named.with_name(f".{named.name}{ending}") if named.name else named / ending


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
