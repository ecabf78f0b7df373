"""Run folders that are hostile: each is one change to a good one, which is then resumed."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.hostile_models import KINDS, MISSING, NAMES, ODD, broken_text, places, replaced

RUN = ("--allow-changes", "training.steps=3", "training.keep_best=2")
OWN = (
    "recipe.toml", "metrics.jsonl", "timing.jsonl", "log.txt", "best", "last", "state", "test.json",
    "checkpoints", "tensorboard", "studio", "code.json", "run.lock", ".recipe.toml.writing",
    ".best.writing", ".best.old", "state/tokenizers", "checkpoints/step-000002",
    "studio/steps.jsonl", "best/config.json", "last/model.safetensors",
)  # fmt: skip


@dataclass(frozen=True)
class HostileRun:
    name: str
    change: Callable[[Path], None]
    escapes: bool = False  # resuming it without an error counts as escaped


def newest(run: Path) -> Path:
    return max((run / "state").glob("step-*"))


def change_state(run: Path, at: tuple[Any, ...], new: Any) -> None:
    from translucid.core.atomic_files import write_manifest

    path = newest(run) / "state.json"
    path.write_text(json.dumps(replaced(json.loads(path.read_text("utf-8")), at, new)))
    write_manifest(path.parent)


def write_state(run: Path, file: str, text: bytes) -> None:
    from translucid.core.atomic_files import write_manifest

    (newest(run) / file).write_bytes(text)
    write_manifest(newest(run))


def swap(run: Path, name: str, make: Callable[[Path], None]) -> None:
    path = run / name
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    make(path)


def link(path: Path) -> None:
    """Create a link to a folder or file outside the run."""
    outside = path
    while outside.name != "run":
        outside = outside.parent
    target = outside.parent / "precious"
    path.symlink_to(target / "thesis.txt" if "." in path.name.lstrip(".") else target)


STATE = {  # the structure of a checkpoint's state.json; the values do not matter
    "state": dict.fromkeys(("step", "batches", "skipped", "seconds", "finished", "best", "waited",
                            "target_sum", "average_steps")),
    "place": dict.fromkeys(("batches", "epoch", "index")), "kept": {}, "metrics": 0,
    "fingerprint": dict.fromkeys(("recipe", "files", "tokenizers", "circumstances", "folder")),
}  # fmt: skip


def hostile_runs() -> Iterator[HostileRun]:
    for name in NAMES:
        yield HostileRun(
            f"kept names {name[:30]!r}",
            partial(change_state, at=("kept",), new={name: -1e9, "step-000001": 0.0}),
            escapes=True,
        )
    for name in OWN:
        yield HostileRun(f"{name} links out", partial(swap, name=name, make=link), escapes=True)
        for kind in ("fifo", "to zero", "to itself", "socket"):
            yield HostileRun(
                f"{name} {kind}", partial(swap, name=name, make=KINDS[kind]), escapes=True
            )
    for at in places(STATE):
        for word, new in (ODD | ({"missing": MISSING} if at else {})).items():
            yield HostileRun(
                f"state.json {'.'.join(map(str, at)) or 'all'} {word}",
                partial(change_state, at=at, new=new),
            )
    for file in ("state.json", "tensors.safetensors"):
        for word, text in broken_text():
            yield HostileRun(f"{file} {word}", partial(write_state, file=file, text=text))
    for word, text in broken_text():
        for name in ("recipe.toml", "code.json", "metrics.jsonl"):
            yield HostileRun(f"{name} {word}", partial(_write, name=name, text=text))


def _write(run: Path, name: str, text: bytes) -> None:
    (run / name).write_bytes(text)
    os.utime(run / name)
