"""One training session: from the current step to the end of the run, or until it is stopped."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from translucid.core.atomic_files import sweep
from translucid.core.errors import InputError, Interrupted, TranslucidError
from translucid.fast.attention_kernels import without_plans
from translucid.models import Network
from translucid.runs import fingerprint, fold_choice, recorder, trackers
from translucid.runs.batches import Stream
from translucid.runs.best_models import BestModels
from translucid.runs.checkpoints import NUMBERS, Checkpoint, Checkpoints
from translucid.runs.final_test import finish
from translucid.runs.fold_choice import FoldChoice
from translucid.runs.folder import TEST, TEST_PREDICTIONS
from translucid.runs.forecast import Pace, evaluation_seconds
from translucid.runs.log import RunLog
from translucid.runs.recipe.own_files import OwnFiles, own_files
from translucid.runs.recorder import Recorder
from translucid.runs.setup import Setup
from translucid.tasks import model_folder
from translucid.tasks.base import Score
from translucid.tasks.model_folder import Bundle
from translucid.training.distributed import Processes
from translucid.training.loop import Ending, Watchers, train
from translucid.training.prefetch import prefetched
from translucid.training.state import State, StepPlan
from translucid.training.stop_request import StopRequested, leaving

LEAVING = 1.5  # seconds to load and compare the best model, and to end the process
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # required for deterministic cuBLAS


@dataclass(frozen=True)
class Recording:
    """How to record a run for the studio's Train view."""

    probe: str | None = None  # text to follow; default: the first validation example
    began: Callable[[], None] = lambda: None  # called when there is something to show


