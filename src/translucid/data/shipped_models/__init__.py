"""Small trained models that come with the package, such as demo:translate.

Each model is a run folder with weights in float16; `manifest.json` contains the recipes and scores.
`bench/make_shipped.py` retrains all of them.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError, nearest

BEGIN = "demo:"
FOLDER = Path(__file__).parent


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """By name, the title, recipe, changes, seed, score, texts and date of each shipped model."""
    entries: dict[str, dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text("utf-8"))
    return entries


def names() -> list[str]:
    """The names of all shipped models, beginning with `demo:`, in the order in which they are
    taught."""
    return [BEGIN + name for name in manifest()]


def is_shipped_name(path: str | Path) -> bool:
    return str(path).startswith(BEGIN)


def find(path: str | Path) -> Path:
    """The folder of a shipped model."""
    name = str(path).removeprefix(BEGIN)
    if name not in manifest():
        close = nearest(name[:200], list(manifest()), 1)
        hint = f"did you mean {BEGIN}{close[0]}? " if close else ""
        raise InputError(
            f"{str(path)[:200]!r}: no such model comes with the package; {hint}"
            f"the models are {', '.join(names())}"
        )
    return FOLDER / name


def name_of(folder: Path) -> str | None:
    """The name of the shipped model in this folder; None if it contains none."""
    place = folder.absolute()
    return BEGIN + place.name if place.parent == FOLDER.absolute() else None
