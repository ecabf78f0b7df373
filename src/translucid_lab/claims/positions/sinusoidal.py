"""C40: sine and cosine, or one of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.parts.positions import Sinusoidal, frequencies
from translucid.see.pictures import Bars
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, by_case

WIDTHS = (4, 16)
NEAR = 0.05  # closer than this, two places are hard to tell apart
RIVALS = {
    "sine": "sine alone",
    "cosine": "cosine alone",
    "own sine": "sine alone, twice as many frequencies",
    "own cosine": "cosine alone, twice as many frequencies",
}


def _distinct(seed: int, quick: bool) -> Data:
    """The smallest distance between two of the first places, how many pairs are near, and how far
    the table moved by one place is from a linear map of the table."""
    places = torch.arange(1000 if quick else 5000)
    measured: dict[str, Any] = {"places": len(places)}
    for name in ("both", *RIVALS):
        tables = [channels(name, width, places) for width in WIDTHS]
        apart = [F.pdist(table) for table in tables]  # of all pairs of places
        measured[name] = {
            "least": [float(value.min()) for value in apart],
            "near": [int((value < NEAR).sum()) for value in apart],
            "shift": [not_linear(table) for table in tables],
        }
    return measured


def channels(name: str, width: int, places: Tensor) -> Tensor:
    """(places, width): sine and cosine of each frequency; or one of them, of as many frequencies
    (each in two channels) or of twice as many."""
    if name == "both":
        return Sinusoidal(width).encode(places)
    speeds = frequencies(2 * width) if name.startswith("own") else frequencies(width)
    turns = places.double()[:, None] * speeds.repeat_interleave(width // len(speeds))
    return turns.cos() if name.endswith("cosine") else turns.sin()


def not_linear(table: Tensor) -> float:
    """The fraction of the next places that no linear map of the places gives."""
    here, following = table[:-1], table[1:]
    best = here @ (torch.linalg.pinv(here) @ following)
    return float((following - best).norm() / following.norm())


def _judge_distinct(data: Sequence[Data]) -> Finding:
    (values,) = data[:1]
    cases: dict[str, bool | None] = {}
    parts = []
    for at, width in enumerate(WIDTHS):
        both = values["both"]["least"][at]
        parts.append(f"d = {width}: both {both:.3g}")
        for rival, name in RIVALS.items():
            ratio = both / max(values[rival]["least"][at], 1e-300)
            cases[f"{name}, d = {width}"] = (
                True if ratio > 1.05 else False if ratio < 0.95 else None
            )
            parts.append(f"{name} {values[rival]['least'][at]:.2g}")
    moved = ", ".join(f"{name} {values[name]['shift'][-1]:.1e}" for name in ("both", "sine"))
    return by_case(
        cases, f"smallest distance of two of the first {values['places']} places, "
        f"{', '.join(parts)}; fraction of a step that is no linear map, d = {WIDTHS[-1]}: {moved}",
        "what the other half of the channels would hold",
    )  # fmt: skip


def _draw_distinct(data: Sequence[Data]) -> Bars:
    names = {"both": "sine and cosine", **RIVALS}
    values = [float(average(data, name, "least", at)) for at in range(len(WIDTHS))
              for name in names]  # fmt: skip
    return Bars(
        f"How far apart the two nearest of {data[0]['places']} places are", "distance",
        tuple(f"d = {width}: {label}" for width in WIDTHS for label in names.values()),
        np.array(values), marked=tuple(at * len(names) for at in range(len(WIDTHS))),
    )  # fmt: skip


distinct = Experiment(
    name="sine-and-cosine",
    title="Sine and cosine, or one of them",
    varies="what stands in the channels: sine and cosine; one of them, with the same frequencies "
    "or with twice as many; the width",
    measures="the smallest distance between two of the first 5000 places (quick: 1000)",
    claims={
        "C40": Rule(
            "Distinct is taken as the smallest distance between two places. Against sine alone and "
            "cosine alone, with the same frequencies and with one for every channel, at d = 4 and "
            "16: holds if both is more than 1.05 times as far, fails if less than 0.95. Supported "
            "if it holds against all, refuted if against none, depends if against some.",
            _judge_distinct,
            label="identity",
        )
    },
    run=_distinct,
    draw=_draw_distinct,
    seconds=2.0,
    seeds=1,
    references=("https://arxiv.org/abs/1706.03762",),
)
