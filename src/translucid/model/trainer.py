"""Training from Python: `tl.train` and `tl.resume`, from files or from data in memory."""

import os
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
    """Train a model and return the best one. task: its name, a recipe file or a shipped recipe.

    train, valid, test: files, or data in memory: texts, pairs, dicts, a dict of columns, a pandas
    or polars data frame, a Hugging Face dataset, an iterator. out: a new run folder. changes: keys
    of the recipe, such as steps=300, or sections, such as model={"layers": 2}. overrides: the same
    in the form of the command line.
    """
    parts = {"train": train, "valid": valid, "test": test}
    folder = free_folder(Path("runs"), Path(task).stem) if out is None else Path(out)
    say = (lambda line: None) if quiet else print_line
    chosen = _with_data(str(task), overrides, in_sections(changes), parts, folder / DATA, say)
    kind = chosen.recipe.task.kind
    rows = {
        name: data
        for name, data in parts.items()
        if data is not None and _files(data, kind) is None
    }

    def write_data() -> None:
        for name, data in rows.items():
            (folder / DATA).mkdir(exist_ok=True)
            columns = TASKS[kind].traits.row_columns
            write_rows(data, _place(folder / DATA, name), columns, name)

    def begin(stop: StopRequest, listeners: Sequence[Listener]) -> Bundle:
        try:
            return train_recipe(
                chosen.recipe, folder, pick=chosen.by_task, quiet=quiet, interrupted=stop,
                listeners=listeners, write_data=write_data,
            )  # fmt: skip
        except InputError as error:
            message = str(error)
            for name in rows:  # the user gave rows, not this file
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
    """Resume a run that was stopped, with the same result as without the stop. Return the best
    model.

    allow_changes: allow changes to the recipe; `changes` and `overrides` are those of `train`.
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
                f"callbacks: {callback!r:.80} is not callable; pass functions of one argument, "
                "which receives each line of metrics.jsonl"
            )
    try:
        return Model(begin(stop, [_listener(callback, stop) for callback in several]), folder)
    except Interrupted:
        return load(folder, device)


def _listener(callback: Callback, stop: StopRequest) -> Listener:
    """Wrap a callback so that it does not affect random state or gradient mode."""

    def call(line: dict[str, Any]) -> None:
        with random_state_kept(), torch.set_grad_enabled(torch.is_grad_enabled()):
            try:
                stops = callback(line) is False
            except StopTraining:
                stops = True
        if stops:
            stop.ask(SIGINT)

    return call


def _with_data(
    task: str,
    overrides: Iterable[str],
    changes: dict[str, dict[str, Any]],
    parts: Mapping[str, Any],
    folder: Path,
    say: Callable[[str], None],
) -> Named:
    """The recipe with these training, validation and test data. Data given as files is read from
    these files; for data given as rows, the recipe names the files to which `train` writes the
    rows."""
    changes = {section: dict(keys) for section, keys in changes.items()}
    data = changes.setdefault("data", {})
    overrides = list(overrides)
    if all(part is None for part in parts.values()):
        return named(task, overrides, {name: keys for name, keys in changes.items() if keys}, say)
    kind = named(task, overrides).recipe.task.kind
    files = {name: _files(part, kind) for name, part in parts.items() if part is not None}
    within = data.get("folder", "")
    if None in files.values():  # data.folder becomes that of the rows; files need absolute paths
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


def _files(data: Any, task: str) -> list[str] | None:
    """The file names, if `data` consists of files; None if it consists of rows.

    A list of strings is taken as file names if all of these files exist, or if the task cannot
    learn from texts alone.
    """
    if isinstance(data, str | PathLike):
        return [str(data)]
    if not isinstance(data, list | tuple) or not data:
        return None
    if not all(isinstance(name, str | PathLike) for name in data):
        return None
    traits = TASKS[task].traits
    may_be_texts = traits.row_columns == ("text",) and all(isinstance(name, str) for name in data)
    are_files = len(data) <= traits.max_files and all(map(os.path.exists, data))
    return None if may_be_texts and not are_files else [str(name) for name in data]
