"""Training from Python: `tl.train` and `tl.resume`, from files or from data in memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from signal import SIGINT
from typing import Any

import torch

from translucid.core.errors import InputError, Interrupted, StopTraining
from translucid.core.progress import print_line
from translucid.data.python_rows import write_rows
from translucid.model.model import Model, load
from translucid.runs.folder import free_folder
from translucid.runs.log import Listener
from translucid.runs.recipe.named import Named, in_sections, named
from translucid.runs.recipe.recipe import DATA
from translucid.runs.run import resume_run, train_recipe
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS
from translucid.training.state import random_state_kept
from translucid.training.stop_request import StopRequest

# Receives each line of metrics.jsonl; returning False or raising StopTraining ends the training.
Callback = Callable[[dict[str, Any]], object]


def train(
    task: str | Path,
    out: str | Path | None = None,
    overrides: Iterable[str] = (),
    *,
    train: Any = None,
    valid: Any = None,
    test: Any = None,
    callbacks: Callback | Sequence[Callback] = (),
    quiet: bool = False,
    **changes: Any,
) -> Model:
    """Train for a task, or as a recipe says: a TOML file or the name of a shipped one. Returns the
    best model.

    train, valid, test: files, or rows that the program holds: texts, pairs, dicts, a dict of
    columns, a frame of pandas or polars, a dataset of Hugging Face, an iterator. out: the run
    folder, new. changes: keys of the recipe, such as steps=300, or sections, such as
    model={"layers": 2}; overrides: the same as the command line takes them.
    """
    parts = {"train": train, "valid": valid, "test": test}
    folder = free_folder(Path("runs"), Path(task).stem) if out is None else Path(out)
    say = _ignore if quiet else print_line
    chosen = _with_data(str(task), overrides, in_sections(changes), parts, folder / DATA, say)
    rows = {name: data for name, data in parts.items() if _is_rows(data, chosen)}

    def write_data() -> None:
        for name, data in rows.items():
            (folder / DATA).mkdir(exist_ok=True)
            columns = TASKS[chosen.recipe.task.kind].row_columns
            write_rows(data, _place(folder / DATA, name), columns, name)

    def begin(stop: StopRequest, listeners: Sequence[Listener]) -> Bundle:
        try:
            return train_recipe(
                chosen.recipe, folder, pick=chosen.by_task, quiet=quiet, interrupted=stop,
                listeners=listeners, write_data=write_data,
            )  # fmt: skip
        except InputError as error:
            message = str(error)
            for name in rows:  # the file is gone again; a message speaks of what was given
                message = message.replace(str(_place(folder / DATA, name)), name)
            if message == str(error):
                raise
            raise InputError(message) from error

    return _watched(begin, folder, callbacks, chosen.recipe.training.device)


def resume(
    folder: str | Path,
    overrides: Iterable[str] = (),
    *,
    allow_changes: bool = False,
    callbacks: Callback | Sequence[Callback] = (),
    quiet: bool = False,
    **changes: Any,
) -> Model:
    """Continue a run that was stopped, as if it had not been. Returns the best model.

    With allow_changes, the recipe may change: changes and overrides are those of `train`.
    """
    sections = in_sections(changes)

    def begin(stop: StopRequest, listeners: Sequence[Listener]) -> Bundle:
        return resume_run(
            Path(folder), overrides, changes=sections, allow_changes=allow_changes, quiet=quiet,
            interrupted=stop, listeners=listeners,
        )  # fmt: skip

    return _watched(begin, Path(folder), callbacks, "auto")


def _watched(
    begin: Callable[[StopRequest, Sequence[Listener]], Bundle],
    folder: Path,
    callbacks: Callback | Sequence[Callback],
    device: str,
) -> Model:
    """Train with callbacks and return the best model, or the best so far if a callback stops it."""
    stop = StopRequest()
    several = (callbacks,) if callable(callbacks) else tuple(callbacks)
    for callback in several:
        if not callable(callback):
            raise InputError(
                f"callbacks: {callback!r:.80} cannot be called; give functions of one argument, "
                "which are told each line of metrics.jsonl"
            )
    try:
        return Model(begin(stop, [_listener(callback, stop) for callback in several]), folder)
    except Interrupted:
        return load(folder, device)


def _listener(callback: Callback, stop: StopRequest) -> Listener:
    """Wrap a callback so that it cannot change random state or gradient mode for the next step."""

    def tell(line: dict[str, Any]) -> None:
        goes_on: object = True
        with random_state_kept(), torch.set_grad_enabled(torch.is_grad_enabled()):
            try:
                goes_on = callback(line)
            except StopTraining:
                goes_on = False
        if goes_on is False:
            stop.ask(SIGINT)

    return tell


def _with_data(
    task: str,
    overrides: Iterable[str],
    changes: dict[str, dict[str, Any]],
    parts: Mapping[str, Any],
    folder: Path,
    say: Callable[[str], None],
) -> Named:
    """The recipe that reads these parts: files from where they are, rows from where `train` writes
    them."""
    changes = {section: dict(keys) for section, keys in changes.items()}
    data = changes.setdefault("data", {})
    overrides = list(overrides)
    if all(part is None for part in parts.values()):
        return named(task, overrides, {name: keys for name, keys in changes.items() if keys}, say)
    kind = named(task, overrides).recipe.task.kind
    files = {name: _files(part, kind) for name, part in parts.items() if part is not None}
    within = data.get("folder", "")
    if None in files.values():  # what stays where it is must be found from the rows' folder too
        data["folder"] = str(folder)
        files = {
            name: names and [str(Path(within, file).absolute()) for file in names]
            for name, names in files.items()
        }
    for name, names in files.items():
        data[name] = [_place(folder, name).name] if names is None else names
    return named(task, overrides, changes, say)


def _place(folder: Path, part: str) -> Path:
    return folder / f"{part}.jsonl"


def _is_rows(data: Any, chosen: Named) -> bool:
    return data is not None and _files(data, chosen.recipe.task.kind) is None


def _files(data: Any, task: str) -> list[str] | None:
    """The names of files, if `data` is files; None if it is rows.

    A list of texts is files where each is one, or where nothing can be learned from texts alone.
    """
    if isinstance(data, str | PathLike):
        return [str(data)]
    if not isinstance(data, list | tuple) or not data:
        return None
    if not all(isinstance(name, str | PathLike) for name in data):
        return None
    owner = TASKS[task]
    may_be = len(data) <= owner.max_files
    if any(isinstance(name, PathLike) for name in data) or owner.row_columns != ("text",):
        return [str(name) for name in data]
    return [str(name) for name in data] if may_be and all(_exists(name) for name in data) else None


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False


def _ignore(line: str) -> None:
    pass
