"""A small run folder to attack: created once, and copied for each attack."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.in_process import run
from tests.tiny.once import once

from translucid.core.atomic_files import write_manifest

SIZES = [
    "model.hidden=[4]", "training.steps=8", "training.evaluate_every=2", "training.keep_best=2",
    "training.device=cpu",
]  # fmt: skip
TABLE = "x,y\n" + "".join(f"{i / 10},{i * i / 100}\n" for i in range(40))


def train_words(out: str = "run", *more: str) -> list[str]:
    return ["train", "regress", "--train", "table.csv", "--out", out, *SIZES, *more]


def make(folder: Path) -> None:
    (folder / "table.csv").write_text(TABLE, "utf-8")
    answer = run(*train_words(), cwd=folder)
    assert answer.returncode == 0, answer.stderr


def small_run(folder: Path) -> Path:
    """Copy a run that can be continued, and its data, into this folder."""
    shutil.copytree(once("a run to attack", make), folder, dirs_exist_ok=True)
    return folder / "run"


def change_json(file: Path, change: Callable[[Any], Any], checked: Path | None = None) -> None:
    """Change a JSON file, and correct the digests of its folder, as an attacker would."""
    file.write_text(json.dumps(change(json.loads(file.read_text("utf-8"))), indent=1))
    write_manifest(checked or file.parent)


def newest_state(folder: Path) -> Path:
    return max((folder / "state").glob("step-*"))
