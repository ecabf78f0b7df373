"""A run of a model that is fitted to all examples at once, without training steps."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from translucid.core.device import pick_device
from translucid.core.errors import ConfigError, Interrupted
from translucid.runs import fingerprint
from translucid.runs.best_models import BestModels
from translucid.runs.final_test import finish
from translucid.runs.log import RunLog
from translucid.runs.recipe.baseline import fit, fitted_to
from translucid.runs.recipe.own_files import OwnFiles, own_files
from translucid.runs.setup import Setup
from translucid.tasks.in_batches import reporting
from translucid.tasks.model_folder import Bundle
from translucid.training.distributed import Processes
from translucid.training.state import random_state_kept
from translucid.training.stop_request import StopRequested, leaving


def check_fitted(kind: str, processes: Processes, *, recorded: bool) -> None:
    """Raise an error for options that need training steps."""
    if not processes.alone:
        raise ConfigError(
            f"model.kind = {kind} is fitted by one process; start it without torchrun"
        )
    if recorded:
        raise ConfigError(
            f"--studio shows training steps, but model.kind = {kind} is fitted in a single step; "
            "omit --studio, and open the model with translucid explore"
        )


def fit_run(
    out: Path,
    setup: Setup,
    run_log: RunLog,
    processes: Processes,
    interrupted: Callable[[], bool],
) -> Bundle:
    """Fit the model, save it and score it."""
    training, task, network = setup.recipe.training, setup.task, setup.network
    device = pick_device(training.device, "training.device")
    folder = own_files(out).folder or os.getcwd()
    if files := fingerprint.fingerprint_of(setup, processes, folder)["files"]:
        OwnFiles(folder, files).save(out)
    stopped = "stopped before the model was fitted; nothing was changed"
    try:
        with leaving(interrupted):
            with random_state_kept(device):
                seconds = fit(network.cpu(), task, setup.items, training.seed)
            with reporting(run_log.say):
                score = task.evaluate(network.to(device).eval(), setup.valid)
        score = replace(score, coverage=setup.coverage["valid"])
        run_log.fitted(seconds, score)
        facts: dict[str, object] = {"step": 0, "fitted": fitted_to(task, setup.items)}
        facts |= {"valid": score.numbers, "valid_counts": score.counts()}
        facts |= {"warnings": list(score.warnings)} if score.warnings else {}
        models = BestModels(out, task, 1, task.criterion(training.best_metric))
        models.keep(setup.bundle(network, facts), score, best=True)
        stopped = f"the model is in {out / 'best'}; stopped before the test data was scored"
        with leaving(interrupted):
            return finish(out, setup, device, run_log.say)
    except StopRequested:
        raise Interrupted(stopped) from None
