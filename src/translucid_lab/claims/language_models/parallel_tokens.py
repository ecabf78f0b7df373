"""C88: all words at once, or one by one."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.language_models.next_word import made, recurrent, transformer
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Interval,
    Rule,
    clearly,
    column,
    decide,
    ratio_of,
)

LENGTHS = (32, 128, 512)
SPEEDS = ("reads", "trains", "writes")


def _speeds(seed: int, quick: bool) -> Data:
    """Milliseconds, so not the same twice: reading, training on and writing one text, for a GRU
    and a Transformer layer of width 64, the best of several turns that they take alternately."""
    vocab, turns = 50, 2 if quick else 5
    nets = {"GRU": recurrent(vocab, wide=64), "Transformer": transformer(vocab, wide=64)}
    built = {name: made(config, seed) for name, config in nets.items()}
    generator = torch.Generator().manual_seed(seed)
    measured: dict[str, Any] = {"lengths": list(LENGTHS[:2] if quick else LENGTHS)}
    measured |= {name: {speed: [] for speed in SPEEDS} for name in nets}
    for length in measured["lengths"]:
        ids = torch.randint(vocab, (1, length), generator=generator)
        times: dict[tuple[str, str], float] = {}
        for _ in range(turns):
            for name, net in built.items():
                for speed in SPEEDS:
                    began = time.perf_counter()
                    _pass(net, ids, speed)
                    passed = 1000 * (time.perf_counter() - began)
                    times[name, speed] = min(passed, times.get((name, speed), passed))
        for (name, speed), best in times.items():
            measured[name][speed].append(best)
    return measured


def _pass(net: DecoderModel, ids: Tensor, speed: str) -> None:
    if speed == "trains":
        net(ids).sum().backward()
        return
    with torch.no_grad():
        if speed == "reads":
            net(ids)
            return
        state = net.start(GenerationInputs(1), capacity=ids.shape[1])
        for at in range(ids.shape[1]):
            net.step(ids[:, at : at + 1], state)


def _judge_speeds(data: Sequence[Data]) -> Finding:
    def faster(speed: str) -> Interval:
        return ratio_of(column(data, "GRU", speed, 1), column(data, "Transformer", speed, 1))

    writing = ratio_of(
        column(data, "Transformer", "writes", 1), column(data, "Transformer", "reads", 1)
    )
    length = data[0]["lengths"][1]
    reads, trains = faster("reads"), faster("trains")
    return decide(
        {
            "reads faster than an RNN": clearly(reads.against(1.0), "above"),
            "trains faster than an RNN": clearly(trains.against(1.0), "above"),
            "reading all words at once is at least 5 times as fast as one by one":
                clearly(writing.against(5.0), "above"),
        },
        f"at {length} words the GRU takes {reads} times as long to read and {trains} times to "
        f"train on; when it writes, the Transformer too goes word by word, and takes {writing} "
        "times as long as for reading",
    )  # fmt: skip


def _draw_speeds(data: Sequence[Data]) -> Lines:
    series = {
        f"{name} {speed}": np.mean([run[name][speed] for run in data], axis=0)
        for name in ("GRU", "Transformer")
        for speed in SPEEDS
    }
    words = Axis("words", tuple(map(str, data[0]["lengths"])))
    return Lines(
        "Time for one text, by its length", words, "milliseconds", series, logarithmic=True
    )


all_at_once = Experiment(
    name="all-at-once",
    title="All words at once, or one by one",
    varies="the length of a text; reading, training, writing; a GRU and a Transformer layer",
    measures="the best time of several, on one core",
    claims={
        "C88": Rule(
            "Supported if at 128 words the Transformer layer clearly reads and trains faster than "
            "the GRU, and reads at least 5 times as fast as it goes word by word; refuted if one "
            "of these clearly fails.",
            _judge_speeds,
            label="timing",
        )
    },
    run=_speeds,
    draw=_draw_speeds,
    seconds=10.0,
    references=("https://arxiv.org/abs/1706.03762",),
)
