"""Follow a run folder for the Train view by reading the files that training appends to, in this or
another process. Nothing is written, and training is not affected.

A run trained with `--studio` records its steps (see `runs.recorder`); for other runs, the lines of
metrics.jsonl are shown.
"""

import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translucid.core.errors import InputError, TranslucidError
from translucid.core.untrusted_files import check_tree, open_regular
from translucid.runs.recipe import recipe
from translucid.runs.recorder import FOLDER, PROBES, STEPS, about, goes_on, table_of
from translucid.studio.tensors import Form, packed, scaled_frame
from translucid.tasks.registry import TASKS
from translucid.tasks.score import Criterion

METRICS = "metrics.jsonl"
POINTS = 2000  # maximum points of a curve
COLUMNS = 400  # maximum columns in the table of norms; more would be narrower than 3 px
AT_ONCE = 40  # maximum points in one message during training
CELLS = 120  # maximum norms in one message
LAST_STEP = 10**12  # larger step numbers are invalid
KEPT = 200  # how many of the newest evaluations and probes to list

Point = tuple[float, float, float, float, float]  # step, loss, minimum, maximum, learning rate


class Tail:
    """Reads the lines appended to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at, self._node = 0, 0

    def more(self) -> tuple[list[dict[str, Any]], bool]:
        """The complete lines added since the last call, and whether the file was restarted."""
        try:
            with open_regular(self.path) as file:
                status = os.fstat(file.fileno())
                again = self._at > 0 and (status.st_ino != self._node or status.st_size < self._at)
                self._at, self._node = 0 if again else self._at, status.st_ino
                file.seek(self._at)
                read = file.read()
        except (OSError, InputError):
            again, self._at = self._at > 0, 0
            return [], again
        whole = read[: read.rfind(b"\n") + 1]
        self._at += len(whole)
        lines = []
        for line in whole.split(b"\n"):
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
                step = record.get("step") if isinstance(record, dict) else None
                if type(step) is int and 0 <= step < LAST_STEP:
                    lines.append(record)
        return lines, again


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Reduce points to at most `most`: the mean of neighbours with their minimum and maximum.
    Losses that are not finite are ignored unless there are no others."""
    if len(points) <= most:
        return list(points)
    means = []
    for some in np.array_split(np.array(points, np.float64), most):
        losses = some[np.isfinite(some[:, 1])]
        mean = losses[:, 1].mean() if len(losses) else math.nan
        least = losses[:, 2].min() if len(losses) else math.nan
        largest = losses[:, 3].max() if len(losses) else math.nan
        means.append((some[-1, 0], float(mean), float(least), float(largest), some[-1, 4]))
    return means


@dataclass
class News:
    """The training records that are new since the last call."""

    points: list[Point] = field(default_factory=list)
    columns: list[tuple[int, list[float]]] = field(default_factory=list)  # step, norms by layer
    valid: list[list[Any]] = field(default_factory=list)  # step, score, best so far?
    probes: list[list[Any]] = field(default_factory=list)  # step, answer
    bad: list[int] = field(default_factory=list)  # steps whose loss or gradient is not finite

    @property
    def some(self) -> bool:
        return bool(self.points or self.columns or self.valid or self.probes or self.bad)


