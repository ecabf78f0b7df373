"""C57: looking up an entry near and far: attention, LSTM, RNN."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from translucid.models import RecurrentConfig, TransformerConfig, build
from translucid.models.base import Network
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.attention.key_value_lookup import ASKING, CONTENTS, NAMES, dictionaries
from translucid_lab.claims.shared.attention_tasks import Batch, right, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    difference_of,
    has_learned,
    median_of,
)

DISTANCES = (5, 20, 50, 100)
FILLERS = 4
NETS = ("attention", "LSTM", "RNN")


def far_question(distance: int, rows: int, generator: torch.Generator) -> Batch:
    """Two entries, filler words, and the key of one of the entries, so many words after it."""
    entries, keys, values = (part[:, :2] for part in dictionaries(rows, generator))
    filler = torch.randint(FILLERS, (rows, distance - 2), generator=generator) + ASKING + NAMES
    which = torch.randint(2, (rows, 1), generator=generator)
    asked = ASKING + keys.gather(1, which)
    return torch.cat([entries, filler, asked], dim=1), values.gather(1, which)[:, 0]


def _far_net(name: str, seed: int) -> Network:
    torch.manual_seed(seed)
    shared: dict[str, Any] = {
        "shape": "encoder", "head": "classify", "pooling": "last", "outputs": CONTENTS,
        "vocab": ASKING + NAMES + FILLERS, "d_model": 32, "dropout": 0.0,
    }  # fmt: skip
    if name == "attention":
        return build(TransformerConfig(**shared, heads=1, layers=1, d_ff=64))
    return build(RecurrentConfig(**shared, cell="lstm" if name == "LSTM" else "rnn",
                                 hidden=32 if name == "LSTM" else 64))  # fmt: skip


def _far(seed: int, quick: bool) -> Data:
    """The fraction of look-ups right, by distance, for nets of about equal size that train on all
    distances."""
    distances = (5, 40) if quick else DISTANCES
    measured: dict[str, Any] = {"distances": list(distances)}
    for name in NETS:
        net = train(_far_net(name, seed), partial(_any_distance, distances), seed,
                    steps=60 if quick else 500, rate=1e-2)  # fmt: skip
        fresh = torch.Generator().manual_seed(seed + 1_000_000)
        measured[name] = [right(net, far_question(distance, 300, fresh)) for distance in distances]
    return measured


def _any_distance(distances: Sequence[int], generator: torch.Generator) -> Batch:
    which = int(torch.randint(len(distances), (1,), generator=generator))
    return far_question(distances[which], 32, generator)


def _judge_far(data: Sequence[Data]) -> Finding:
    far = median_of(column(data, "attention", -1))
    lost = difference_of(column(data, "attention", 0), column(data, "attention", -1), "rank")
    others = ", ".join(
        f"{name} {median_of(column(data, name, 0))} and {median_of(column(data, name, -1))}"
        for name in NETS[1:]
    )
    near, most = data[0]["distances"][0], data[0]["distances"][-1]
    return decide(
        {
            f"right at distance {most}": clearly(far.against(0.9), "above"),
            "flat in distance": clearly(lost.against(0.05), "below"),
        },
        f"attention: {far} right {most} words away, {lost} less than {near} words away; for "
        f"comparison, near and far: {others}",
        learned={"look-ups near by": has_learned(column(data, "attention", 0), 0.9)},
    )


def _draw_far(data: Sequence[Data]) -> Lines:
    distances = data[0]["distances"]
    return Lines(
        "Looking up an entry so many words back", Axis("words back", tuple(map(str, distances))),
        "accuracy", {name: average(data, name).numpy() for name in NETS}
        | {"guessing": np.full(len(distances), 1 / CONTENTS)},
    )  # fmt: skip


far = Experiment(
    name="look-up-distance",
    title="Looking up an entry near and far: attention, LSTM, RNN",
    varies="how many words lie between an entry and the question; the kind of net",
    measures="the fraction of look-ups that are right",
    claims={
        "C57": Rule(
            "Supported if attention clearly gets more than 0.9 right at the largest distance, and "
            "clearly loses less than 0.05 from the smallest to the largest; refuted if either "
            "clearly fails; not tested unless it gets 0.9 right at the smallest in eight of ten "
            "seeds. The LSTM and the RNN stand beside it and do not decide.",
            _judge_far,
        )
    },
    run=_far,
    draw=_draw_far,
    seconds=25.0,
    references=("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/2307.03172"),
)
