"""Run a recipe from start to finish, or resume a run, in a run folder (see `folder`)."""

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from translucid.core import extensions
from translucid.core.atomic_files import aside, fault, remove, write_text, write_whole
from translucid.core.device import pick_device
from translucid.core.errors import ConfigError, InputError, Interrupted, SaveError, TrainingError
from translucid.core.untrusted_files import read_json, read_object
from translucid.parts.positions import POSITIONS
from translucid.runs import fingerprint
from translucid.runs.best_models import card
from translucid.runs.checkpoints import Checkpoints
from translucid.runs.final_test import start_score
from translucid.runs.fine_tuning.start import read_record
from translucid.runs.fitted_run import check_fitted, fit_run
from translucid.runs.folder import (
    BASELINE,
    CODE,
    LOCK,
    RECIPE,
    START,
    TEST,
    check_own,
    locked,
    made,
    remove_own,
    saved,
)
from translucid.runs.log import FILES, Listener, RunLog
from translucid.runs.recipe import recipe
from translucid.runs.recipe.own_files import reachable
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.recipe.toml import dump
from translucid.runs.recorder import FOLDER
from translucid.runs.session import Recording, Session
from translucid.runs.setup import Setup, set_up
from translucid.runs.trackers import check_installed
from translucid.tasks import model_folder
from translucid.tasks.base import Score
from translucid.tasks.model_folder import Bundle, own_names
from translucid.tasks.registry import TASKS
from translucid.training.distributed import Processes, joined
from translucid.training.state import random_state_kept
from translucid.training.stop_request import StopRequested, leaving

T = TypeVar("T")


def train_recipe(
    recipe: Recipe,
    out: Path,
    *,
    pick: bool = False,
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
    recording: Recording | None = None,
    allowed: Collection[str] = (),
    listeners: Sequence[Listener] = (),
    write_data: Callable[[], None] = lambda: None,
    began: float | None = None,
) -> Bundle:
    """Train a recipe into a new folder, and return the best model.

    With `pick`, unset keys are chosen to fit the data and printed. A run that `interrupted` stops
    is saved, and raises Interrupted. `recording` stores what the studio's Train view shows, and
    changes nothing else. `allowed`: files that the folder may contain already. `listeners` receive
    each line of metrics.jsonl. `write_data` writes the recipe's data once the folder is locked.
    `began`: when the command started, by `time.monotonic`; the time limit counts from then.
    """
    check_installed(recipe.training)
    device = pick_device(recipe.training.device, "training.device")
    with (
        random_state_kept(device),
        joined(recipe.training.parallel, device) as processes,
        _explained(out, processes),
    ):
        check_together(recipe, processes)
        if processes.main:
            _check_new(out, allowed)
        with made(out, main=processes.main), locked(out, main=processes.main):
            if processes.main:
                _check_new(out, allowed)  # again, now that it is locked
            run_log = _open_log(out, listeners, quiet=quiet, main=processes.main)
            try:
                if processes.main:
                    write_data()
                processes.wait()
                return _begin(
                    recipe, out, run_log, processes, interrupted, recording, pick=pick, began=began
                )
            except BaseException:
                run_log.close()
                if processes.main and not any(saved(out)):
                    remove_own(out)  # leave nothing behind
                raise
            finally:
                run_log.close()


def _begin(
    recipe: Recipe, out: Path, run_log: RunLog, processes: Processes,
    interrupted: Callable[[], bool], recording: Recording | None, *, pick: bool = False,
    began: float | None = None,
) -> Bundle:  # fmt: skip
    """Set up the run, write its recipe, and train from the first step."""
    if recipe.fitted:
        check_fitted(recipe.model["kind"], processes, recorded=recording is not None)
    setup = _or_stop(
        interrupted, set_up, recipe, run_log.say, pick=pick, fits_baseline=processes.main,
        began=began,
    )  # fmt: skip
    if processes.main:
        if setup.start is not None and setup.start_is_trained and setup.test:
            setup.start["test"] = _or_stop(interrupted, start_score, setup, run_log.say)
        write_text(out / RECIPE, dump(setup.recipe))
        write_whole(out / "state" / "tokenizers", setup.save_tokenizers)
        _save_baseline(out, setup)
        if setup.start is not None:
            write_text(out / START, json.dumps(setup.start, indent=2) + "\n")
        if noted := extensions.used(own_names(setup.task.name, setup.network.config)):
            text = json.dumps([asdict(source) for source in noted], indent=2) + "\n"
            write_text(out / CODE, text)
    if setup.network.fits:
        return fit_run(out, setup, run_log, processes, interrupted)
    return Session(out, setup, run_log, processes, interrupted, recording).go()


