"""What a run tells while it goes: live on a terminal, plain lines elsewhere, files always.

metrics.jsonl holds what the run computed, so that a resumed run writes it bit for bit as an
uninterrupted one does; what depends on the clock stands in timing.jsonl.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from translucid.errors import ConfigError
from translucid.tasks.base import Score
from translucid.training import trainer

TIMING = ("targets_per_second", "seconds", "memory")


class Journal:
    """`metrics.jsonl`, `timing.jsonl` and `log.txt` in the run folder, and the screen.

    Without a folder nothing is written or shown: of several processes, only one speaks.
    """

    def __init__(self, folder: Path | None, *, quiet: bool = False) -> None:
        self._folder, self._quiet = folder, quiet or folder is None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        place = folder or Path(os.devnull)
        self._metrics, self._timing, self._log = (
            (place / name if folder is not None else place).open("a", encoding="utf-8")
            for name in ("metrics.jsonl", "timing.jsonl", "log.txt")
        )
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._tensorboard: Any = None

    def go_back(self, length: int) -> None:
        """Forget what metrics.jsonl says beyond this many bytes: it will be computed again."""
        if self._folder is not None:
            self._metrics.truncate(length)

    def length(self) -> int:
        """Bytes in metrics.jsonl, all of them on disk."""
        if self._folder is None:
            return 0
        self._metrics.flush()
        os.fsync(self._metrics.fileno())
        return os.fstat(self._metrics.fileno()).st_size

    def begin(self, step: int, steps: int, *, tensorboard: bool = False) -> None:
        """Training starts at `step` of `steps`."""
        if tensorboard and self._folder is not None:
            self._tensorboard = _tensorboard_writer(self._folder, step)
        if sys.stderr.isatty() and not self._quiet:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("step"),
                MofNCompleteColumn(),
                BarColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._bar.start()
            self._job = self._bar.add_task("", total=steps, completed=step)

    def say(self, line: str) -> None:
        """A line for people: on the screen and in the log."""
        self._log.write(line + "\n")
        self._log.flush()
        if self._quiet:
            return
        if self._bar is not None:
            self._console.print(line, highlight=False, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def progress(self, now: trainer.Progress) -> None:
        words = f"loss {now.loss:.3f}  {now.targets_per_second:,.0f} targets/s"
        if now.memory is not None:
            words += f"  {now.memory / 2**30:.1f} GiB"
        if self._bar is not None:
            self._bar.update(self._job, completed=now.step, description=words)
        else:
            self.say(f"step {now.step:,}  {words}  {now.seconds:.0f} s")
        values = vars(now)
        _write(self._metrics, {k: v for k, v in values.items() if k not in TIMING})
        _write(self._timing, {"step": now.step} | {k: values[k] for k in TIMING})
        for name in ("loss", "norm", "learning_rate", "targets_per_second"):
            self._plot(f"train/{name}", values[name], now.step)

    def evaluated(self, step: int, score: Score, best: bool) -> None:
        self.say(f"step {step:,}  valid: {score.line()}{'  (best so far)' if best else ''}")
        _write(self._metrics, {"step": step, "valid": score.numbers, "best": best})
        for name, value in score.numbers.items():
            self._plot(f"valid/{name}", value, step)

    def _plot(self, name: str, value: float, step: int) -> None:
        if self._tensorboard is not None:
            self._tensorboard.add_scalar(name, value, step)

    def close(self) -> None:
        if self._tensorboard is not None:
            self._tensorboard.close()
        if self._bar is not None:
            self._bar.stop()
        for file in (self._metrics, self._timing, self._log):
            file.close()


def _write(file: Any, values: dict[str, Any]) -> None:
    file.write(json.dumps(values) + "\n")
    file.flush()


def _tensorboard_writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "training.tensorboard = true: the package tensorboard is not installed; "
            "pip install tensorboard"
        ) from None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step)
