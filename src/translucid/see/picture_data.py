"""What a picture shows, as data: the numbers, what stands along their axes, what was left out.

Everything that draws, on paper, in a terminal or on the page, draws from these.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

# How a number becomes a colour: from 0 to 1; from 0 to the largest; from -largest to largest.
Scale = Literal["unit", "positive", "signed"]


@dataclass(frozen=True)
class Axis:
    """What stands along one side of a picture."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """Something to look at."""

    title: str


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
