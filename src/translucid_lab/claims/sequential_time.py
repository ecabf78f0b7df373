"""Sequential computation: steps of a recurrent network (C23), words of a text (C88)."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translucid.models import DecoderModel, GenerationInputs
from translucid.parts import CellName, Layout, Recurrent, SelfAttention
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, Interval
from translucid_lab.claims.next_word_prediction import made, recurrent, transformer
from translucid_lab.engine.intervals import clearly, ratio_of
from translucid_lab.engine.verdict import average, by_case, column, decide, not_tested

TOKENS = (64, 256, 1024, 4096)
LONG = TOKENS[1:]  # lengths that the rule uses
CELLS: tuple[CellName, ...] = ("rnn", "lstm")
TURNS = 4
GPU_TEXTS = 8


def _on_cpu(seed: int, quick: bool) -> Data:
    """On one core, one text of width 64."""
    return _times(seed, TOKENS[:3] if quick else TOKENS, "cpu", texts=1, width=64)


def _on_gpu(seed: int, quick: bool) -> Data:
    """On a GPU, several texts of width 256; no times without a GPU."""
    if not torch.cuda.is_available():
        return {"device": "", "lengths": list(TOKENS)}
    return _times(seed, TOKENS, "cuda", texts=GPU_TEXTS, width=256)


def _times(seed: int, lengths: Sequence[int], device: str, *, texts: int, width: int) -> Data:
    """The best time of several passes forward and backward, for each network and length. The
    networks take turns. Timings differ between runs."""
    torch.manual_seed(seed)
    nets: dict[str, nn.Module] = {cell: Recurrent(cell, width, width) for cell in CELLS}
    nets["attention"] = SelfAttention(width, heads=4)
    seconds: dict[str, list[float]] = {name: [] for name in nets}
    for length in lengths:
        x = torch.randn(texts, length, width, device=device)
        taken: dict[str, list[float]] = {name: [] for name in nets}
        for _ in range(TURNS + 1):
            for name, net in nets.items():
                taken[name].append(_seconds(net.to(device), x))
        for name in nets:
            seconds[name].append(min(taken[name][1:]))  # the first one warms up
    name = torch.cuda.get_device_name() if device == "cuda" else "one core"
    return {"device": name, "lengths": list(lengths), **seconds}


def _seconds(net: nn.Module, x: Tensor) -> float:
    # On a CPU, the time of this thread, which other load does not change.
    clock = time.perf_counter if x.is_cuda else time.thread_time
    if x.is_cuda:
        torch.cuda.synchronize()
    began = clock()
    output = net(x)[0] if isinstance(net, Recurrent) else net(x, Layout())
    output.sum().backward()
    if x.is_cuda:
        torch.cuda.synchronize()
    return clock() - began


def _judge_times(data: Sequence[Data]) -> Finding:
    if not all(run["device"] for run in data):
        return not_tested("no GPU here: nothing was timed", ["a GPU"])
    cases: dict[str, bool | None] = {}
    parts = []
    for cell in CELLS:
        for length in (length for length in data[0]["lengths"] if length in LONG):
            at = data[0]["lengths"].index(length)
            ratio = ratio_of(column(data, cell, at), column(data, "attention", at))
            cases[f"{cell.upper()} at {length} tokens"] = clearly(ratio.against(1.0), "above")
            parts.append(f"{cell.upper()} at {length} tokens {ratio}")
    return by_case(
        cases, f"on {data[0]['device']}, a pass forward and backward takes, times that of "
        f"self-attention: {', '.join(parts)}", "the kind of RNN and the length",
    )  # fmt: skip


def _draw_times(data: Sequence[Data]) -> Lines:
    lengths = data[0]["lengths"]
    timed = [run for run in data if run["device"]]
    series = {name: average(timed, name).numpy() if timed else np.full(len(lengths), np.nan)
              for name in (*CELLS, "attention")}  # fmt: skip
    return Lines(
        "A pass forward and backward", Axis("tokens", tuple(map(str, lengths))), "seconds", series,
        logarithmic=True, note=f"on {data[0]['device']}" if timed else "no GPU here",
    )  # fmt: skip


times = Experiment.described("recurrence-time", _on_cpu, _draw_times, {"C23": _judge_times})
gpu_times = Experiment.described("gpu-time", _on_gpu, _draw_times, {"C23": _judge_times})


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
