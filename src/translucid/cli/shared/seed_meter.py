"""How far the seeds of some experiments are, and how long the rest will take."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from translucid.core.progress import Progress, duration

if TYPE_CHECKING:
    from translucid_lab.engine.runner import Job, Step

EVERY = 5.0  # seconds between two lines where there is no terminal


class SeedMeter:
    """One bar for all seeds, and one for each experiment that is at work."""

    def __init__(self, jobs: "Sequence[Job]", processes: int, progress: Progress) -> None:
        self._progress, self._processes = progress, processes
        self._totals = Counter(job.experiment.name for job in jobs)
        self._done: Counter[str] = Counter()
        self._to_measure = sum(job.experiment.seconds for job in jobs if not job.kept)
        self._measured = 0.0  # of the same sum
        self._show_those_at_work()

    @property
    def seconds(self) -> float:
        return self._progress.seconds

    def move(self, step: "Step") -> None:
        self._done[step.experiment.name] += 1
        if not step.kept:
            self._measured += step.experiment.seconds
        self._progress.move(self._done.total(), self._left())
        self._show_those_at_work()

    def _left(self) -> str:
        """The seeds' expected times say how they share what is left; the clock says the rest."""
        if not self._measured:
            return ""
        rest = (self._to_measure - self._measured) * self.seconds / self._measured
        return f"{duration(max(rest, 0.0))} left"

    def _show_those_at_work(self) -> None:
        unfinished = [name for name in self._totals if self._done[name] < self._totals[name]]
        at_work = unfinished[: self._processes]  # seeds are taken in this order
        for name, total in self._totals.items():
            self._progress.move_part(name, self._done[name], total, visible=name in at_work)


@contextmanager
def seed_meter(jobs: "Sequence[Job]", processes: int) -> Iterator[SeedMeter]:
    with Progress("seeds", len(jobs), every=EVERY) as progress:
        if not progress.live:
            kept = sum(job.kept for job in jobs)
            before = f", {kept} of them measured before" if kept else ""
            count = len({job.experiment.name for job in jobs})
            experiments = f"{count} experiment{'s' * (count != 1)}"
            progress.say(f"{experiments}, {len(jobs)} seed{'s' * (len(jobs) != 1)}{before}")
        yield SeedMeter(jobs, processes, progress)
