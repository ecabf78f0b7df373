"""Run experiments seed by seed, and store what they measure.

The numbers of each seed are stored in a file whose path contains a hash of the code and the
setting. So an interrupted run resumes, and nothing is measured twice unless its code has changed.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import import_module
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from translucid import TranslucidError
from translucid.core import InputError, saving
from translucid_lab.engine.experiment import Experiment, of_file, of_module
from translucid_lab.engine.fingerprints import digest, module_of, outside, source_of
from translucid_lab.engine.verdict import Data, Finding


@dataclass(frozen=True)
class Job:
    """One seed of one experiment."""

    experiment: Experiment
    seed: int
    quick: bool
    path: Path

    @property
    def kept(self) -> bool:
        """Whether this seed is already measured."""
        return self.path.exists()


@dataclass(frozen=True)
class SeedDone:
    """Progress: one more seed is measured."""

    experiment: Experiment
    done: int  # seeds of this experiment
    of: int
    kept: bool  # measured in an earlier run


Progress = Callable[[SeedDone], None]


@dataclass(frozen=True)
class Failure:
    """A seed or a rule that failed. All other seeds are kept, but there is no verdict."""

    experiment: Experiment
    seed: int | None  # None: the rule failed
    error: Exception

    def __str__(self) -> str:
        kind = "" if isinstance(self.error, TranslucidError) else f"{type(self.error).__name__}: "
        place = "its rule" if self.seed is None else f"seed {self.seed}"
        return f"{self.experiment.name}, {place}: {kind}{self.error}"


@dataclass(frozen=True)
class ExperimentResult:
    """What all seeds of an experiment measured, and the findings on its claims."""

    experiment: Experiment
    data: tuple[Data, ...]
    quick: bool
    seconds: float
    first: int = 0  # number of the first seed

    @cached_property
    def findings(self) -> dict[str, Finding]:
        return {key: self.finding(key) for key in self.experiment.claims}

    def finding(self, key: str) -> Finding:
        """The finding on one claim; undecided unless the rule's number of seeds was measured."""
        finding, wanted = self.experiment.claims[key].finding(self.data), self.experiment.seeds
        if len(self.data) != wanted:
            seeds = f"{len(self.data)} seed{'s' * (len(self.data) > 1)}"
            why = f"{seeds} measured, but the rule requires exactly {wanted}"
            return replace(finding, verdict="undecided", why=f"{why}; {finding.why}")
        if self.quick and finding.verdict in ("refuted", "depends", "not applicable"):
            why = "a quick run measures too little to refute a claim"
            return replace(finding, verdict="undecided", why=f"{why}; {finding.why}")
        return finding

    def as_dict(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "quick": self.quick,
            "seeds": len(self.data),
            "first_seed": self.first,
            "seconds": round(self.seconds, 2),
            "claims": {key: asdict(finding) for key, finding in self.findings.items()},
            "data": list(self.data),
        }


def jobs_of(
    experiment: Experiment,
    out: Path,
    *,
    seeds: int | None = None,
    first: int = 0,
    quick: bool = False,
) -> list[Job]:
    """The jobs for seeds `first`, `first` + 1, ...; only seed 0 if the experiment is not random."""
    if experiment.seeds == 1:
        seeds, first = 1, 0
    numbers = range(first, first + (seeds or experiment.seeds))
    kind = "quick" if quick else "full"
    folder = out / experiment.name / f"{kind}-{digest(experiment)}"
    return [Job(experiment, seed, quick, folder / f"seed-{seed}.json") for seed in numbers]


def measure(job: Job) -> dict[str, Any]:
    """Measure one seed, or read its stored numbers."""
    if job.kept:
        return _read(job.path)
    began = time.perf_counter()
    with one_thread():
        data = job.experiment.run(job.seed, job.quick)
    text = _as_text({"seconds": time.perf_counter() - began, "data": data})
    with saving(job.path):
        job.path.parent.mkdir(parents=True, exist_ok=True)
        part = job.path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, "utf-8")
        os.replace(part, job.path)
    kept: dict[str, Any] = json.loads(text)  # as a later run reads it
    return kept