def _or_stop(
    interrupted: Callable[[], bool], work: Callable[..., T], *arguments: Any, **options: Any
) -> T:
    """Do work that a stop request may interrupt at any time, since nothing is trained yet."""
    try:
        with leaving(interrupted):
            return work(*arguments, **options)
    except StopRequested:
        raise Interrupted("stopped before the first step; nothing was changed") from None


def _save_baseline(out: Path, setup: Setup) -> None:
    """Write the fitted baseline to the run folder, where the end of the run and a resumed run read
    it."""
    if (made := setup.baseline) is not None:
        score = Score(made.bundle.facts["valid"], coverage=made.parts["valid"][1])
        model_folder.save(made.bundle, out / BASELINE, card(made.bundle, score))


def _check_new(out: Path, allowed: Collection[str] = ()) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose a folder with --out")
    try:
        there = {path.name for path in out.iterdir()} if out.exists() else set()
    except OSError as error:
        raise InputError(
            f"{out} cannot be used: {error.strerror}; choose another folder with --out"
        ) from None
    check_own(out)
    there -= {LOCK, *allowed}  # the lock is this run's, or left by a killed process
    if {"recipe.toml", "log.txt"} <= there:
        raise InputError(
            f"{out} already contains a run; resume it with: translucid resume "
            f"{shlex.quote(str(out))}, or choose another folder with --out"
        )
    # A run that is killed before it writes its recipe leaves a log without metrics.
    metrics = out / "metrics.jsonl"
    left = {*FILES, aside(out / RECIPE).name}
    only_started = metrics.exists() and not metrics.stat().st_size and there <= left
    if there and not only_started:
        raise InputError(f"{out} is not empty; choose another folder with --out, or remove it")


@contextmanager
def _explained(out: Path, processes: Processes) -> Iterator[None]:
    """Add to a SaveError which checkpoints exist and how to resume."""
    try:
        yield
    except SaveError as error:
        rest = Checkpoints(out, processes=processes).resume_advice()
        raise TrainingError(f"{error}; {rest}") from error


def check_together(recipe: Recipe, processes: Processes) -> None:
    """Raise an error for settings with which several processes would give different results from a
    single process."""
    training = recipe.training
    if processes.alone:
        return
    if training.compile is True and processes.sharded:
        raise ConfigError(
            "training.compile = true is not available with fsdp; use ddp, or omit training.compile"
        )
    if recipe.model.get("norm") == "batch":
        raise ConfigError(
            "model.norm = 'batch' works only in one process, because each process would use the "
            "statistics of its own rows; choose layer or rms"
        )
    if processes.sharded and training.optimizer == "muon":
        raise ConfigError(
            "training.optimizer = 'muon' is not available with fsdp; use ddp or adamw"
        )


def _open_log(out: Path, listeners: Sequence[Listener], *, quiet: bool, main: bool) -> RunLog:
    try:
        return RunLog(out if main else None, quiet=quiet, listeners=listeners)
    except SaveError as error:
        raise InputError(f"{error}; choose another folder with --out") from None


