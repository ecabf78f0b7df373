"""What a run tells while it goes: live on a terminal, plain lines elsewhere, files always.

metrics.jsonl holds what the run computed, so that a resumed run writes it bit for bit as an
uninterrupted one does; what depends on the clock stands in timing.jsonl.
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
Listener = Callable[[dict[str, Any]], None]  # is told each line of metrics.jsonl
TIMING = ("targets_per_second", "seconds", "memory")


class RunLog:
    """`metrics.jsonl`, `timing.jsonl` and `log.txt` in the run folder, and the screen.

    Without a folder nothing is written or shown: of several processes, only one speaks.
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
        self._words = ""  # that stand behind the bar
        self._seconds_left: Callable[[int], float | None] = lambda step: None
        self._trackers: Trackers | None = None

    def go_back(self, length: int) -> None:
        """Forget what metrics.jsonl says beyond this many bytes: it will be computed again."""
        if self._folder is None:
            return
        there = self.length()
        if there < length:
            self.say(
                f"{self._metrics.name} has {there:,} of the {length:,} bytes that were written "
                "up to here: lines of it are lost, the run is not"
            )
        else:
            self._metrics.truncate(length)

    def length(self) -> int:
        """Bytes in metrics.jsonl, all of them on disk."""
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
    ) -> None:
        """Training starts at `step` of `steps`. settings: of the run, for its trackers.
        seconds_left: from a step on, as far as that is known."""
        self._seconds_left = seconds_left
        if trackers and self._folder is not None:
            self._trackers = Trackers(trackers, self._folder, step, settings or {}, self.say)
        self._bar = Progress("step", steps, start=step, live=not self._quiet, stays=True)

    def say(self, line: str) -> None:
        """A line for people: on the screen and in the log."""
        self.note(line)
        if not self._quiet:
            (print_line if self._bar is None else self._bar.say)(line)

    def note(self, line: str) -> None:
        """A line for the log alone, which somebody else shows."""
        write_line(self._log, visible(line))  # it may be shown by `cat`

    def tick(self, step: int) -> None:
        """After each step: the bar goes on."""
        if self._bar is not None and self._bar.live:
            self._bar.move(step, self._words + self._left(step))

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
            self.say(f"step {now.step:,}  {words}  {now.seconds:.0f} s{self._left(now.step)}")
        values = vars(now)
        computed = {k: v for k, v in values.items() if k not in TIMING}
        line = json.dumps(computed)
        write_line(self._metrics, line)
        write_line(self._timing, json.dumps({"step": now.step} | {k: values[k] for k in TIMING}))
        for name in ("loss", "norm", "learning_rate", "targets_per_second"):
            self._plot(f"train/{name}", values[name], now.step)
        self._tell(line)

    def evaluated(self, step: int, score: Score, best: bool) -> None:
        self.say(f"step {step:,}  valid: {score.line()}{'  (best so far)' if best else ''}")
        values = {"step": step, "valid": score.numbers, "best": best}
        line = json.dumps(values | score.counts())
        write_line(self._metrics, line)
        for name, value in score.numbers.items():
            self._plot(f"valid/{name}", value, step)
        self._tell(line)

    def _tell(self, line: str) -> None:
        for listener in self._listeners:
            listener(json.loads(line))  # one's own to keep or change

    def _plot(self, name: str, value: float, step: int) -> None:
        if self._trackers is not None:
            self._trackers.add(name, value, step)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        trackers, self._trackers = self._trackers, None
        for file in (trackers, self._metrics, self._timing, self._log):
            with suppress(OSError):  # what could not be written was reported then
                if file is not None:
                    file.close()


def open_at_end(path: Path) -> TextIO:
    """To write more lines; half a line, left by a full disk or a killed process, goes first."""
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
