"""Sequential computation: steps of a recurrent network (C23), words of a text (C88)."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translucid import Trace
from translucid.models import DecoderModel, GenerationInputs
from translucid.parts import Layout, Recurrent, SelfAttention
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, Interval
from translucid_lab.claims.next_word_prediction import made, recurrent, transformer
from translucid_lab.engine.intervals import clearly, ratio_of
from translucid_lab.engine.verdict import column, decide

WIDTH = 64
COUNTED = (16, 32, 64, 128)  # tokens: chains are counted


def _times(seed: int, quick: bool) -> Data:
    """For each length, count the longest chain of dependent operations, and find the best time of
    several forward and backward passes over one text. The networks take turns, on one core and on a
    GPU if there is one. Timings differ between runs."""
    lengths, turns = ((64, 256, 1024), 3) if quick else ((64, 256, 1024, 4096), 5)
    torch.manual_seed(seed)
    nets = {"RNN": Recurrent("rnn", WIDTH, WIDTH), "attention": SelfAttention(WIDTH, heads=4)}
    operations = {name: [dependent_operations(net, length) for length in COUNTED]
                  for name, net in nets.items()}  # fmt: skip
    seconds: dict[str, dict[str, list[float]]] = {}
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        seconds[device] = {name: [] for name in nets}
        for length in lengths:
            x = torch.randn(1, length, WIDTH, device=device)
            taken: dict[str, list[float]] = {name: [] for name in nets}
            for _ in range(turns + 1):
                for name, net in nets.items():
                    taken[name].append(_seconds(net.to(device), x))
            for name in nets:
                seconds[device][name].append(min(taken[name][1:]))  # the first one warms up
    return {"counted": list(COUNTED), "operations": operations, "lengths": list(lengths),
            "seconds": seconds}  # fmt: skip


def _seconds(net: nn.Module, x: Tensor) -> float:
    began = time.perf_counter()
    output = net(x)[0] if isinstance(net, Recurrent) else net(x, Layout())
    output.sum().backward()
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def dependent_operations(net: nn.Module, length: int) -> int:
    """Length of the longest chain of dependent operations, which cannot run in parallel. The
    network is traced, so that it does not use fused kernels."""
    x, trace = torch.randn(1, length, WIDTH), Trace("*")
    output = net(x, trace=trace)[0] if isinstance(net, Recurrent) else net(x, Layout(), trace=trace)
    chain: dict[Any, int] = {}
    waiting: list[tuple[Any, bool]] = [(output.sum().grad_fn, False)]
    while waiting:
        node, seen = waiting.pop()
        needed = [before for before, _ in node.next_functions if before is not None]
        if seen:
            chain[node] = 1 + max((chain[before] for before in needed), default=0)
        elif node not in chain:
            waiting += [(node, True), *((before, False) for before in needed)]
    return chain[node]


def _judge_times(data: Sequence[Data]) -> Finding:
    (first,) = data[:1]
    counted, lengths = first["counted"], first["lengths"]
    rnn, attention = (first["operations"][name] for name in ("RNN", "attention"))
    grows = (rnn[-1] - rnn[0]) / (counted[-1] - counted[0])
    times = {
        device: ", ".join(f"{length}: {a / b:.2g}" for length, a, b in
                          zip(lengths, seconds["RNN"], seconds["attention"], strict=True))
        for device, seconds in first["seconds"].items()
    }  # fmt: skip
    return decide(
        {
            "an RNN does at least one after another for every token": grows >= 1,
            "self-attention does as many at every length": len(set(attention)) == 1,
        },
        f"operations that need the one before, by length {', '.join(map(str, counted))}: RNN "
        f"{', '.join(map(str, rnn))}, {grows:.3g} for every token; self-attention "
        f"{', '.join(map(str, attention))}. What that takes in time depends on the machine: an RNN "
        "against self-attention, by length, "
        + "; ".join(f"on {device} {ratios}" for device, ratios in times.items()),
        {"for every token": grows},
    )


def _draw_times(data: Sequence[Data]) -> Lines:
    (first,) = data[:1]
    return Lines(
        "Operations that must wait for the one before",
        Axis("tokens", tuple(map(str, first["counted"]))), "longest chain of operations",
        {name: np.array(chain, dtype=float) for name, chain in first["operations"].items()},
        logarithmic=True, note="one layer forward; no number of cores shortens a chain",
    )  # fmt: skip


times = Experiment.described("recurrence-time", _times, _draw_times, {"C23": _judge_times})


LENGTHS = (32, 128, 512)
SPEEDS = ("reads", "trains", "writes")


def _speeds(seed: int, quick: bool) -> Data:
    """Best times in milliseconds to read, train on and generate one text, for a GRU and a
    Transformer layer of width 64, which take turns. Timings differ between runs."""
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


all_at_once = Experiment.described("all-at-once", _speeds, _draw_speeds, {"C88": _judge_speeds})
