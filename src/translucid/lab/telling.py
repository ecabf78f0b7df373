"""Telling a small model where its words stand: not at all, by a table computed once, by other
waves than the sine."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.lab.deep import average, by_case
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    clearly,
    column,
    decide,
    difference_of,
    mean_of,
)
from translucid.lab.placed import (
    INSIDE,
    ROWS,
    STEPS,
    TESTED,
    TRAINED,
    VOCAB,
    WIDTH,
    Texts,
    by_place,
    copy_back,
    small,
    stack,
    train,
)
from translucid.models.base import Network
from translucid.parts.positions import PositionName, Sinusoidal, frequencies
from translucid.see.pictures import Bars
from translucid.trace import Trace

SAME, OTHER = 1e-9, 1e-3  # in float64: rounding, and a difference that a model can see

# ---- C33: attention without positions ----

PLACES = 8
MASKS = ("no mask", "causal mask")  # of an encoder, of a decoder
NO_BETTER, BETTER = 1.5, 2.0  # times the accuracy of guessing


def _order(seed: int, quick: bool) -> Data:
    """Two things, without any positions: by how much shuffling the text changes more than the order
    of the outputs; and how well a trained net tells at which place it stands."""
    found: dict[str, list[float]] = {"change": [], "told": []}
    for causal in (False, True):
        torch.manual_seed(seed)
        net = small("none", 2, shape="decoder" if causal else "encoder", outputs=PLACES)
        found["change"].append(_shuffle_change(net.double(), seed))
        found["told"].append(_places_told(net.float(), seed, 60 if quick else 300))
    return found


def _shuffle_change(net: Network, seed: int) -> float:
    """The largest change of an output when the tokens before it and after it are shuffled."""
    chance = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCAB, (ROWS, PLACES), generator=chance)
    order = torch.randperm(PLACES, generator=chance)
    with torch.no_grad():
        outputs, shuffled = net.eval()(ids), net(ids[:, order])
    return float((outputs[:, order] - shuffled).abs().max())


def own_place(rows: int, length: int, chance: torch.Generator) -> Texts:
    """Say at which place you stand. The first token is always the same, as in most texts."""
    ids = 1 + torch.randint(VOCAB - 1, (rows, PLACES), generator=chance)
    ids[:, 0] = 0
    return ids, torch.arange(PLACES).expand(rows, -1)


def _places_told(net: Network, seed: int, steps: int) -> float:
    """The share of right places, the first left out."""
    train(net.train(), own_place, steps, torch.Generator().manual_seed(seed))
    ids, wanted = own_place(500, PLACES, torch.Generator().manual_seed(10_000 + seed))
    with torch.no_grad():
        right = net.eval()(ids).argmax(dim=-1) == wanted
    return float(right[:, 1:].double().mean())


GUESSED = 1 / (PLACES - 1)


def _judge_order(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    said = []
    for at, mask in enumerate(MASKS):
        change = column(data, "change", at)
        told = mean_of(column(data, "told", at))
        blind = max(change) < SAME and told.against(NO_BETTER * GUESSED) == "below"
        sees = min(change) > OTHER and told.against(BETTER * GUESSED) == "above"
        cases[mask] = True if blind else False if sees else None
        said.append(f"{mask}: shuffling changes outputs by {max(change):.1e} at most, places are "
                    f"told in {told}")  # fmt: skip
    return by_case(cases, f"{'; '.join(said)} (guessing {GUESSED:.3g})", "the mask")


def _draw_order(data: Sequence[Data]) -> Bars:
    told = average(data, "told").numpy()
    return Bars(
        "Without positions: does a token know its place?", "share of places told right",
        (*MASKS, "guessing"), np.array([*told, GUESSED]),
        note=f"a Transformer of two layers, {PLACES} tokens, the first always the same",
    )  # fmt: skip


order = Experiment(
    name="order",
    title="Attention without positions, with and without a mask",
    varies="the mask: none, as in an encoder; causal, as in a decoder",
    measures="how outputs change when the text is shuffled; how often a trained net tells its own "
    "place",
    claims={
        "C33": Rule(
            "Order is ignored if shuffling changes outputs by less than 1e-9 and a trained net "
            "tells its place clearly less than 1.5 times as often as guessing; it is not if "
            "shuffling changes them by more than 1e-3 and places are told clearly more than twice "
            "as often. Supported if ignored without a mask and with a causal one, refuted if "
            "neither, depends if one.",
            _judge_order,
        )
    },
    run=_order,
    draw=_draw_order,
    seconds=7.5,
    references=("https://arxiv.org/abs/2203.16634", "https://arxiv.org/abs/2305.19466"),
)

# ---- C39: computed once ----


class Counted(Sinusoidal):
    """Counts how often it computes."""

    computed = 0

    def encode(self, positions: Tensor) -> Tensor:
        self.computed += 1
        return super().encode(positions)


def _once(seed: int, quick: bool) -> Data:
    """What is added to texts before and after training, and how often it was computed."""
    chance = torch.Generator().manual_seed(seed)
    texts, _ = copy_back(2, TESTED, chance)
    found: dict[str, float] = {}
    kinds: tuple[PositionName, ...] = ("sinusoidal", "learned")
    for kind in kinds:
        torch.manual_seed(seed)
        net = small(kind, layers=1)
        counted = Counted(WIDTH)
        if kind == "sinusoidal":
            stack(net).positions = counted
        before = _added(net, texts[:1])
        train(net, copy_back, 5 if quick else 50, chance)
        found[kind] = float((_added(net.eval(), texts[1:]) - before).abs().max())
        found[f"{kind}_trained"] = sum(p.numel() for p in stack(net).positions.parameters())
        if kind == "sinusoidal":
            found["computed"] = counted.computed
    return found


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


once = Experiment(
    name="encoding-once",
    title="The encoding before and after training",
    varies="the text; before and after training; sinusoidal and learned positions",
    measures="how much what is added to the words changes, and how often it is computed",
    claims={
        "C39": Rule(
            "Of the sinusoidal encoding. Supported if it is the same, bit for bit, for one text "
            "before training and another after it, has nothing to train, and was computed once; "
            "refuted if not. Undecided if a learned table, as a control, did not change either.",
            _judge_once,
        )
    },
    run=_once,
    draw=_draw_once,
    seconds=1.0,
    references=("https://arxiv.org/abs/1706.03762",),
)

# ---- C41: smooth and bounded ----

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
    """Inside the trained length: how well nets copy from three back, wave by wave."""
    found: dict[str, Any] = {}
    for wave in WAVES:
        torch.manual_seed(seed)
        net = small("sinusoidal", layers=1 if quick else 2)
        positions = Waves(WIDTH, wave)
        stack(net).positions = positions
        train(net, copy_back, STEPS[quick], torch.Generator().manual_seed(seed))
        right = by_place(net, copy_back, seed, TRAINED)
        found[wave] = {
            "right": float(np.mean(right[INSIDE])),
            "largest": float(positions.encode(torch.arange(TRAINED)).abs().max()),
        }
    return found


def _judge_waves(data: Sequence[Data]) -> Finding:
    (sine, *others) = WAVES
    right = mean_of(column(data, sine, "right"))
    known = right.against(LEARNED) == "above"
    cases: dict[str, bool | None] = {}
    said = []
    for wave in others:
        lost = difference_of(column(data, sine, "right"), column(data, wave, "right"))
        cases[f"{wave} is worse"] = clearly(lost.against(WORSE), "above") if known else None
        said.append(f"{wave} {lost} (values to {max(column(data, wave, 'largest')):.3g})")
    return by_case(
        cases, f"accuracy lost against sine and cosine ({right}): {', '.join(said)}",
        "which is missing: bounds or smoothness",
    )  # fmt: skip


def _draw_waves(data: Sequence[Data]) -> Bars:
    return Bars(
        "Copying from three back, by the wave of the encoding", "share of right answers",
        tuple(WAVES), np.array([float(average(data, wave, "right")) for wave in WAVES]),
        note=f"texts of {TRAINED} tokens, as in training",
    )  # fmt: skip


waves = Experiment(
    name="waves",
    title="Sine and cosine, or another wave",
    varies="the wave: sine; tangent, which is not bounded; triangle, which has corners; sawtooth, "
    "which jumps",
    measures=f"accuracy of copying from three back, in texts of {TRAINED} tokens as in training",
    claims={
        "C41": Rule(
            "If being smooth and bounded is the reason, a wave that lacks one does worse: holds "
            "for a wave if its accuracy is clearly lower than that of sine and cosine by 0.05, "
            "fails if clearly not. Supported if it holds for tangent, triangle and sawtooth, "
            "refuted if for none, depends if for some; undecided if sine and cosine did not learn "
            "it (0.9).",
            _judge_waves,
        )
    },
    run=_waves,
    draw=_draw_waves,
    seconds=22.0,
    references=("https://arxiv.org/abs/1706.03762",),
)
