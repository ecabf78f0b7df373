"""Record a run for the studio's Train view, in its folder `studio/`, without changing the run.

    about.json      the layers, and the probe text
    steps.jsonl     loss, learning rate and gradient norm by layer, of at most 2,000 steps; at the
                    end, how the run ended
    probes.jsonl    the model's answer to the probe text during training, with one table of the
                    trace

The recording process locks steps.jsonl, so that others can see whether the run is still going.
"""

import base64
import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from torch import nn

from translucid.core.atomic_files import saving, write_text
from translucid.core.errors import InputError, Interrupted
from translucid.core.untrusted_files import open_regular, read_object
from translucid.models.base import Network
from translucid.runs.folder import lock
from translucid.runs.log import open_at_end, write_line
from translucid.see.gradients import layers_of, tied_layers
from translucid.see.pictures import Bars, Heat, Lines
from translucid.see.reading import Reading, read
from translucid.tasks.base import Task
from translucid.tasks.model_folder import Bundle, task_of
from translucid.training.loop import Step


def probe(held: Bundle, text: str) -> dict[str, Any]:
    """The model's answer to a text, and one table of its trace, as JSON."""
    task, network = check(held, text), held.network
    target = task.own_target(network, text)
    reading = read(network, task, text, target, keep=[f"*{_ending(held)}"])
    at = chosen(reading)
    answer = task.followed(network, text, target)
    return {"text": text, "answer": answer, **_table(reading, at)}


def check(held: Bundle, text: str) -> Task[Any, Any]:
    """Return the model's task; raise an error if it cannot read this text."""
    task = task_of(held)
    if not text.strip():
        raise InputError("--probe: the text is empty; pass a text to follow")
    task.check_line(text, "--probe", held.network)
    return task


def _ending(held: Bundle) -> str:
    config = held.network.config
    cell = getattr(config, "cell", None)
    if cell is None:
        return ".pattern" if hasattr(config, "heads") else ".activation"
    across = getattr(config, "shape", "") == "encoder-decoder"
    if across and getattr(config, "attention", "none") != "none":
        return ".pattern"
    return {"lstm": ".forget_gate", "gru": ".update_gate"}.get(cell, ".hidden")


def chosen(reading: Reading) -> str:
    """The trace point to show: that of the last layer with cross-attention, if any, or else the
    last point."""
    aside = ("backward", "output")
    names = [name for name in reading if not {*name.split(".")} & {*aside}] or list(reading)
    across = [n for n in names if n.split(".")[-2] in ("cross_attention", "alignment")]
    return (across or names)[-1]


def _table(reading: Reading, at: str) -> dict[str, Any]:
    """A table of at most 64 by 64 values of a trace point, as in a figure."""
    match reading.figure(at, head="mean"):
        case Heat() as heat:
            values, rows, columns = heat.values, heat.rows.labels, heat.columns.labels
            scale, note = heat.scale, heat.note
        case Lines() as line:
            (series,) = line.series.values()
            values, rows, columns = series[None], ("",), line.x.labels
            scale, note = "signed", line.note
        case Bars() as bars:
            values, rows, columns, scale, note = (
                bars.values[None], ("",), bars.labels, "signed", bars.note
            )  # fmt: skip
        case _:
            raise AssertionError(at)
    return {
        "at": at, "rows": list(rows), "columns": list(columns), "scale": scale, "note": note,
        "values": base64.b64encode(values.astype("<f4").tobytes()).decode("ascii"),
    }  # fmt: skip


