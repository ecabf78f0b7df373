"""Pictures that several reports draw: the curves of a run, and a heat map with frames."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from translucid.see.picture_data import Axis
from translucid.see.pictures import Heat

# From Okabe and Ito's colours, told apart by colour-blind eyes too.
BLUE, ORANGE, GREEN, PURPLE, BLACK = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#1d2430"


@dataclass(frozen=True)
class Curves:
    """What a run's journal holds: (step, loss) and (step, validation score)."""

    loss: list[tuple[int, float]]
    valid: list[tuple[int, float]]


def read_curves(folder: Path, metric: str) -> Curves:
    lines = [
        json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    ]
    return Curves(
        [(line["step"], line["loss"]) for line in lines if "loss" in line],
        [(line["step"], line["valid"][metric]) for line in lines if "valid" in line],
    )


def draw_curves(
    curves: Curves,
    *,
    loss: str,
    metric: str,
    top: float | None = 1.02,
    level: tuple[str, float] | None = None,
) -> Any:
    """The training loss and the validation score over the steps.

    `top` ends the score's axis; `level` is a score to compare with, drawn as a line.
    """
    drawn, (left, right) = empty(7, 2.6, columns=2)
    left.plot(*zip(*curves.loss, strict=True), color=BLUE)
    values = [value for _, value in curves.loss]
    wide = min(values) > 0 and max(values) > 10 * min(values)
    left.set(xlabel="step", ylabel=loss, yscale="log" if wide else "linear")
    right.plot(*zip(*curves.valid, strict=True), color=ORANGE, marker="o")
    right.set(xlabel="step", ylabel=metric, ylim=(0, top))
    if level is not None:
        right.axhline(level[1], color=BLACK, linestyle="--", linewidth=1, label=level[0])
        right.legend(frameon=False, fontsize=9)
    return drawn


def heat_map(
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    frames: Iterable[tuple[int, int]] = (),
    *,
    most: float = 1.0,
    numbers: str = "",
) -> Heat:
    """Dark where a value is large, up to `most`; frames are (row, column), `numbers` a format."""
    texts = tuple(tuple(format(value, numbers) for value in line) for line in values)
    return Heat(
        "",
        np.array(values, dtype=np.float64),
        Axis("", tuple(rows)),
        Axis("", tuple(columns)),
        "positive",
        most,
        frames=tuple(frames),
        texts=texts if numbers else (),
    )


def plain(texts: Iterable[str]) -> list[str]:
    """Text that matplotlib does not take for a formula between dollar signs."""
    return [text.replace("$", r"\$") for text in texts]


def on_shade(share: float) -> dict[str, Any]:
    """How to write on a cell of this darkness: centred, and readable."""
    colour = "white" if share > 0.55 else BLACK
    return {"ha": "center", "va": "center", "color": colour, "fontsize": 9}


def empty(width: float, height: float, *, columns: int = 1) -> tuple[Any, list[Any]]:
    """A figure in inches and its axes, side by side. matplotlib loads here: it takes a while."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height), layout="constrained")
    return drawn, list(drawn.subplots(1, columns, squeeze=False)[0])
