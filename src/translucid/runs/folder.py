"""The run folder: the names of its files, and the lock that allows one process at a time.

recipe.toml      the complete recipe, with the meaning of every key
metrics.jsonl    computed values                 timing.jsonl    speed       log.txt    all lines
best/, last/     the model with the best validation score, and the newest
baseline/        the fitted baseline, if the network is not better or training.keep_baseline is set
network/         the best network, if the baseline is better on the validation data and became best/
state/           checkpoints for an exact resume                 test.json   the test score
valid.predictions.txt, test.predictions.txt      predictions of the best model, one per line
checkpoints/, studio/, tensorboard/, wandb/, mlflow/             on request
data/            training data that a Python program passed
files.json       the folder in which the run was started, and fingerprints of its data files
start.json       for fine-tuning: the model it started from, and which weights were copied
code.json        the user's Python files with the task or positions, if any
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
from translucid.tasks.model_folder import NETWORK

CODE, RECIPE, TEST, LOCK = "code.json", "recipe.toml", "test.json", "run.lock"
START = "start.json"
VALID_PREDICTIONS, TEST_PREDICTIONS = "valid.predictions.txt", "test.predictions.txt"
MODELS = ("best", "last")
BASELINE = "baseline"
OWN = (
    RECIPE, *FILES, *MODELS, "state", TEST, "checkpoints", "tensorboard", "studio", CODE, LOCK,
    DATA, START, OWN_FILES, VALID_PREDICTIONS, TEST_PREDICTIONS, BASELINE,
    NETWORK,
)  # fmt: skip
# Written by other packages and may contain links; Translucid never opens them.
FOREIGN = tuple(name for name in FOLDERS if name != "tensorboard")


def free_folder(parent: Path, name: str) -> Path:
    """The path parent/name, with a number appended if it exists."""
    folder, number = parent / name, 2
    while folder.exists():
        folder, number = parent / f"{name}-{number}", number + 1
    return folder


def own_paths(out: Path) -> list[Path]:
    """All paths that a run may have written, including unfinished files."""
    names = [out / name for name in OWN]
    return [path for name in names for path in (name, aside(name), old(name))]


def check_own(out: Path) -> None:
    """Raise an error if a run folder contains links, before anything in it is read or written."""
    for path in own_paths(out):
        check_tree(path)


def remove_own(out: Path) -> None:
    """Remove only what a run wrote; links are removed, but not their targets."""
    for path in (*own_paths(out), *(out / name for name in FOREIGN)):
        if path.name != LOCK:  # removed by its holder
            remove(path)


def saved(out: Path) -> Iterator[Path]:
    """Yield the folders in a run folder that contain checkpoints or models."""
    yield from (out / "state").glob("step-*")
    yield from (place for place in (out / name for name in MODELS) if place.exists())


@contextmanager
def made(out: Path, *, main: bool = True) -> Iterator[None]:
    """Create the folder if it does not exist; after a failure, remove the empty folders created."""
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
            with suppress(OSError):  # not empty
                folder.rmdir()
        raise


@contextmanager
def locked(out: Path, *, main: bool = True) -> Iterator[None]:
    """Lock the folder against other processes for the duration of the block.

    The system releases the lock however the process ends. Without support for locks, nothing is
    locked.
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
            (out / LOCK).unlink()  # before release, so that no process locks a removed file
        os.close(held)


def _take(path: Path) -> int:
    """Open and lock the lock file, and write this process into it."""
    while True:
        unshare(path)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        held = os.open(path, flags, 0o666)
        if not lock(held):
            os.close(held)
            raise InputError(
                f"{path.parent} is in use: {_holder(path)}; wait until it ends or stop it, or "
                "choose another folder"
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held), path.lstat()):
                break
        os.close(held)  # its holder has removed it meanwhile
    command = shlex.join(["translucid", *sys.argv[1:]])
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    holder = {"process": os.getpid(), "machine": socket.gethostname(), "since": since}
    with suppress(OSError):  # a full disk; it is locked anyway
        os.ftruncate(held, 0)
        os.write(held, (json.dumps(holder | {"command": command}) + "\n").encode())
    return held


def lock(held: int) -> bool:
    """Lock an open file. False if another process has locked it; True if the lock succeeded or the
    system has no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def _holder(path: Path) -> str:
    """Describe who holds a lock."""
    try:
        with open_regular(path) as file:
            holder: dict[str, Any] = json.loads(file.read())
        return (
            f"process {holder['process']} on {holder['machine']} has trained in it since "
            f"{holder['since']} ({holder['command']})"
        )
    except (InputError, OSError, ValueError, KeyError, TypeError):  # being written
        return "another process trains in it"
