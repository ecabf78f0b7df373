"""Progress of long operations: a live bar in a terminal or notebook, otherwise occasional lines."""

import sys
import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any, Self

from translucid.core.terminal import raw, visible

PAUSE = 0.2  # seconds between two updates: each is a message to the browser


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, not IPython in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


class NotebookBar:
    """Progress bars in a notebook: rows of label, count, bar and note."""

    def __init__(self) -> None:
        self.console = self  # provides `print`, like rich's console
        self._rows: list[dict[str, Any]] = []
        self._handle: Any = None
        self._began = self._last = time.monotonic()

    def start(self) -> None:
        self._handle = import_module("IPython.display").display(self, display_id=True)

    def stop(self) -> None:
        self._show()

    def add_task(self, label: str, *, total: int | None, completed: int = 0, note: str) -> int:
        self._rows.append({"label": label, "total": total, "done": completed, "note": note})
        return len(self._rows) - 1

    def update(
        self, task: int, *, completed: int, total: int | None = None, note: str | None = None,
        visible: bool = True,
    ) -> None:  # fmt: skip
        row = self._rows[task]
        row["done"], row["hidden"] = completed, not visible
        row["total"] = row["total"] if total is None else total
        if note is not None:
            row["note"] = note
        if time.monotonic() - self._last >= PAUSE:
            self._show()

    def print(self, line: str, **options: Any) -> None:
        print_line(line)

    def _show(self) -> None:
        self._last = time.monotonic()
        if self._handle is not None:
            self._handle.update(self)

    def _shown(self) -> list[tuple[str, str, float]]:
        """For each visible bar: its label with the count, its note, and the fraction done."""
        rows = []
        for row in self._rows:
            if not row.get("hidden"):
                of = "" if row["total"] is None else f"/{row['total']:,}"
                part = row["done"] / row["total"] if row["total"] else 0.0
                rows.append((f"{row['label']} {row['done']:,}{of}", row["note"].strip(), part))
        return rows

    def __repr__(self) -> str:
        return "\n".join(f"{words}  {part:.0%}  {note}" for words, note, part in self._shown())

    def _repr_html_(self) -> str:
        seconds = f"{self._last - self._began:,.0f} s"
        return "".join(
            f"<div>{escape(words)} <progress value='{part:.4f}' max='1'></progress> "
            f"{escape(note)} <small>{seconds}</small></div>"
            for words, note, part in self._shown()
        )


def print_line(line: str) -> None:
    """Print to standard error; standard output is for results only."""
    print(line, file=sys.stderr, flush=True)


class Progress:
    """Progress towards a total, with rate and remaining time.

    live: show a bar, in a terminal or notebook. every: without a bar, the seconds between two lines
    (default: print no lines). at_once: print the first line immediately. stays: keep the bar on
    screen at the end.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        start: int = 0,
        live: bool = True,
        stays: bool = False,
        every: float | None = None,
        at_once: bool = False,
        say: Callable[[str], None] = print_line,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label, self.total, self.start = label, total, start
        self._every, self._say, self._clock = every, say, clock
        self._began = clock()
        self._last = float("-inf") if at_once else self._began
        self._tasks: dict[str, Any] = {}
        self._bar = _bar(stays) if live else None
        if self._bar is not None:
            self._bar.start()
            self._tasks[""] = self._bar.add_task(label, total=total, completed=start, note="")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def restart(self) -> None:
        """Restart the clock for the next part of the work; the time of the last printed line is
        kept."""
        self._began = self._clock()

    @property
    def live(self) -> bool:
        return self._bar is not None

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def rate(self, done: int) -> float:
        """Items per second."""
        return (done - self.start) / max(self.seconds, 1e-9)

    def left(self, done: int) -> str:
        """The remaining time as `  3 min 5 s left`; empty while the rate is unknown."""
        rate = self.rate(done)
        if self.total is None or rate <= 0:
            return ""
        return f"  {duration((self.total - done) / rate)} left"

    def move(self, done: int, note: str | None = None) -> None:
        """Set the count. note: text after it (default: the rate and the time left)."""
        if note is None:
            note = f"{self.rate(done):,.1f} {self.label}/s{self.left(done)}"
        if self._bar is not None:
            self._bar.update(self._tasks[""], completed=done, total=self.total, note=note)
        elif done not in (self.start, self.total):
            of = "" if self.total is None else f" of {self.total:,}"
            self.remark(f"{done:,}{of} {self.label}  {note}".rstrip())

    def move_part(self, name: str, done: int, total: int, *, visible: bool) -> None:
        """Show the progress of a part of the work in a second bar."""
        if self._bar is None:
            return
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=total, note="")
        self._bar.update(self._tasks[name], completed=done, visible=visible)

    def remark(self, line: str) -> None:
        """Print a line if there is no bar and at least `every` seconds have passed since the last
        printed line."""
        if self._every is not None and self._clock() - self._last >= self._every:
            self._last = self._clock()
            self._say(line)

    def say(self, line: str) -> None:
        """Print a line. If a bar is shown, the line appears above it."""
        if self._bar is not None:
            self._bar.console.print(visible(line), highlight=False, markup=False)
        else:
            self._say(line)


def _bar(stays: bool) -> Any:
    """A progress bar for the notebook or terminal in which the process runs; None if there is
    neither. stays: keep the bar on screen at the end."""
    if in_notebook():
        return NotebookBar()
    if not sys.stderr.isatty():
        return None
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.MofNCompleteColumn(),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[note]}"),
        progress.TimeElapsedColumn(),
        console=Console(file=raw(sys.stderr)),
        transient=not stays,
        redirect_stdout=sys.stdout.isatty(),  # output to a file is not shown on the screen
    )


def duration(seconds: float) -> str:
    """Format seconds: 75 -> 1 min 15 s; 0.0059 -> 5.9 ms"""
    if 0 < seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{seconds:.1f} s"
