"""What a run tells while it goes: live on a terminal, plain lines elsewhere, a file always."""

import json
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


class Journal:
    """`metrics.jsonl` and `log.txt` in the run folder, and the screen."""

    def __init__(
        self, folder: Path, steps: int, *, quiet: bool = False, tensorboard: bool = False
    ) -> None:
        self._tensorboard = _tensorboard_writer(folder) if tensorboard else None
        folder.mkdir(parents=True, exist_ok=True)
        self._metrics = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self._log = (folder / "log.txt").open("a", encoding="utf-8")
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        if sys.stderr.isatty() and not quiet:
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
            self._job = self._bar.add_task("", total=steps)

    def expect(self, steps: int) -> None:
        """So many steps are to come."""
        if self._bar is not None:
            self._bar.update(self._job, total=steps)

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
        self._record(vars(now))
        for name in ("loss", "norm", "learning_rate", "targets_per_second"):
            self._plot(f"train/{name}", getattr(now, name), now.step)

    def evaluated(self, step: int, score: Score, best: bool) -> None:
        self.say(f"step {step:,}  valid: {score.line()}{'  (best so far)' if best else ''}")
        self._record({"step": step, "valid": score.numbers, "best": best})
        for name, value in score.numbers.items():
            self._plot(f"valid/{name}", value, step)

    def _record(self, values: dict[str, Any]) -> None:
        self._metrics.write(json.dumps(values) + "\n")
        self._metrics.flush()

    def _plot(self, name: str, value: float, step: int) -> None:
        if self._tensorboard is not None:
            self._tensorboard.add_scalar(name, value, step)

    def close(self) -> None:
        if self._tensorboard is not None:
            self._tensorboard.close()
        if self._bar is not None:
            self._bar.stop()
        self._metrics.close()
        self._log.close()


def _tensorboard_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "training.tensorboard = true: the package tensorboard is not installed; "
            "pip install tensorboard"
        ) from None
    return SummaryWriter(str(folder / "tensorboard"))
