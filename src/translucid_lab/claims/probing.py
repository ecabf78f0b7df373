"""C60: what a probe can read out of a token's vector before and after attention."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid import Trace
from translucid.models import MLPConfig, Network, TransformerConfig, build
from translucid.see import Axis, Heat
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.attention_tasks import Batch, right, train
from translucid_lab.engine.intervals import clearly, median_of
from translucid_lab.engine.verdict import all_hold, average, by_case, column, has_learned

KINDS, LENGTH = 6, 8
PLACES = {  # trace points of the probed rows
    "input": "encoder.layers.0.self_attention_residual.skip",
    "attention alone": "encoder.layers.0.self_attention.output",
    "input + attention": "encoder.layers.0.self_attention_residual.sum",
}
ASKED = ("word", "position", "word before")
LEAST = 0.8


def _before(rows: int, generator: torch.Generator) -> Batch:
    """Random words; the target at each is the word before it."""
    x = torch.randint(KINDS, (rows, LENGTH), generator=generator)
    wanted = torch.full_like(x, IGNORE)
    wanted[:, 1:] = x[:, :-1]
    return x, wanted


def _carried(seed: int, quick: bool) -> Data:
    """Train a layer to predict the previous word, then probe its rows linearly."""
    torch.manual_seed(seed)
    net = build(TransformerConfig(
        shape="encoder", head="tag", outputs=KINDS, vocab=KINDS, d_model=32, heads=2, layers=1,
        d_ff=64, dropout=0.0,
    ))  # fmt: skip
    train(
        net, lambda generator: _before(32, generator), seed, steps=60 if quick else 300, rate=1e-2
    )
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    shown, fresh = (_before(150 if quick else 300, generator) for _ in range(2))
    seen, unseen = _rows(net, shown[0]), _rows(net, fresh[0])
    measured: dict[str, Any] = {"learned": right(net, fresh)}
    for place in PLACES:
        measured[place] = [
            _probed(seen[place], facts(shown[0])[asked], unseen[place], facts(fresh[0])[asked],
                    seed, 50 if quick else 150)
            for asked in ASKED
        ]  # fmt: skip
    return measured


def _rows(net: Network, x: Tensor) -> dict[str, Tensor]:
    """The rows of all words but the first, by trace point: (rows, d_model)."""
    trace = Trace(list(PLACES.values()))
    with torch.no_grad():
        net(x, trace=trace)
    return {place: trace[point][:, 1:].flatten(0, 1) for place, point in PLACES.items()}


def facts(x: Tensor) -> dict[str, Tensor]:
    """The labels of the rows for each of the probe's questions: word, position, word before."""
    positions = torch.arange(x.shape[1] - 1).expand(len(x), -1)
    return {"word": x[:, 1:].flatten(), "position": positions.flatten(),
            "word before": x[:, :-1].flatten()}  # fmt: skip


def _probed(
    rows: Tensor, wanted: Tensor, new_rows: Tensor, new_wanted: Tensor, seed: int, steps: int
) -> float:
    """Accuracy of a linear probe on new rows."""
    torch.manual_seed(seed)
    probe = build(MLPConfig(inputs=rows.shape[1], hidden=(), outputs=int(wanted.max()) + 1))
    train(probe, lambda generator: (rows, wanted), seed, steps=steps, rate=0.1)
    return right(probe, (new_rows, new_wanted))


def _judge_carried(data: Sequence[Data]) -> Finding:
    accuracy = {place: [median_of(column(data, place, at)) for at in range(len(ASKED))]
            for place in PLACES}  # fmt: skip
    unknown = clearly(accuracy["input"][-1].against(1 / KINDS + 0.1), "below")
    cases: dict[str, bool | None] = {}
    for place in list(PLACES)[1:]:
        sides = [
            unknown,
            *(clearly(interval.against(LEAST), "above") for interval in accuracy[place]),
        ]
        cases[place] = all_hold(sides)
    summary = "; ".join(
        f"{place}: "
        + ", ".join(f"{asked} {value}" for asked, value in zip(ASKED, row, strict=True))
        for place, row in accuracy.items()
    )
    return by_case(cases, f"told from a row by a linear probe: {summary}",
                   "whether an output row is taken with the residual or without",
                   learned={"nets that name the word before":
                            has_learned(column(data, "learned"), 0.9)})  # fmt: skip


def _draw_carried(data: Sequence[Data]) -> Heat:
    values = np.array([average(data, place).tolist() for place in PLACES])
    return Heat(
        "What a linear probe reads out of a row", values, Axis("row taken from", tuple(PLACES)),
        Axis("asked for", ASKED), "unit",
        texts=tuple(tuple(f"{value:.2f}" for value in row) for row in values),
        note=f"guessing: {1 / KINDS:.2f} of the words, {1 / (LENGTH - 1):.2f} of the positions",
    )  # fmt: skip


carried = Experiment.described("row-contents", _carried, _draw_carried, {"C60": _judge_carried})