def resume_run(
    out: Path,
    overrides: Iterable[str] = (),
    *,
    allow_changes: bool = False,
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
    recording: Recording | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    listeners: Sequence[Listener] = (),
) -> Bundle:
    """Resume a run from its newest intact checkpoint, bit for bit as if it had never stopped.

    A run that was stopped before its first checkpoint starts over.
    """
    if not (out / RECIPE).exists():
        raise InputError(f"{out} is not a run folder: it contains no recipe.toml")
    check_own(out)
    if (out / CODE).is_file():
        extensions.require(read_json(out / CODE), (TASKS, POSITIONS), out)
    chosen = recipe.of_run(out, overrides, changes)
    check_installed(chosen.training)
    device = pick_device(chosen.training.device, "training.device")
    with (
        random_state_kept(device),
        joined(chosen.training.parallel, device) as processes,
        _explained(out, processes),
        locked(out, main=processes.main),
    ):
        check_together(chosen, processes)
        main = out if processes.main else None
        run_log = RunLog(main, quiet=quiet, listeners=listeners)
        try:
            if chosen.fitted and (out / "best").exists() and _scored(out, chosen):
                if overrides or changes:
                    raise InputError(
                        f"{out} is complete: model.kind = {chosen.model['kind']} is fitted once; "
                        "to change settings, train into a new folder"
                    )
                run_log.say(f"{out} is complete: its model was fitted to all examples")
                return model_folder.load(out / "best", str(device))
            if not Checkpoints(out).steps():
                run_log.say(f"{out} was stopped before its first checkpoint; starting over")
                run_log.go_back(0)
                if processes.main and recording is None:
                    remove(out / FOLDER)  # of the earlier session
                return _begin(
                    _with_folder(chosen, out), out, run_log, processes, interrupted, recording
                )
            checkpoint = Checkpoints(out).newest(run_log.say)
            checkpoint.check()
            before = checkpoint.numbers["fingerprint"]
            finished = checkpoint.numbers["state"]["finished"] and not allow_changes
            setup = _or_stop(
                interrupted, set_up, _with_folder(chosen, out), run_log.say,
                tokenizers=out / "state" / "tokenizers", start=_start_of(out),
                columns=_columns_of(out),
                # With changes, it is fitted again.
                baseline=out / BASELINE if processes.main and not allow_changes else None,
                fits_baseline=processes.main and not (finished and _scored(out, chosen)),
            )  # fmt: skip
            if allow_changes or fault(out / BASELINE) is not None:
                _save_baseline(out, setup)
            session = Session(out, setup, run_log, processes, interrupted, recording)
            changed = fingerprint.changes(before, session.fingerprint)
            if changed and not allow_changes:
                raise InputError(
                    f"{out} cannot be resumed, because this changed: {'; '.join(changed)}. "
                    "Restore it, or resume with the changes: --allow-changes"
                )
            for words in (*changed, *fingerprint.circumstances(before, session.fingerprint)):
                run_log.say(f"results may differ slightly from an uninterrupted run: {words}")
            if processes.main:
                write_text(out / RECIPE, dump(chosen))
            session.restore(checkpoint)
            if changed:  # perhaps to more steps
                session.extend()
            run_log.say(f"resumed at step {checkpoint.step:,} of {session.state.plan.end:,}")
            if session.state.finished:
                run_log.say(
                    "all steps are done; to train longer: translucid resume "
                    f"{shlex.quote(str(out))} training.steps=... --allow-changes"
                )
            return session.go()
        finally:
            run_log.close()


def train_or_resume(recipe: Recipe, out: Path, *, pick: bool = False, **options: Any) -> Bundle:
    """Resume the run in this folder, or train the recipe into it."""
    if (out / RECIPE).exists():
        return resume_run(out, **options)
    return train_recipe(recipe, out, pick=pick, **options)


def _scored(out: Path, chosen: Recipe) -> bool:
    """Whether the test data, if any, has been scored."""
    data = chosen.data
    return (out / TEST).exists() or not (data.test or data.toyland is not None)


def _with_folder(chosen: Recipe, out: Path) -> Recipe:
    """The recipe with the current folder of its files."""
    files = (*chosen.data.train, *chosen.data.valid, *chosen.data.test)
    return reachable(chosen, files, out) if files else chosen


def _start_of(out: Path) -> dict[str, Any] | None:
    """The record of the model that a run started from; the model itself is not needed."""
    file = out / START
    return read_record(read_object(file), str(file)) if file.is_file() else None


def _columns_of(out: Path) -> dict[str, Any]:
    """The columns of the training data when the run started, from its newest model."""
    config = out / "last" / "config.json"
    columns = read_object(config).get("columns") if config.is_file() else None
    if not isinstance(columns, dict):
        return {}
    return {k: tuple(v) if isinstance(v, list) else v for k, v in columns.items()}