def table_of(line: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Decode the table in a recorded line: (rows, columns)."""
    shape = len(line["rows"]), len(line["columns"])
    raw = base64.b64decode(line["values"], validate=True)
    return np.frombuffer(raw, "<f4").reshape(shape)


FOLDER = "studio"
ABOUT, STEPS, PROBES = "about.json", "steps.jsonl", "probes.jsonl"
MOST_STEPS, MOST_PROBES = 2000, 40  # per run, about


class Recorder:
    """The recorder of one session; only the main process writes."""

    def __init__(
        self,
        run: Path,
        network: Network,
        steps: int,
        bundle: Callable[[nn.Module], Bundle],
        *,
        main: bool = True,
    ) -> None:
        self._folder, self._main, self._bundle, self._network = run / FOLDER, main, bundle, network
        self._every, self._look_every = -(-steps // MOST_STEPS), -(-steps // MOST_PROBES)
        names = [name for name, _ in network.named_parameters()]
        self._layers = {
            layer: [names.index(name) for name in own]
            for layer, own in layers_of(network, names).items()
        }
        self._tied = tied_layers(network)
        self._text, self._step, self._known = "", 0, set[int]()
        self._steps: TextIO | None = None
        self._probes: TextIO | None = None

    def begin(self, step: int, text: str | None, first: str) -> None:
        """Start at this step. text: the text to follow; default: that of the earlier session, or
        else the first validation example."""
        self._step = step
        if not self._main:
            return
        before = about(self._folder.parent).get("probe")
        self._text = text if text is not None else before if isinstance(before, str) else first
        check(self._bundle(self._network), self._text)
        go_back(self._folder.parent, step, probes=self._text == before)
        with saving(self._folder):
            self._folder.mkdir(exist_ok=True)
        header = {"format": 1, "probe": self._text, "every": self._every,
                "layers": list(self._layers), "tied": self._tied}  # fmt: skip
        write_text(self._folder / ABOUT, json.dumps(header, ensure_ascii=False, indent=1) + "\n")
        self._known = {
            record["step"] for record in lines(self._folder / PROBES) if "step" in record
        }
        self._steps, self._probes = (open_at_end(self._folder / n) for n in (STEPS, PROBES))
        lock(self._steps.fileno())

    # ---- callbacks of the training loop ----

    def watches(self, step: int) -> bool:
        return step % self._every == 0

    def stepped(self, now: Step) -> None:
        self._step = now.step
        if self._steps is None:
            return
        grad = [math.hypot(*(now.sizes[place] for place in own)) for own in self._layers.values()]
        record = {"step": now.step, "loss": now.loss, "norm": now.norm,
                "learning_rate": now.learning_rate, "grad": grad}  # fmt: skip
        write_line(self._steps, json.dumps(record))

    def looks(self, step: int, evaluating: bool) -> bool:
        """Whether to probe: often at first, then at intervals and at every evaluation."""
        self._step = step
        early = step < self._look_every and step & (step - 1) == 0  # 0, 1, 2, 4, 8
        return early or evaluating or step % self._look_every == 0

    def looked(self, network: nn.Module) -> None:
        if self._probes is None or self._step in self._known:
            return
        self._known.add(self._step)
        record = probe(self._bundle(network), self._text)
        write_line(self._probes, json.dumps({"step": self._step, **record}, ensure_ascii=False))

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, where: Any) -> None:
        if self._steps is None or self._probes is None:
            return
        end = {"end": "finished", "step": self._step}
        if isinstance(error, Interrupted):
            end["end"] = "interrupted"
        elif error is not None:
            end |= {"end": "failed", "why": (str(error) or type(error).__name__)[:500]}
        with suppress(Exception):  # a full disk may have ended the run
            write_line(self._steps, json.dumps(end, ensure_ascii=False))
        for file in (self._steps, self._probes):
            with suppress(OSError):
                file.close()


def about(run: Path) -> dict[str, Any]:
    """The header of a record; empty if there is none, or it cannot be read."""
    try:
        return read_object(run / FOLDER / ABOUT)
    except InputError:
        return {}


def go_back(run: Path, step: int, *, probes: bool = True) -> None:
    """Remove what was recorded after a step, and the record of how the run ended. probes: whether
    to keep the probes up to this step."""
    for name, kept in ((STEPS, True), (PROBES, probes)):
        path = run / FOLDER / name
        if not path.is_file():
            continue
        left = [
            record
            for record in lines(path)
            if kept and "end" not in record and record.get("step", step + 1) <= step
        ]
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in left)
        if text.encode() != path.read_bytes():
            write_text(path, text)


def lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a growing file that are JSON objects."""
    records = []
    with suppress(FileNotFoundError):
        for line in path.read_bytes().split(b"\n")[:-1]:
            with suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict):
                    records.append(record)
    return records


def goes_on(run: Path) -> bool | None:
    """Whether a process is recording this run; None if the system has no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        with open_regular(run / FOLDER / STEPS) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except (OSError, InputError):  # no locks, or no such file
        return None
    return False
