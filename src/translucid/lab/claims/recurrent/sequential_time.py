"""C23: what one step after another costs in time."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    by_case,
    column,
    mean_of,
    ratio_of,
)
from translucid.parts.attention import Layout, SelfAttention
from translucid.parts.recurrent import Recurrent
from translucid.see.picture_data import Axis
from translucid.see.pictures import Lines

WIDTH = 64
SLOWER = 1.25  # times as long: less is no difference on a busy machine


def _times(seed: int, quick: bool) -> Data:
    """Seconds for a pass forward and backward by length, one text at a time, an RNN and
    self-attention by turns, the best of several. Timings: no two runs give the same."""
    lengths, turns = ((64, 256, 1024), 3) if quick else ((64, 256, 1024, 4096), 5)
    torch.manual_seed(seed)
    nets = {"RNN": Recurrent("rnn", WIDTH, WIDTH), "attention": SelfAttention(WIDTH, heads=4)}
    measured: dict[str, Any] = {"lengths": list(lengths), **{name: [] for name in nets}}
    for length in lengths:
        x = torch.randn(1, length, WIDTH)
        taken: dict[str, list[float]] = {name: [] for name in nets}
        for _ in range(turns + 1):
            for name, net in nets.items():
                taken[name].append(_seconds(net, x))
        for name in nets:
            measured[name].append(min(taken[name][1:]))  # the first one warms up
    return measured


def _seconds(net: nn.Module, x: Tensor) -> float:
    began = time.perf_counter()
    output = net(x)[0] if isinstance(net, Recurrent) else net(x, Layout())
    output.sum().backward()
    return time.perf_counter() - began


def _judge_times(data: Sequence[Data]) -> Finding:
    lengths = data[0]["lengths"]
    cases: dict[str, bool | None] = {}
    parts = []
    for place, length in enumerate(lengths):
        times = ratio_of(column(data, "RNN", place), column(data, "attention", place))
        cases[f"length {length}"] = (
            True if times.against(SLOWER) == "above" else
            False if times.against(1 / SLOWER) == "below" else None
        )  # fmt: skip
        parts.append(f"{length}: {times}")
    grows = mean_of([
        float(np.polyfit(np.log(lengths), np.log(run["RNN"]), 1)[0]) for run in data
    ])  # fmt: skip
    return by_case(
        cases, "an RNN takes this many times as long as self-attention, by length, on one core: "
        f"{', '.join(parts)}; its time grows as length to the power {grows}",
        "the length: beyond some length, all pairs cost more than one step after another",
        {"power": grows.mean},
    )  # fmt: skip


def _draw_times(data: Sequence[Data]) -> Lines:
    return Lines(
        "Time for one text, forward and backward",
        Axis("length", tuple(map(str, data[0]["lengths"]))), "seconds",
        {name: average(data, name).numpy() for name in ("RNN", "attention")},
        logarithmic=True, note=f"width {WIDTH}, one core",
    )  # fmt: skip


times = Experiment(
    name="recurrence-time",
    title="Time of an RNN and of self-attention, by length",
    varies="the length of a text",
    measures="seconds for a pass forward and backward, on one core; timings differ between runs",
    claims={
        "C23": Rule(
            "Holds at a length if an RNN takes clearly more than 1.25 times as long as "
            "self-attention of the same width, fails if clearly less than 1/1.25 times. Supported "
            "if it holds at every length, refuted if at none, depends (on the length) if at some.",
            _judge_times,
            label="timing",
        )
    },
    run=_times,
    draw=_draw_times,
    seconds=15.0,
    references=("https://arxiv.org/abs/1706.03762",),
)
