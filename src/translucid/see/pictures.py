"""What a picture shows, as data: the numbers, what stands along their axes, what was left out.

Everything that draws, on paper, in a terminal or on the page, draws from these.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from translucid.errors import InputError

Numbers = NDArray[np.float64]

ENDINGS = (".svg", ".png", ".pdf")

# How a number becomes a colour: from 0 to 1; from 0 to the largest; from -largest to largest.
Scale = Literal["unit", "positive", "signed"]


@dataclass(frozen=True)
class Axis:
    """What stands along one side of a picture."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """Something to look at, to save, or to take the numbers from."""

    title: str

    def svg(self) -> str:
        return self._written("svg").decode("utf-8")

    def png(self, *, dpi: int = 160) -> bytes:
        return self._written("png", dpi)

    def save(self, path: str | Path) -> Path:
        """Write it to a file that ends in .svg, .png or .pdf."""
        path = Path(path)
        if path.suffix not in ENDINGS:
            raise InputError(f"{path}: a picture ends in {', '.join(ENDINGS)}")
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}; make it first")
        path.write_bytes(self._written(path.suffix[1:]))
        return path

    def json(self) -> str:
        """The numbers behind the drawing."""
        return json.dumps(as_json(self), ensure_ascii=False, allow_nan=False)

    def _written(self, ending: str, dpi: int = 160) -> bytes:
        from translucid.see.draw import written  # matplotlib takes a while to load

        return written(self, ending, dpi)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Heat(Picture):
    """A table of numbers as colours."""

    values: Numbers  # (rows, columns); nan where there is nothing to show
    rows: Axis
    columns: Axis
    scale: Scale = "signed"
    most: float | None = None  # what gets the last colour; by default the largest size
    frames: tuple[tuple[int, int], ...] = ()  # cells to mark, such as a known alignment
    texts: tuple[tuple[str, ...], ...] = ()  # what to write into the cells; none: nothing
    note: str = ""  # what was left out, and how to see it
    address: str = ""  # the name in the trace


@dataclass(frozen=True, eq=False, repr=False)
class Grid(Picture):
    """Several tables side by side, read like text."""

    heats: tuple[Heat, ...]
    columns: int
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Lines(Picture):
    """Numbers over words, steps or layers."""

    x: Axis
    y: str
    series: Mapping[str, Numbers]
    logarithmic: bool = False
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Bars(Picture):
    """One number for each label."""

    x: str
    labels: tuple[str, ...]
    values: Numbers
    note: str = ""
    marked: tuple[int, ...] = field(default=())  # places of bars to point out


def as_json(picture: Picture) -> dict[str, Any]:
    """The data of a picture for a file or a page; what is not a number becomes null."""
    return {"kind": type(picture).__name__.lower(), **_plain(asdict(picture))}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
