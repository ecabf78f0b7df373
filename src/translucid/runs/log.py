"""The log of a run: a progress bar on a terminal, plain lines elsewhere, and files.

metrics.jsonl contains only what the run computed, so that a resumed run writes the same bytes as an
uninterrupted one; timing.jsonl contains what depends on the clock.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from translucid.core.atomic_files import saving, unshare
from translucid.core.progress import Progress, duration, print_line
from translucid.core.terminal import visible
from translucid.runs.trackers import Trackers
from translucid.tasks.base import Score
from translucid.training import loop
from translucid.training.config import TrackerName

FILES = ("metrics.jsonl", "timing.jsonl", "log.txt")
Listener = Callable[[dict[str, Any]], None]  # receives each line of metrics.jsonl
WARNINGS = ("warning: ", "! ")  # how such lines begin
TIMING = ("targets_per_second", "seconds", "memory")


class RunLog:
    """`metrics.jsonl`, `timing.jsonl` and `log.txt` in the run folder, and the screen.

    Without a folder, as in all but the first of several processes, nothing is written or shown.
    """

    def __init__(
        self, folder: Path | None, *, quiet: bool = False, listeners: Sequence[Listener] = ()
    ) -> None:
        self._folder, self._quiet = folder, quiet or folder is None
        self._listeners = listeners
        if folder is not None:
            with saving(folder):
                folder.mkdir(parents=True, exist_ok=True)
        self._metrics, self._timing, self._log = (
            open_at_end(folder / name if folder is not None else Path(os.devnull)) for name in FILES
        )
        self._bar: Progress | None = None
        self._words = ""  # shown after the bar
        self._seconds_left: Callable[[int], float | None] = lambda step: None
        self._trackers: Trackers | None = None

    def go_back(self, length: int) -> None:
        """Truncate metrics.jsonl to this many bytes; the rest will be computed again."""
        if self._folder is None:
            return
        there = self.length()
        if there < length:
            self.say(
                f"{self._metrics.name} has only {there:,} of {length:,} bytes: some of its lines "
                "are lost, but the run is not affected"
            )
        else:
            self._metrics.truncate(length)

    def length(self) -> int:
        """Flush metrics.jsonl to disk and return its size in bytes."""
        if self._folder is None:
            return 0
        with saving(Path(self._metrics.name)):
            os.fsync(self._metrics.fileno())
            return os.fstat(self._metrics.fileno()).st_size

    def begin(
        self,
        step: int,
        steps: int,
        trackers: Sequence[TrackerName] = (),
        settings: Mapping[str, Any] | None = None,
        seconds_left: Callable[[int], float | None] = lambda step: None,
        pause: float = 0.0,
    ) -> None:
        """Start the bar at `step` of `steps`. settings: the run's settings, for trackers.
        seconds_left: the seconds from a step to the end, or None if unknown. pause: seconds between
        two readable lines of progress; metrics.jsonl has all of them."""
        self._seconds_left = seconds_left
        if trackers and self._folder is not None:
            self._trackers = Trackers(trackers, self._folder, step, settings or {}, self.say)
        self._bar = Progress(
            "step", steps, start=step, live=not self._quiet, stays=True, every=pause, at_once=True,
            say=self.say,
        )  # fmt: skip

    def say(self, line: str) -> None:
        """Write a line to the screen and the log. Warnings are shown even if the log is quiet."""
        self.note(line)
        if not self._quiet or (line.startswith(WARNINGS) and self._folder is not None):
            (self._bar.say if self._bar is not None and self._bar.live else print_line)(line)

    def note(self, line: str) -> None:
        """Write a line to the log only."""
        write_line(self._log, visible(line))  # safe to `cat`

    def tick(self, step: int) -> None:
        """Advance the bar after a step."""
        if self._bar is not None and self._bar.live:
            self._bar.move(step, self._words + self._left(step))

    def end_at(self, step: int) -> None:
        """Change the last step of the bar."""
        if self._bar is not None:
            self._bar.total = step

    def _left(self, step: int) -> str:
        seconds = self._seconds_left(step)
        return f"  {duration(seconds)} left" if seconds else ""

    def progress(self, now: loop.TrainingProgress) -> None:
        words = f"loss {now.loss:.3f}  {now.targets_per_second:,.0f} targets/s"
        if now.memory is not None:
            words += f"  {now.memory / 2**30:.1f} GiB"
        self._words = words
        if self._bar is not None and self._bar.live:
            self._bar.move(now.step, words + self._left(now.step))
        else:
            line = f"step {now.step:,}  {words}  {now.seconds:.0f} s{self._left(now.step)}"
            if self._bar is None or now.step == self._bar.total:
                self.say(line)
            else:
                self._bar.remark(line)
        values = vars(now)
        computed = {k: v for k, v in values.items() if k not in TIMING}
        line = json.dumps(computed)
        write_line(self._metrics, line)
        write_line(self._timing, json.dumps({"step": now.step} | {k: values[k] for k in TIMING}))
        for name in ("loss", "norm", "learning_rate", "targets_per_second"):
            self._plot(f"train/{name}", values[name], now.step)
        self._notify(line)

    def fitted(self, seconds: float, score: Score) -> None:
        """Report a model that was fitted without training steps."""
        self.say(f"fitted in {duration(seconds)}; valid: {score.line()}")
        write_line(self._timing, json.dumps({"step": 0, "seconds": seconds}))
        self._scored(0, score, best=True)

    def evaluated(self, step: int, score: Score, best: bool) -> None:
        self.say(f"step {step:,}  valid: {score.line()}{'  (best so far)' if best else ''}")
        self._scored(step, score, best)

    def _scored(self, step: int, score: Score, best: bool) -> None:
        values = {"step": step, "valid": score.numbers, "best": best}
        line = json.dumps(values | score.counts())
        write_line(self._metrics, line)
        for name, value in score.numbers.items():
            self._plot(f"valid/{name}", value, step)
        self._notify(line)

    def _notify(self, line: str) -> None:
        for listener in self._listeners:
            listener(json.loads(line))  # a copy for each

    def _plot(self, name: str, value: float, step: int) -> None:
        if self._trackers is not None:
            self._trackers.add(name, value, step)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        trackers, self._trackers = self._trackers, None
        for file in (trackers, self._metrics, self._timing, self._log):
            with suppress(OSError):  # reported when it was written
                if file is not None:
                    file.close()


def open_at_end(path: Path) -> TextIO:
    """Open a file to append lines; remove an incomplete last line left by a full disk or a killed
    process."""
    with saving(path):
        unshare(path)
        if path.is_file():
            written = path.read_bytes()
            whole = written.rfind(b"\n") + 1
            if whole < len(written):
                os.truncate(path, whole)
        return path.open("a", encoding="utf-8")


def write_line(file: TextIO, line: str) -> None:
    with saving(Path(file.name)):
        file.write(line + "\n")
        file.flush()
