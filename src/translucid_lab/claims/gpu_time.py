"""C23 timed on a GPU: the cost of sequential steps."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translucid.parts import CellName, Layout, Recurrent, SelfAttention
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding
from translucid_lab.engine.intervals import clearly, ratio_of
from translucid_lab.engine.verdict import average, column, decide, not_tested

WIDTH, TEXTS = 256, 8
LENGTHS = (64, 256, 1024, 4096)
LONG = (1024, 4096)  # lengths that the rule uses
TIMES = 2.0  # times self-attention: slower counts as slow
TURNS = 5
CELLS: tuple[CellName, ...] = ("rnn", "lstm")


def _times(seed: int, quick: bool) -> Data:
    """The best time of several forward and backward passes for each network and text length. The
    networks take turns. The result has no times without a GPU, and timings differ between runs."""
    if not torch.cuda.is_available():
        return {"gpu": ""}
    torch.manual_seed(seed)
    nets: dict[str, nn.Module] = {cell: Recurrent(cell, WIDTH, WIDTH) for cell in CELLS}
    nets["attention"] = SelfAttention(WIDTH, heads=4)
    measured: dict[str, Any] = {name: [] for name in nets}
    for length in LENGTHS:
        x = torch.randn(TEXTS, length, WIDTH, device="cuda")
        taken: dict[str, list[float]] = {name: [] for name in nets}
        for _ in range(2 if quick else TURNS + 1):
            for name, net in nets.items():
                taken[name].append(_seconds(net.to("cuda"), x))
        for name in nets:
            measured[name].append(min(taken[name][1:]))  # the first one warms up
    return {"gpu": torch.cuda.get_device_name(), **measured}


def _seconds(net: nn.Module, x: Tensor) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    output = net(x)[0] if isinstance(net, Recurrent) else net(x, Layout())
    output.sum().backward()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def _judge_times(data: Sequence[Data]) -> Finding:
    if not all(run["gpu"] for run in data):
        return not_tested("no GPU here: nothing was timed", ["a GPU"])
    sides: dict[str, bool | None] = {}
    parts = []
    for cell in CELLS:
        for length in LONG:
            at = LENGTHS.index(length)
            ratio = ratio_of(column(data, cell, at), column(data, "attention", at))
            sides[f"{cell.upper()} at {length} tokens"] = clearly(ratio.against(TIMES), "above")
            parts.append(f"{cell.upper()} at {length} tokens {ratio}")
    return decide(sides, f"on a GPU ({data[0]['gpu']}), {TEXTS} texts of width {WIDTH}, a pass "
                  "forward and backward takes, times that of self-attention: "
                  + ", ".join(parts))  # fmt: skip


def _draw_times(data: Sequence[Data]) -> Lines:
    timed = [run for run in data if run["gpu"]]
    series = {name: average(timed, name).numpy() if timed else np.full(len(LENGTHS), np.nan)
              for name in (*CELLS, "attention")}  # fmt: skip
    return Lines(
        "A pass forward and backward on a GPU", Axis("tokens", tuple(map(str, LENGTHS))),
        "seconds", series, logarithmic=True,
        note=f"{TEXTS} texts, width {WIDTH}" if timed else "no GPU here",
    )  # fmt: skip


times = Experiment.described("gpu-time", _times, _draw_times, {"C23": _judge_times})
