"""An experiment to begin from, for a claim of one's own."""

import re
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from translucid.core.atomic_files import write_text
from translucid.core.errors import ConfigError, InputError

_NAME = re.compile(r"[A-Za-z][\w-]*")


def write(name: str, taken: Collection[str], folder: Path = Path()) -> Path:
    """NAME.py, which is never written over; the lab's experiments have taken names."""
    name = name.removesuffix(".py")
    if not _NAME.fullmatch(name) or not name.isascii():
        raise ConfigError(
            f"{name}: a name has letters, digits, _ and -, and begins with a letter, such as "
            "longer-words"
        )
    if name.lower() in taken:
        raise ConfigError(f"{name}: the lab has an experiment of this name; choose another")
    path = folder / f"{name}.py"
    if path.exists():
        raise InputError(f"{path} exists already; choose another name")
    write_text(path, text(name))
    return path


def text(name: str) -> str:
    template = files("translucid_lab.engine").joinpath("template.txt").read_text("utf-8")
    return template.replace("NAME", name.lower())
