"""Sinusoidal encodings: computed once (C39), sine and cosine or one of them (C40), another smooth
and bounded wave (C41).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid import Trace
from translucid.models import Network
from translucid.parts import PositionName, Sinusoidal, frequencies
from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.position_tasks import (
    BACK,
    STEPS,
    TESTED,
    WIDTH,
    by_place,
    copy_back,
    small_transformer,
    stack,
    train,
)
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import average, by_case, column, decide, has_learned

WIDTHS = (4, 16)
NEAR = 0.05  # closer positions are hard to distinguish
RIVALS = {
    "sine": "sine alone",
    "cosine": "cosine alone",
    "own sine": "sine alone, twice as many frequencies",
    "own cosine": "cosine alone, twice as many frequencies",
}


def _distinct(seed: int, quick: bool) -> Data:
    """Measure the smallest distance between the encodings of two positions, the number of pairs
    that are near each other, and how far a shift of the table by one position is from a linear
    map."""
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
    """Encodings of positions, (places, width), by sines and cosines. Depending on `name`, they
    contain sine and cosine of each frequency, or only one of the two. If only one, each frequency
    is used in two channels, or there are twice as many frequencies."""
    if name == "both":
        return Sinusoidal(width).encode(places)
    speeds = frequencies(2 * width) if name.startswith("own") else frequencies(width)
    turns = places.double()[:, None] * speeds.repeat_interleave(width // len(speeds))
    return turns.cos() if name.endswith("cosine") else turns.sin()


def not_linear(table: Tensor) -> float:
    """Relative error of the best linear map from each position to the next."""
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


distinct = Experiment.described(
    "sine-and-cosine", _distinct, _draw_distinct, {"C40": _judge_distinct}
)


LENGTH = 48  # tokens

Wave = Callable[[Tensor], Tensor]


def _triangle(x: Tensor) -> Tensor:
    return x.sin().asin() * 2 / math.pi


def _sawtooth(x: Tensor) -> Tensor:
    turns = x / (2 * math.pi)
    return 2 * (turns - (turns + 0.5).floor())


WAVES: dict[str, tuple[Wave, float]] = {  # and a quarter of its period, for the odd channels
    "sine and cosine": (torch.sin, math.pi / 2),
    "tangent": (torch.tan, math.pi / 4),
    "triangle": (_triangle, math.pi / 2),
    "sawtooth": (_sawtooth, math.pi / 2),
}
WORSE = 0.05
LEARNED = 0.9  # accuracy of sine and cosine, required for the test


class Waves(Sinusoidal):
    """The sinusoidal table with a different wave instead of the sine."""

    def __init__(self, d_model: int, wave: str) -> None:
        super().__init__(d_model)
        self.wave, self.quarter = WAVES[wave]

    def encode(self, positions: Tensor) -> Tensor:
        turn = positions.double()[..., None] * frequencies(self.d_model, self.base)
        return torch.stack([self.wave(turn), self.wave(turn + self.quarter)], dim=-1).flatten(-2)


def _waves(seed: int, quick: bool) -> Data:
    """For each wave: accuracy of copying from three back within the trained length, and how far a
    shift of the table by one position is from a linear map (the paper's reason for sinusoids)."""
    measured: dict[str, Any] = {}
    for wave in WAVES:
        torch.manual_seed(seed)
        net = small_transformer("sinusoidal", layers=1 if quick else 2)
        positions = Waves(WIDTH, wave)
        stack(net).positions = positions
        train(net, copy_back, STEPS[quick], torch.Generator().manual_seed(seed), LENGTH)
        table = positions.encode(torch.arange(LENGTH))
        measured[wave] = {
            "right": float(np.mean(by_place(net, copy_back, seed, LENGTH)[BACK:])),
            "largest": float(table.abs().max()),
            "no shift": not_linear(table),
        }
    return measured


def _judge_waves(data: Sequence[Data]) -> Finding:
    (sine, *others) = WAVES
    right = column(data, sine, "right")
    cases: dict[str, bool | None] = {}
    parts = []
    for wave in others:
        lost = difference_of(right, column(data, wave, "right"), "rank")
        cases[f"{wave} is worse"] = clearly(lost.against(WORSE), "above")
        parts.append(f"{wave} {lost} (values to {max(column(data, wave, 'largest')):.3g})")
    linear = ", ".join(f"{wave} {max(column(data, wave, 'no shift')):.1g}" for wave in WAVES)
    return by_case(
        cases, f"accuracy lost against sine and cosine ({median_of(right)}): {', '.join(parts)}. "
        f"Fraction of a step that is no linear map of the table: {linear}",
        "which is missing: bounds or smoothness",
        learned={"copying with sine and cosine": has_learned(right, LEARNED)},
    )  # fmt: skip


def _draw_waves(data: Sequence[Data]) -> Bars:
    return Bars(
        "Copying from three back, by the wave of the encoding", "accuracy",
        tuple(WAVES), np.array([float(average(data, wave, "right")) for wave in WAVES]),
        note=f"texts of {LENGTH} tokens, as in training",
    )  # fmt: skip


waves = Experiment.described("waves", _waves, _draw_waves, {"C41": _judge_waves})


class Counted(Sinusoidal):
    """Sinusoidal positions from a cached table; counts how often the table is computed."""

    computed = 0
    rows = torch.empty(0)

    def encode(self, positions: Tensor) -> Tensor:
        farthest = int(positions.max())
        if farthest >= len(self.rows):
            self.computed += 1
            self.rows = super().encode(torch.arange(max(farthest + 1, 64)))
        return self.rows[positions]


def _once(seed: int, quick: bool) -> Data:
    """Measure how much training changes position encodings, both sinusoidal and learned, and how
    often the sinusoidal table is computed."""
    generator = torch.Generator().manual_seed(seed)
    texts, _ = copy_back(2, TESTED, generator)
    measured: dict[str, float] = {}
    kinds: tuple[PositionName, ...] = ("sinusoidal", "learned")
    for kind in kinds:
        torch.manual_seed(seed)
        net = small_transformer(kind, layers=1)
        counted = Counted(WIDTH)
        if kind == "sinusoidal":
            stack(net).positions = counted
        before = _added(net, texts[:1])
        train(net, copy_back, 5 if quick else 50, generator)
        measured[kind] = float((_added(net.eval(), texts[1:]) - before).abs().max())
        measured[f"{kind}_trained"] = sum(p.numel() for p in stack(net).positions.parameters())
        if kind == "sinusoidal":
            measured["computed"] = counted.computed
    return measured


def _added(net: Network, ids: Tensor) -> Tensor:
    trace = Trace("*.positions.encoding")
    with torch.no_grad():
        net(ids, trace=trace)
    return trace["decoder.positions.encoding"]


def _judge_once(data: Sequence[Data]) -> Finding:
    change, control = max(column(data, "sinusoidal")), min(column(data, "learned"))
    often = max(column(data, "computed"))
    sides: dict[str, bool | None] = {
        "the same for other texts and after training": change == 0,
        "computed once": often == 1,
        "nothing of it is trained": max(column(data, "sinusoidal_trained")) == 0,
    }
    if control == 0:  # a table that is trained has not changed: there was no training to speak of
        sides = dict.fromkeys(sides)
    return decide(
        sides,
        "between one text before training and another after it, a learned encoding changes by "
        f"{control:.2g} and the sinusoidal one by {change:g}, which was computed {often:g} "
        f"time{'s' * (often != 1)}",
    )


def _draw_once(data: Sequence[Data]) -> Bars:
    return Bars(
        "What training changes in the encoding", "largest change", ("sinusoidal", "learned"),
        np.array([float(average(data, kind)) for kind in ("sinusoidal", "learned")]),
        note="one text before training, another after it",
    )  # fmt: skip


once = Experiment.described("encoding-once", _once, _draw_once, {"C39": _judge_once})
