"""C55: do two heads split coarse and fine features?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.parts import Layout, SelfAttention
from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import average, by_case, column

FEATURES, WORDS = 3, 4
LARGE, SMALL = 3.0, 0.3  # standard deviations of coarse and fine features
WIDTH = 2 * FEATURES + WORDS  # coarse, fine, and a one at the word's place
SPLIT = 0.5
BACK = {"same word": (1, 1), "different words": (1, 2)}  # words back: coarse, fine


def _coarse_fine(seed: int, quick: bool) -> Data:
    """Train two-head layers to fetch coarse and fine features of earlier words. Return, before and
    after training, the fraction of layers in which one head reads mainly the coarse and the other
    mainly the fine features."""
    nets, steps = (2, 100) if quick else (8, 400)
    measured: dict[str, Any] = {}
    for name, back in BACK.items():
        before, after, errors = [], [], []
        for number in range(nets):
            torch.manual_seed(1000 * seed + number)
            layer = SelfAttention(WIDTH, 2)
            before.append(split(layer))
            errors.append(_fetch(layer, back, 1000 * seed + number, steps))
            after.append(split(layer))
        measured[name] = {
            "before": float(np.mean([value > SPLIT for value in before])),
            "after": float(np.mean([value > SPLIT for value in after])),
            "split": float(np.mean(after)),
            "error": float(np.mean(errors)),
        }
    return measured


def split(layer: SelfAttention) -> float:
    """For each head, compute the fraction of its value weights that read coarse features; return
    how much the two heads differ. The result is 0 if they are alike, and 1 if one reads only coarse
    and the other only fine features."""
    value = layer.qkv.weight[2 * WIDTH :].detach().unflatten(0, (2, -1))  # (heads, d_head, inputs)
    energy = value.square().sum(dim=1)  # (heads, inputs)
    coarse, fine = energy[:, :FEATURES].sum(1), energy[:, FEATURES : 2 * FEATURES].sum(1)
    fraction = coarse / (coarse + fine)
    return float((fraction[0] - fraction[1]).abs())


def features(rows: int, generator: torch.Generator) -> Tensor:
    x = torch.zeros(rows, WORDS, WIDTH)
    x[..., :FEATURES] = LARGE * torch.randn(rows, WORDS, FEATURES, generator=generator)
    x[..., FEATURES : 2 * FEATURES] = SMALL * torch.randn(
        rows, WORDS, FEATURES, generator=generator
    )
    x[..., 2 * FEATURES :] = torch.eye(WORDS)
    return x


def _fetch(layer: SelfAttention, back: tuple[int, int], seed: int, steps: int) -> float:
    """Train a layer to fetch features; return the final mean squared error, with the error of each
    feature divided by the standard deviation of its kind."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.tensor([LARGE] * FEATURES + [SMALL] * FEATURES)
    first = max(back)

    def loss() -> Tensor:
        x = features(32, generator)
        wanted = torch.cat(
            [
                x[:, first - back[0] : WORDS - back[0], :FEATURES],
                x[:, first - back[1] : WORDS - back[1], FEATURES : 2 * FEATURES],
            ],
            dim=-1,
        )
        error = (layer(x, Layout())[:, first:, : 2 * FEATURES] - wanted) / unit
        return error.square().mean()

    history = fit(layer, loss, steps=steps, learning_rate=2e-2)
    return float(np.mean([step.loss for step in history[-10:]]))


def _judge_coarse_fine(data: Sequence[Data]) -> Finding:
    cases, parts = {}, []
    for name in BACK:
        before, after = (column(data, name, key) for key in ("before", "after"))
        more = difference_of(after, before, "rank")
        cases[f"features of {name}"] = clearly(more.against(0.1), "above")
        parts.append(
            f"{name}: {median_of(after)} of the trained layers, {median_of(before)} before"
        )
    return by_case(
        cases, f"layers whose two heads split coarse and fine features: {'; '.join(parts)}",
        "whether the task fetches them from different words",
        {name: float(np.mean(column(data, name, "error"))) for name in BACK},
    )  # fmt: skip


def _draw_coarse_fine(data: Sequence[Data]) -> Bars:
    labels, values = [], []
    for name in BACK:
        for key in ("before", "after"):
            labels.append(f"{name}, {key} training")
            values.append(float(average(data, name, key)))
    return Bars(
        "Two heads that split coarse and fine features", "fraction of layers", tuple(labels),
        np.array(values), note="features fetched from the same word, or from different words",
    )  # fmt: skip


coarse_fine = Experiment.described(
    "coarse-and-fine", _coarse_fine, _draw_coarse_fine, {"C55": _judge_coarse_fine}
)
