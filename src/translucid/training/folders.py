"""Folders that are whole or not there: written aside, flushed, renamed, with a digest per file."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

MANIFEST = "manifest.json"
_BLOCK = 1 << 20


def write_whole(folder: Path, fill: Callable[[Path], None]) -> None:
    """`fill` writes the files; then the folder takes the place of one that may be there.

    A process that dies leaves the old folder or the new one. What a failure left aside is removed,
    so that a full disk is not filled with halves.
    """
    place = aside(folder)
    shutil.rmtree(place, ignore_errors=True)
    try:
        place.mkdir(parents=True)
        fill(place)
        put_in_place(folder)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def put_in_place(folder: Path) -> None:
    """What was written aside gets its digests, is flushed, and takes the folder's place."""
    place, old = aside(folder), _old(folder)
    (place / MANIFEST).write_text(json.dumps(digests(place), indent=2) + "\n", "utf-8")
    for path in [*place.rglob("*"), place]:
        _flush(path)
    recover(folder)
    if folder.exists():
        folder.rename(old)
    place.rename(folder)
    _flush(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path) -> None:
    """If a process died between the two renames, the old folder goes back to its place."""
    old = _old(folder)
    if old.exists():
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(folder)


def fault(folder: Path, leave_out: tuple[str, ...] = ()) -> str | None:
    """What is wrong with a folder, in words; None if every file is the one that was written."""
    path = folder / MANIFEST
    try:
        wanted = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return f"{path} is missing, so nothing in {folder} can be trusted"
    except (ValueError, OSError) as error:
        return f"{path} cannot be read ({error}), so nothing in {folder} can be trusted"
    for name, digest in wanted.items():
        if name in leave_out:
            continue
        try:
            if digest_of(folder / name) != digest:
                return f"{folder / name} is damaged or was changed"
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
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def aside(folder: Path) -> Path:
    """Where a folder is written before it is whole."""
    return folder.with_name(f".{folder.name}.writing")


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
