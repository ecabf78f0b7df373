"""C41: sine and cosine, or another smooth and bounded wave."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.parts.positions import Sinusoidal, frequencies
from translucid.see.pictures import Bars
from translucid_lab.claims.positions.sinusoidal import not_linear
from translucid_lab.claims.shared.position_tasks import (
    BACK,
    STEPS,
    WIDTH,
    by_place,
    copy_back,
    small_transformer,
    stack,
    train,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    by_case,
    clearly,
    column,
    difference_of,
    has_learned,
    median_of,
)

LENGTH = 48  # tokens

Wave = Callable[[Tensor], Tensor]


def _triangle(x: Tensor) -> Tensor:
    return x.sin().asin() * 2 / math.pi


def _sawtooth(x: Tensor) -> Tensor:
    turns = x / (2 * math.pi)
    return 2 * (turns - (turns + 0.5).floor())


WAVES: dict[str, tuple[Wave, float]] = {  # with a quarter of its period, for the odd channels
    "sine and cosine": (torch.sin, math.pi / 2),
    "tangent": (torch.tan, math.pi / 4),
    "triangle": (_triangle, math.pi / 2),
    "sawtooth": (_sawtooth, math.pi / 2),
}
WORSE = 0.05
LEARNED = 0.9  # by sine and cosine, without which nothing can be compared


class Waves(Sinusoidal):
    """The sinusoidal table with another wave in the place of the sine."""

    def __init__(self, d_model: int, wave: str) -> None:
        super().__init__(d_model)
        self.wave, self.quarter = WAVES[wave]

    def encode(self, positions: Tensor) -> Tensor:
        turn = positions.double()[..., None] * frequencies(self.d_model, self.base)
        return torch.stack([self.wave(turn), self.wave(turn + self.quarter)], dim=-1).flatten(-2)


def _waves(seed: int, quick: bool) -> Data:
    """Inside the trained length: how well nets copy from three back, wave by wave; and what the
    paper gives as its reason: is the table one place on a linear map of the table?"""
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


waves = Experiment(
    name="waves",
    title="Sine and cosine, or another wave",
    varies="the wave: sine; tangent, which is not bounded; triangle, which has corners; sawtooth, "
    "which jumps",
    measures=f"accuracy of copying from three back, in texts of {LENGTH} tokens as in training; "
    "whether a step is a linear map",
    claims={
        "C41": Rule(
            "If being smooth and bounded is the reason, a wave that lacks one does worse: holds "
            "for a wave if its accuracy is clearly lower than that of sine and cosine by 0.05, "
            "fails if clearly not. Supported if it holds for tangent, triangle and sawtooth, "
            "refuted if for none, depends if for some; not tested unless sine and cosine learn it "
            "(0.9 in eight of ten seeds).",
            _judge_waves,
            beyond="Accuracy on one task cannot show why its inventors chose a wave; what they "
            "wrote is that a shift is a linear map, which is reported.",
        )
    },
    run=_waves,
    draw=_draw_waves,
    seconds=60.0,
    references=("https://arxiv.org/abs/1706.03762",),
)
