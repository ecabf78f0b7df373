"""Files and folders that are whole or not there: written aside, flushed, renamed; a folder with a
digest per file."""

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
CARD = "README.md"  # has no digest: it is for people, who may write in it
_ASIDE, _OLD = ".writing", ".old"


@contextmanager
def saving(path: Path) -> Iterator[None]:
    """What the system refuses becomes a SaveError that names the path and the cause."""
    try:
        yield
    except OSError as error:
        raise SaveError(f"{path} could not be written: {error.strerror or error}") from error
    except SafetensorError as error:  # its writer's way to report a full disk
        raise SaveError(f"{path} could not be written: {error}") from error


def write_whole(folder: Path, fill: Callable[[Path], None]) -> None:
    """`fill` writes the files; then the folder takes the place of one that may be there.

    A process that dies leaves the old folder or the new one. What a failure left aside is removed,
    so that a full disk is not filled with halves.
    """
    with saving(folder), _halves_removed(folder):
        remove(aside(folder))
        aside(folder).mkdir(parents=True)
        fill(aside(folder))
        put_in_place(folder)


def write_text(file: Path, text: str) -> None:
    """A file that is the old one or the new one, whenever the process dies."""
    with saving(file), _halves_removed(file):
        remove(aside(file))  # a half of before; or a link, which would be written through
        with aside(file).open("x", encoding="utf-8") as half:
            half.write(text)
        flush(aside(file))
        aside(file).replace(file)
        flush(file.parent)


def unshare(file: Path) -> None:
    """Give a file that has a second name (a hard link, as `cp -al` makes them) a content of its
    own, so that to write in it changes nothing elsewhere."""
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
    """A file, a folder or a link, not what it points to; as far as the system allows."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def put_in_place(folder: Path) -> None:
    """What was written aside gets its digests, is flushed, and takes the folder's place."""
    place, before = aside(folder), old(folder)
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


def recover(folder: Path) -> None:
    """If a process died between the two renames, the old folder goes back to its place."""
    before = old(folder)
    if before.exists():
        if folder.exists():
            remove(before)
        else:
            before.rename(folder)


def standing(folder: Path) -> Path:
    """Where to read a folder: a process that died between the two renames left only the old one.

    Reading changes nothing on disk, so that it never meets a save that is going on.
    """
    return old(folder) if old(folder).exists() and not folder.exists() else folder


def sweep(parent: Path) -> None:
    """Put right what a process that died left here: halves go, old folders go back."""
    for half in parent.glob(f".*{_ASIDE}"):
        remove(half)
    for before in parent.glob(f".*{_OLD}"):
        recover(parent / before.name.removeprefix(".").removesuffix(_OLD))


def fault(folder: Path) -> str | None:
    """What is wrong with a folder, in words; None if every file is the one that was written."""
    path = folder / MANIFEST
    try:
        wanted = read_object(path)
        with open_regular(path) as file:  # the text, too: cut or changed where JSON does not care
            if file.read() != _manifest(wanted).encode("utf-8", "replace"):
                return f"{path} is damaged or was changed"
    except (InputError, OSError) as error:
        return f"{error}, so nothing in {folder} can be trusted"
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
    """The SHA-256 of every file but the manifest, by its path in the folder."""
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
    """The mode that the user's files usually have: a writer of tensors lets only its user read."""
    usual = stat.S_IMODE((folder / MANIFEST).stat().st_mode)
    for entry in entries(folder):
        if entry.is_file(follow_symlinks=False):
            os.chmod(entry.path, usual)


def _manifest(wanted: dict[str, str]) -> str:
    return json.dumps(wanted, indent=2) + "\n"


def aside(path: Path) -> Path:
    """Where a file or folder is written before it is whole."""
    return _neighbour(path, _ASIDE)


def old(folder: Path) -> Path:
    """Where a folder stands while another takes its place."""
    return _neighbour(folder, _OLD)


def _neighbour(path: Path, ending: str) -> Path:
    named = path if path.name not in ("", "..") else path.resolve()  # "." has no name
    return named.with_name(f".{named.name}{ending}") if named.name else named / ending


def flush(path: Path) -> None:
    """Write a file, or the names in a folder, through to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
