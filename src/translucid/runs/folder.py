"""The run folder: which names in it are a run's own, and one process at a time that changes them.

recipe.toml      the resolved recipe, every key explained
metrics.jsonl    what was computed on the way    timing.jsonl    how fast    log.txt    all lines
best/, last/     the model with the best validation score, and the newest
state/           what an exact resume needs      test.json       the score at the end
valid.predictions.txt, test.predictions.txt      what the best model answered, a line an example
checkpoints/, studio/, tensorboard/, wandb/, mlflow/                      on request
data/            what a program gave to learn from and is in no other file
files.json       the folder in which it was started, and the fingerprints of its data files
start.json       of a run that started from a trained model: which, and what was taken over
code.json        the files of the user's that task or positions came from, if they did
run.lock         while a process trains here: which one, and since when
"""

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from translucid.core.atomic_files import aside, old, remove, saving, unshare
from translucid.core.errors import InputError, TranslucidError
from translucid.core.untrusted_files import check_tree, open_regular
from translucid.runs.log import FILES
from translucid.runs.recipe.own_files import FILES as OWN_FILES
from translucid.runs.recipe.recipe import DATA
from translucid.runs.trackers import FOLDERS

CODE, RECIPE, TEST, LOCK = "code.json", "recipe.toml", "test.json", "run.lock"
START = "start.json"
VALID_PREDICTIONS, TEST_PREDICTIONS = "valid.predictions.txt", "test.predictions.txt"
MODELS = ("best", "last")
OWN = (
    RECIPE, *FILES, *MODELS, "state", TEST, "checkpoints", "tensorboard", "studio", CODE, LOCK,
    DATA, START, OWN_FILES, VALID_PREDICTIONS, TEST_PREDICTIONS,
)  # fmt: skip
# What other packages write here, links among it; nobody here opens it.
FOREIGN = tuple(name for name in FOLDERS if name != "tensorboard")


def free_folder(parent: Path, name: str) -> Path:
    """parent/name, numbered if taken."""
    folder, number = parent / name, 2
    while folder.exists():
        folder, number = parent / f"{name}-{number}", number + 1
    return folder


def own_paths(out: Path) -> list[Path]:
    """All that a run may have written, its halves too."""
    names = [out / name for name in OWN]
    return [path for name in names for path in (name, aside(name), old(name))]


def check_own(out: Path) -> None:
    """Refuse a run folder that leads out of itself, before anything in it is read or written."""
    for path in own_paths(out):
        check_tree(path)


def remove_own(out: Path) -> None:
    """What a run wrote, and nothing else that may stand beside it; links go, not their targets."""
    for path in (*own_paths(out), *(out / name for name in FOREIGN)):
        if path.name != LOCK:  # whoever holds it removes it
            remove(path)


def saved(out: Path) -> Iterator[Path]:
    """Checkpoints and models: what is worth more than the time to begin again."""
    yield from (out / "state").glob("step-*")
    yield from (place for place in (out / name for name in MODELS) if place.exists())


@contextmanager
def made(out: Path, *, main: bool = True) -> Iterator[None]:
    """The folder, which is made if need be; on failure what was made for nothing goes again."""
    new = [folder for folder in (out, *out.parents) if not folder.exists()] if main else []
    if main:
        try:
            with saving(out):
                out.mkdir(parents=True, exist_ok=True)
        except TranslucidError as error:
            raise InputError(f"{error}; choose another folder with --out") from None
    try:
        yield
    except BaseException:
        for folder in new:
            with suppress(OSError):  # not empty: somebody uses it
                folder.rmdir()
        raise


@contextmanager
def locked(out: Path, *, main: bool = True) -> Iterator[None]:
    """As long as the block lasts, no other process may train in this folder.

    The system lets go of a lock when its process ends, however it ends. A file system or system
    without locks is not refused: runs on it are as safe as the people who start them.
    """
    if not main:
        yield
        return
    with saving(out / LOCK):
        held = _take(out / LOCK)
    try:
        yield
    finally:
        with suppress(OSError):
            (out / LOCK).unlink()  # before it is let go of: who waits must not take a removed one
        os.close(held)


def _take(path: Path) -> int:
    """The lock file, open and locked, with this process's name in it."""
    while True:
        unshare(path)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        held = os.open(path, flags, 0o666)
        if not _lock(held):
            os.close(held)
            raise InputError(
                f"{path.parent} is in use: {_holder(path)}; wait until it ends or stop it, or "
                "choose another folder"
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held), path.lstat()):
                break
        os.close(held)  # whoever held it has removed it meanwhile
    command = shlex.join(["translucid", *sys.argv[1:]])
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    holder = {"process": os.getpid(), "machine": socket.gethostname(), "since": since}
    with suppress(OSError):  # a full disk: it is locked all the same
        os.ftruncate(held, 0)
        os.write(held, (json.dumps(holder | {"command": command}) + "\n").encode())
    return held


def _lock(held: int) -> bool:
    """Whether this process has it now."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _holder(path: Path) -> str:
    """Who holds a lock, in words."""
    try:
        with open_regular(path) as file:
            holder: dict[str, Any] = json.loads(file.read())
        return (
            f"process {holder['process']} on {holder['machine']} trains in it since "
            f"{holder['since']} ({holder['command']})"
        )
    except (InputError, OSError, ValueError, KeyError, TypeError):  # it is just being written
        return "another process trains in it"