class Session:
    """Trains a run from its current step. Contains the state of the run and knows where it is
    saved."""

    def __init__(
        self,
        out: Path,
        setup: Setup,
        run_log: RunLog,
        processes: Processes,
        interrupted: Callable[[], bool],
        recording: Recording | None = None,
    ) -> None:
        self.out, self.setup, self.run_log = out, setup, run_log
        self.processes, self.interrupted = processes, interrupted
        training, task = setup.recipe.training, setup.task
        self.checkpoints = Checkpoints(out, aside=training.save_in_background, processes=processes)
        criterion = task.criterion(training.best_metric)
        self.best_models = BestModels(out, task, training.keep_best, criterion)
        folder = own_files(out).folder or os.getcwd()  # kept if resumed from elsewhere
        self.fingerprint = fingerprint.fingerprint_of(setup, processes, folder)
        self.stream = self._stream()
        rows = self.stream.most_rows if training.carry_state else None
        self.state = State(setup.network, training, processes, criterion=criterion, rows=rows)
        if training.minutes is not None:  # at least half of it is for training
            self.state.seconds = min(setup.seconds, 30 * training.minutes)
        self.recording = recording

    def _stream(self, **place: int) -> Stream:
        return Stream(
            self.setup.task, self.setup.items, self.setup.recipe, processes=self.processes,
            packing=self.setup.packing, **place,
        )  # fmt: skip

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of the run from a checkpoint."""
        try:
            self.state.restore(checkpoint.fill, checkpoint.numbers["state"])
            self.stream = self._stream(**checkpoint.numbers["place"])
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, TranslucidError):
                raise
            raise InputError(
                f"{checkpoint.folder / NUMBERS}: the checkpoint of step {checkpoint.step:,} no "
                f"longer fits the model: {type(error).__name__}: {error}; train into a new folder"
            ) from error
        numbers = checkpoint.numbers
        self.best_models.restore(numbers["kept"], numbers.get("kept_losses", {}))
        self.run_log.go_back(checkpoint.numbers["metrics"])
        if self.processes.main:
            recorder.go_back(self.out, checkpoint.step)

    def extend(self) -> None:
        """Continue a finished run if it now has more steps."""
        steps = self.setup.recipe.training.steps
        self.state.plan = StepPlan(steps, steps)
        self.state.finished = self.state.step >= steps
        if not self.state.finished and self.processes.main:
            for name in (TEST, TEST_PREDICTIONS):  # of the earlier model
                (self.out / name).unlink(missing_ok=True)
            self.best_models.restore_network()

    def go(self) -> Bundle:
        """Train to the end, then test."""
        if self.processes.main:
            for place in (self.out, self.out / "state", self.out / "checkpoints"):
                sweep(place)
            if files := self.fingerprint["files"]:
                OwnFiles(self.fingerprint["folder"], files).save(self.out)
        if self.recording is None:
            return self._go()
        with Recorder(
            self.out, self.setup.network, self.setup.recipe.training.steps,
            lambda network: self._bundle(network, {}), main=self.processes.main,
        ) as record:  # fmt: skip
            record.begin(self.state.step, self.recording.probe, self.setup.first)
            self.recording.began()
            return self._go(
                watches=record.watches, stepped=record.stepped, looks=record.looks,
                looked=record.looked,
            )  # fmt: skip

    def _go(self, **recorded: Any) -> Bundle:
        """Train, then test. recorded: callbacks of the recorder."""
        setup, training = self.setup, self.setup.recipe.training
        self.pace = Pace(
            training, self.state.step, self.state.seconds, self._evaluation_seconds,
            self.run_log.say, self.state.plan, self._ending_seconds,
        )  # fmt: skip
        self.run_log.begin(
            self.state.step, self.state.plan.end, trackers.chosen(training),
            self.fingerprint["recipe"], self.pace.left, training.log_pause,
        )  # fmt: skip
        if setup.start is not None and not self.checkpoints.steps():
            # Score the initial model as the score to beat, unless it has a new, untrained head.
            self.state.unscored = setup.start_is_trained
            self._save()  # from now on, the model that training started from is not needed
        return self._train(
            Watchers(
                self.run_log.progress, self._keep, self._save, self.interrupted, self.run_log.say,
                ticked=self._ticked, evaluation_took=self.pace.evaluated, **recorded,
            )
        )  # fmt: skip

    def _new_end(self, plan: StepPlan, step: int, seconds: float) -> int | None:
        """The new last step if it changes, otherwise None. With several processes it never changes,
        because each of them would measure different times."""
        end = self.pace.new_end(plan, step, seconds) if self.processes.alone else None
        self.state.limit = self.pace.limit
        if end is not None:
            self.run_log.end_at(end)
        return end

    def _ending_seconds(self, evaluation: float) -> float:
        """Estimate the seconds from the last step to the end of the command: the network and the
        baseline are scored on the test data, or without any on the validation data again."""
        setup = self.setup
        baseline = 0.0 if setup.baseline is None else setup.baseline.seconds.get("valid", 0.0)
        if not setup.test:
            return evaluation + LEAVING
        return (evaluation + baseline) * len(setup.test) / max(len(setup.valid), 1) + LEAVING

    def _choice(self, step: int) -> FoldChoice | None:
        """The choice between the network and the baseline by cross-validation, if there are few
        validation rows. step: at which the network was best."""
        state, training = self.state, self.setup.recipe.training
        left = inf if training.minutes is None else self.pace.limit - state.seconds
        seconds = state.seconds * step / max(state.step, 1)
        if not fold_choice.applies(self.setup, step, seconds, left):
            return None
        place = round(state.plan.at(step))  # if the schedule was stretched
        return fold_choice.choose(self.setup, place, state.device)

    def _ticked(self, step: int, seconds: float) -> None:
        self.pace.ticked(step, seconds)
        self.run_log.tick(step)

    def _evaluation_seconds(self) -> float:
        """Estimate the time of an evaluation from a few examples; 0 with several processes."""
        if not self.processes.alone:
            return 0.0
        with suppress(StopRequested), leaving(self.interrupted), self.state.readable() as network:
            return evaluation_seconds(self.setup.task, network, self.setup.valid)
        return 0.0

    def _train(self, watchers: Watchers) -> Bundle:
        setup, training = self.setup, self.setup.recipe.training
        if training.cuda_graphs is True:
            self.run_log.say(
                "capturing the first step as a CUDA graph; compiling new kernels takes some seconds"
            )
        try:
            with (
                without_plans(self.state.device),
                _kernels(training.deterministic),
                prefetched(self.stream, captured=training.cuda_graphs is True) as batches,
            ):
                ending = train(
                    self.state, setup.task, batches, setup.valid, training, watchers,
                    one_shape=self.stream.one_shape, new_end=self._new_end,
                )  # fmt: skip
        finally:  # however it ended, raise errors of a save in the background
            self.checkpoints.wait()
        self.run_log.say(self._why(ending))
        if ending == "interrupted":
            self._stop("stopped and saved")
        try:
            with leaving(self.interrupted):
                if training.average_best and self.processes.main:
                    self.best_models.try_average(
                        setup.valid, setup.coverage["valid"], self.state.device, self.run_log.say
                    )
                if training.baseline == "choose" and setup.baseline is not None:
                    self.best_models.try_baseline(setup.baseline, self.run_log.say, self._choice)
            self.processes.wait()
            with leaving(self.interrupted):
                if self.processes.main:
                    return finish(self.out, setup, self.state.device, self.run_log.say)
                return model_folder.load(self.out / "best", str(self.state.device))
        except StopRequested:
            self._stop("trained and saved, stopped before the test data was scored")

    def _stop(self, progress: str) -> NoReturn:
        steps, command = self.state.plan.end, self.processes.command
        line = (
            f"{progress} after step {self.state.step:,} of {steps:,}; "
            f"resume with: {command} resume {shlex.quote(str(self.out))}"
        )
        self.run_log.note(line)
        raise Interrupted(line) from None

    def _why(self, ending: Ending) -> str:
        """Describe why training ended."""
        training, metric = self.setup.recipe.training, self.state.best.criterion.metric
        end = self.state.plan.end
        match ending:
            case "patience":
                rounds = f"{training.patience} evaluations (training.patience)"
                why = f"{metric} did not improve in {rounds}"
            case "minutes":
                why = f"time limit reached (training.minutes = {training.minutes:g})"
            case "interrupted":
                why = "interrupted"
            case "steps":
                why = "all steps done (training.steps)"
                if end != training.steps:
                    why = f"all steps done that fit (training.minutes = {training.minutes:g})"
        return f"training ended after step {self.state.step:,} of {end:,}: {why}"

    def _bundle(self, network: nn.Module, facts: dict[str, object]) -> Bundle:
        assert isinstance(network, Network)
        return self.setup.bundle(network, {"step": self.state.step} | facts)

    def _keep(self, network: nn.Module, score: Score, best: bool) -> None:
        score = replace(score, coverage=self.setup.coverage["valid"])
        self.run_log.evaluated(self.state.step, score, best)
        if self.processes.main:
            facts: dict[str, object] = {"valid": score.numbers, "valid_counts": score.counts()}
            if score.warnings:
                facts["warnings"] = list(score.warnings)
            self.best_models.keep(self._bundle(network, facts), score, best)

    def _save(self) -> None:
        if not (self.out / "last").exists():  # stopped before the first evaluation
            with self.state.readable() as network:
                if self.processes.main:
                    self.best_models.keep_last(self._bundle(network, {}))
        numbers = {
            "state": self.state.numbers(),
            "place": self.stream.place(self.state.batches),
            "kept": self.best_models.numbers(),
            "kept_losses": self.best_models.losses(),
            "metrics": self.run_log.length(),
            "fingerprint": self.fingerprint,
        }
        self.checkpoints.save(self.state.step, self.state.tensors(), numbers)


@contextmanager
def _kernels(deterministic: bool) -> Iterator[None]:
    """Use only deterministic kernels, if requested; some GPU kernels add in varying order."""
    if not deterministic:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    only_warn = torch.is_deterministic_algorithms_warn_only_enabled()
    workspace = os.environ.get(WORKSPACE)
    os.environ.setdefault(WORKSPACE, ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warn)
        if workspace is None:
            del os.environ[WORKSPACE]
