"""How far the seeds of some experiments are: bars on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from translucid.cli.shared.lines import in_words

if TYPE_CHECKING:
    from translucid.lab.engine.runner import Job, Step

EVERY = 5.0  # seconds between two lines where there is no terminal


class Meter:
    """Counts seeds, and knows from what they take how long the rest will."""

    def __init__(self, jobs: "Sequence[Job]") -> None:
        self.total, self.done = len(jobs), 0
        self._to_measure = sum(job.experiment.seconds for job in jobs if not job.kept)
        self._measured = 0.0  # of the same sum
        self._began = self._told = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> str:
        """The seeds' expected times say how they share what is left; the clock says the rest."""
        if not self._measured:
            return ""
        rest = (self._to_measure - self._measured) * self.seconds / self._measured
        return f"  {in_words(max(rest, 0.0))} left"

    def move(self, step: "Step") -> None:
        self.done += 1
        if not step.kept:
            self._measured += step.experiment.seconds
        self.show(step)

    def show(self, step: "Step") -> None:
        if time.monotonic() - self._told >= EVERY and self.done < self.total:
            self._told = time.monotonic()
            typer.echo(f"{self.done} of {self.total} seeds{self.left}", err=True)


class Bars(Meter):
    """One bar for all seeds, and one for each experiment that is at work."""

    def __init__(self, jobs: "Sequence[Job]", processes: int, bar: Any) -> None:
        super().__init__(jobs)
        self._processes, self._bar = processes, bar
        self._all = bar.add_task("all", total=self.total, left="")
        counts: dict[str, int] = {}
        for job in jobs:
            counts[job.experiment.name] = counts.get(job.experiment.name, 0) + 1
        self._each = {
            name: bar.add_task(name, total=total, left="", visible=False)
            for name, total in counts.items()
        }
        self._unfinished = list(counts)
        self._show_those_at_work()

    def show(self, step: "Step") -> None:
        name = step.experiment.name
        self._bar.update(self._all, completed=self.done, left=self.left)
        self._bar.update(self._each[name], completed=step.done)
        if step.done == step.of:
            self._unfinished.remove(name)
            self._bar.update(self._each[name], visible=False)
        self._show_those_at_work()

    def _show_those_at_work(self) -> None:
        for name in self._unfinished[: self._processes]:  # seeds are taken in this order
            self._bar.update(self._each[name], visible=True)


@contextmanager
def meter(jobs: "Sequence[Job]", processes: int) -> Iterator[Meter]:
    if not sys.stderr.isatty():
        seen = Meter(jobs)
        kept = sum(job.kept for job in jobs)
        before = f", {kept} of them measured before" if kept else ""
        count = len({job.experiment.name for job in jobs})
        what = f"{count} experiment{'s' * (count != 1)}, {len(jobs)} seed{'s' * (len(jobs) != 1)}"
        typer.echo(what + before, err=True)
        yield seen
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("seeds{task.fields[left]}"),
    )
    # What is printed meanwhile goes above the bars, unless it goes to a file.
    above = sys.stdout.isatty()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=above) as bar:
        yield Bars(jobs, processes, bar)