def _read(path: Path) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return {"seconds": float(kept["seconds"]), "data": kept["data"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); remove it to measure this seed again"
        ) from None


def _as_text(data: dict[str, Any]) -> str:
    try:
        return json.dumps(data, allow_nan=True)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"run() returned something that JSON cannot store ({error}); return numbers, strings, "
            "lists and dictionaries: float(x) for a tensor, x.tolist() for an array"
        ) from None


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread in the block. With more, the order of summation and thus rounding would depend
    on the number of cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run(
    chosen: Sequence[Experiment],
    out: Path,
    *,
    seeds: int | None = None,
    first: int = 0,
    quick: bool = False,
    processes: int = 1,
    progress: Progress = lambda step: None,
) -> Iterator[ExperimentResult | Failure]:
    """Run experiments. Yield each result when all its seeds are measured, and each failure
    immediately."""
    waiting = {
        experiment.name: jobs_of(experiment, out, seeds=seeds, first=first, quick=quick)
        for experiment in chosen
    }
    measured_by_name: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in waiting}
    kept = {job.path for jobs in waiting.values() for job in jobs if job.kept}
    for job, measured in _measured([job for jobs in waiting.values() for job in jobs], processes):
        if isinstance(measured, Exception):
            yield Failure(job.experiment, job.seed, measured)
            continue
        rows = measured_by_name[job.experiment.name]
        rows[job.seed] = measured
        of = len(waiting[job.experiment.name])
        progress(SeedDone(job.experiment, len(rows), of, job.path in kept))
        if len(rows) == of:
            ordered = [rows[seed] for seed in sorted(rows)]
            data = tuple(row["data"] for row in ordered)
            total = sum(row["seconds"] for row in ordered)
            yield _judged(ExperimentResult(job.experiment, data, quick, total, min(rows)))


def _judged(result: ExperimentResult) -> ExperimentResult | Failure:
    try:
        result.findings  # noqa: B018  (cached in the result)
    except Exception as error:
        return Failure(result.experiment, None, error)
    return result


Measured = Iterator[tuple[Job, dict[str, Any] | Exception]]


def _measured(jobs: Sequence[Job], processes: int) -> Measured:
    """Yield the numbers of all jobs, stored seeds first, since they need no process."""
    ordered = sorted(jobs, key=lambda job: not job.kept)
    here = ordered if processes == 1 else [job for job in ordered if job.kept]
    for job in here:
        try:
            yield job, measure(job)
        except Exception as error:  # the code may be a user's
            yield job, error
    if len(here) < len(ordered):
        yield from _in_processes(ordered[len(here) :], processes)


def _in_processes(jobs: Sequence[Job], processes: int) -> Measured:
    # Spawned, not forked: a fork copies locks that other threads hold.
    pool = ProcessPoolExecutor(
        min(processes, len(jobs)), get_context("spawn"), initializer=_begin_process
    )
    pending: dict[Future[dict[str, Any]], Job] = {}
    try:
        # The longest first, so that no core idles at the end.
        for job in sorted(jobs, key=lambda job: -job.experiment.seconds):
            made = job.experiment
            where = source_of(made) if outside(made) else module_of(made)
            words = (made.name, where, job.seed, job.quick, job.path)
            pending[pool.submit(_by_name, *words)] = job
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    raise TranslucidError(
                        "a measuring process died (killed, or out of memory); use fewer processes, "
                        "and run the same command again to resume"
                    ) from None
                job = pending.pop(future)
                yield job, error if isinstance(error, Exception) else future.result()
    finally:
        if pending:  # interrupted: unfinished seeds will be measured again
            for process in (pool._processes or {}).values():
                process.terminate()
        pool.shutdown(cancel_futures=True)


def _by_name(name: str, where: Path | str, seed: int, quick: bool, path: Path) -> dict[str, Any]:
    """Measure one seed in a worker process, which finds the experiment by name in a file or
    module."""
    experiments = of_file(where) if isinstance(where, Path) else of_module(import_module(where))
    (made,) = (experiment for experiment in experiments if experiment.name == name)
    return measure(Job(made, seed, quick, path))


def _begin_process() -> None:
    """Ignore Ctrl-C, which the parent process handles, and exit if the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)