class RunFollower:
    """Follows one run folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.pages: dict[int, bool] = {}  # connected pages: whether they have received the end

    @property
    def owed(self) -> bool:
        """Whether any connected page has not yet received the end of the run."""
        return not all(list(self.pages.values()))

    def about(self) -> dict[str, Any]:
        """Facts about the run that do not change during training."""
        header, kind, steps = about(self.folder), "", 0
        criterion = Criterion("")
        with suppress(TranslucidError, OSError, ValueError):
            check_tree(self.folder / "recipe.toml")
            chosen = recipe.read(self.folder / "recipe.toml")
            kind, training = chosen.task.kind, chosen.training
            steps = training.steps if training.most_steps is None else 0  # 0: it may change
            criterion = TASKS[kind].criterion(chosen.training.best_metric)
        layers = header.get("layers")
        if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
            layers = None
        return {
            "name": self.name, "task": kind, "steps": steps, "folder": str(self.folder),
            "metric": criterion.metric, "recorded": bool(layers),
            "higher": criterion.higher_is_better,
            "layers": layers if layers else ["all weights"], "tied": header.get("tied", ""),
            "probe": header.get("probe", ""), "every": header.get("every", 1),
        }  # fmt: skip

    def tables(self, steps: Sequence[int], form: Form) -> bytes:
        """The tables recorded at these steps, as binary frames."""
        probes = {}
        for record in Tail(self.folder / FOLDER / PROBES).more()[0]:
            if record["step"] in steps:
                probes[record["step"]] = record
        for step in steps:
            if step not in probes:
                raise InputError(f"step: no probe at step {step}")
        try:
            return b"".join(_table(probes[step], form) for step in steps)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"{self.folder / FOLDER / PROBES} is damaged "
                f"({type(error).__name__}: {str(error)[:200]})"
            ) from error


def _table(line: dict[str, Any], form: Form) -> bytes:
    values = torch.tensor(table_of(line))
    header = {
        "at": line["at"], "axes": ["rows", "columns"], "step": line["step"], "rows": line["rows"],
        "columns": line["columns"], "note": line.get("note", ""),
    }  # fmt: skip
    return scaled_frame(header, values, values.isfinite(), line["scale"], form)


class RunReading:
    """One page's position in the files of a run."""

    def __init__(self, run: RunFollower) -> None:
        self.run, self.about = run, run.about()
        self.recorded = bool(self.about["recorded"])
        self.layers = self.about["layers"] if self.recorded else []
        self._tails = {name: Tail(run.folder / FOLDER / name) for name in (STEPS, PROBES)}
        self._tails[METRICS] = Tail(run.folder / METRICS)
        self._end: dict[str, Any] | None = None
        self._last = 0  # last step
        self.again = False  # a file was restarted, so everything must be sent again
        self._live: bool | None = None  # whether the run is training; None: unknown

    def more(self) -> News:
        news = News()
        # Checked before the files are read: once training has ended, they are complete.
        self._live = goes_on(self.run.folder) if self.recorded else None
        metrics = self._lines(METRICS)
        for record in metrics:
            score = record.get("valid")
            if isinstance(score, dict) and self.about["metric"] in score:
                value = _number(score[self.about["metric"]])
                news.valid.append([record["step"], value, bool(record.get("best"))])
        for record in self._lines(STEPS) if self.recorded else metrics:
            if "end" in record:
                self._end, self._last = record, max(self._last, record.get("step", 0))
            elif "loss" in record:
                self._step(record, news)
        if self._live is False:  # the run may have continued without recording
            for record in metrics:
                if "loss" in record and record["step"] > self._last:
                    self._step(record, news)
        for record in self._lines(PROBES):
            news.probes.append([record["step"], record.get("answer")])
        return news

    def _lines(self, name: str) -> list[dict[str, Any]]:
        records, again = self._tails[name].more()
        self.again = self.again or again
        return records

    def _step(self, record: dict[str, Any], news: News) -> None:
        step, loss = record["step"], _number(record["loss"])
        values = record.get("grad") if self.recorded else [record.get("norm")]
        norms = [_number(value) for value in values] if isinstance(values, list) else []
        self._end, self._last = None, step  # training continues
        news.points.append((step, loss, loss, loss, _number(record.get("learning_rate"))))
        if len(norms) == len(self.about["layers"]):
            news.columns.append((step, norms))
        if not all(map(math.isfinite, [loss, *norms])):
            news.bad.append(step)

    def state(self) -> dict[str, Any]:
        """The state of the run: training, finished, interrupted, failed, stopped (without a
        record), or unknown (not recorded)."""
        if self._live:
            return {"state": "training"}
        if self._end is None:
            ended = (self.run.folder / "test.json").exists()
            return {
                "state": "finished" if ended else "unknown" if self._live is None else "stopped"
            }
        return {"state": self._end["end"], "why": self._end.get("why", "")}


def is_run(folder: Path) -> bool:
    """Whether the folder contains a training run."""
    return (folder / "recipe.toml").is_file() and (folder / METRICS).is_file()


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return math.nan


def history(news: News, state: dict[str, Any]) -> bytes:
    """Everything recorded so far as two frames: the curves' points, and the norms by layer."""
    points = thinned(news.points, POINTS)
    columns = fewer(news.columns, COLUMNS)
    first = {
        "at": "points", "axes": ["points", "step loss least most rate"],
        "shape": [len(points), 5], "dtype": "f32", **lists(news, KEPT), **state,
        "thinned": len(points) < len(news.points),
    }  # fmt: skip
    second: dict[str, object] = {
        "at": "norms", "axes": ["columns", "layers"], "dtype": "f32",
        "shape": [len(columns), len(columns[0][1]) if columns else 0],
        "steps": [step for step, _ in columns],
    }  # fmt: skip
    norms = np.array([norms for _, norms in columns], "<f4")
    return packed(first, np.array(points, "<f4").tobytes()) + packed(second, norms.tobytes())


def message(news: News, state: dict[str, Any]) -> dict[str, Any]:
    """The new records as a message small enough to be sent four times a second."""
    layers = len(news.columns[0][1]) if news.columns else 1
    columns = fewer(news.columns, max(1, CELLS // layers))
    return {
        "points": [[_short(value) for value in point] for point in thinned(news.points, AT_ONCE)],
        "norms": [[step, *map(_short, norms)] for step, norms in columns],
        **lists(news, 8), **state,
    }  # fmt: skip


def lists(news: News, most: int) -> dict[str, Any]:
    finite = [[step, value if math.isfinite(value) else None, best]
              for step, value, best in news.valid[-most:]]  # fmt: skip
    return {"valid": finite, "probes": news.probes[-most:], "bad": news.bad[-most:]}


def fewer(columns: Sequence[tuple[int, list[float]]], most: int) -> list[tuple[int, list[float]]]:
    """Keep every n-th column, and always the last."""
    stride = -(-len(columns) // most) if columns else 1
    return [
        column for place, column in enumerate(columns) if (len(columns) - 1 - place) % stride == 0
    ]


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
