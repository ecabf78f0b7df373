"""Measure how time and memory grow with the size of the work, and fit the exponents.

    python bench/growth.py --out growth.json [--only score --only beams] [--device cuda]
    python bench/growth.py --table docs/explanation/speed.md growth.json ...

The models are small and have random weights. Every size runs in a process of its own, which
reports the best of several times and its peak memory above that before the work. The exponent
`a` is the least-squares slope of log(time) over log(size) for the largest half of the sizes:
doubling the size multiplies the time by 2^a. Work that costs a fixed amount per call has a small
exponent at first, so the smaller half is left out.

On a busy machine, set OMP_NUM_THREADS=1: with one thread, the processor time is measured, without
that of other processes. `--table` writes the table between the marks of the page and draws the
figure.
"""

import argparse
import json
import math
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

MARKS = "<!-- growth, by bench/growth.py -->", "<!-- end of what was measured -->"
FIGURE = Path("docs/images/growth.svg")
Work = Callable[[], Any]


@dataclass(frozen=True)
class Axis:
    """One kind of work, and the sizes at which it is measured."""

    name: str
    unit: str
    make: Callable[[int, str], Work]  # (size, device) -> the work, ready to run
    sizes: tuple[int, ...]
    why: str = ""  # the reason for an exponent above 1


def powers(first: int, last: int) -> tuple[int, ...]:
    return tuple(2**k for k in range(first.bit_length() - 1, last.bit_length()))


# The work


def model(task: str, device: str, *, vocab: int = 1000, layers: int = 2, d_model: int = 128) -> Any:
    """A small Transformer with random weights, as `tl.load` would return it."""
    import torch

    from translucid.data.tokenizers.tokenizer import Tokenizer
    from translucid.model import Model
    from translucid.models import TransformerConfig, build
    from translucid.tasks.model_folder import Bundle

    torch.manual_seed(0)
    words = Tokenizer.train("space", [f"w{n}" for n in range(vocab)] * 2)
    shape = "decoder" if task == "language" else "encoder-decoder"
    config = TransformerConfig(
        shape=shape, head="language", vocab=len(words), d_model=d_model, heads=4, layers=layers,
        d_ff=2 * d_model, dropout=0.0, positions="rotary",
    )  # fmt: skip
    names = ("tokenizer",) if task == "language" else ("source", "target")
    network = build(config).eval().to(device)
    return Model(Bundle(network, task, dict.fromkeys(names, words), ()))


def text(tokens: int, vocab: int = 1000) -> str:
    return " ".join(f"w{n * 7919 % vocab}" for n in range(tokens))


def score(size: int, device: str) -> Work:
    held, scored = model("language", device), text(size - 1)
    return lambda: held.score(scored)


def write(size: int, device: str) -> Work:
    held, prompt = model("language", device), text(8)
    return lambda: held.decode([prompt], beam_size=1, min_length=size, max_length=size + 1)


def read_prompt(size: int, device: str) -> Work:
    held, prompt = model("language", device), text(size)
    return lambda: held.decode([prompt], beam_size=1, min_length=8, max_length=9)


def score_vocabulary(size: int, device: str) -> Work:
    held, scored = model("language", device, vocab=size, d_model=64), text(256, size)
    return lambda: held.score(scored)


def write_vocabulary(size: int, device: str) -> Work:
    held, prompt = model("language", device, vocab=size, d_model=64), text(8, size)
    return lambda: held.decode([prompt], beam_size=4, min_length=32, max_length=33)


def open_vocabulary(size: int, device: str) -> Work:
    import tempfile

    from translucid.model import load

    folder = Path(tempfile.mkdtemp()) / "model"
    model("language", device, vocab=size, d_model=64).save(folder)
    return lambda: load(folder)


def beams(size: int, device: str) -> Work:
    held, source = model("translate", device), text(16)
    return lambda: held.decode([source], beam_size=size, min_length=32, max_length=33)


def layers(size: int, device: str) -> Work:
    held, source = model("translate", device, layers=size), text(16)
    return lambda: held.decode([source], beam_size=4, min_length=32, max_length=33)


def lines(size: int, device: str) -> Work:
    held, rows = model("translate", device), [text(8 + n % 16) for n in range(size)]
    return lambda: held.translate(rows, beam_size=1, min_length=16, max_length=17)


def labels(size: int, device: str) -> Work:
    """Lines of a file, through the command's own classifier."""
    import translucid as tl

    held = tl.load("demo:classify", device=device)
    rows = [f"The food was {'not ' * (n % 3)}bad." for n in range(size)]
    return lambda: held.predict(rows)


def encode(size: int, device: str) -> Work:
    """One long line with a byte-pair tokenizer."""
    from translucid.data.tokenizers.tokenizer import Tokenizer

    sentences = [f"The dog number {n} sees a cat and {n * n} birds." for n in range(2000)]
    tokenizer = Tokenizer.train("bpe", sentences, 2000)
    line = " ".join(sentences[n % 2000] for n in range(size // 10 + 1))
    line = " ".join(line.split()[:size])
    return lambda: tokenizer.decode(tokenizer.encode(line))


def train_tokenizer(size: int, device: str) -> Work:
    from translucid.data.tokenizers.tokenizer import Tokenizer

    sentences = [f"word{n % 997}x{n * 31 % 4001} goes to place{n % 211}" for n in range(size)]
    return lambda: Tokenizer.train("bpe", sentences, 2000)


ATTENTION = "attention compares each token with all before it"
AXES = [
    Axis("score one text", "tokens", score, powers(64, 32_768), ATTENTION),
    Axis("read a prompt", "tokens", read_prompt, powers(64, 32_768), ATTENTION),
    Axis("write one text", "tokens", write, powers(64, 16_384), ATTENTION),
    Axis("score with a vocabulary", "words", score_vocabulary, powers(1024, 262_144)),
    Axis("write with a vocabulary", "words", write_vocabulary, powers(1024, 262_144)),
    Axis("open a model", "words", open_vocabulary, powers(1024, 262_144)),
    Axis("beam search", "beams", beams, powers(1, 64)),
    Axis("translate with layers", "layers", layers, powers(1, 32)),
    Axis("translate lines", "lines", lines, powers(16, 4096)),
    Axis("classify lines", "lines", labels, powers(64, 16_384)),
    Axis("tokenize one line", "words", encode, powers(256, 65_536)),
    Axis("train a tokenizer", "lines", train_tokenizer, powers(256, 65_536)),
]


# Measuring


def measured(axis: Axis, size: int, device: str, seconds: float) -> dict[str, float]:
    """Time and memory of one size, in a new process."""
    context = multiprocessing.get_context("fork")  # torch is imported, but has not computed yet
    ours, theirs = context.Pipe()
    process = context.Process(target=_measure, args=(axis, size, device, seconds, theirs))
    process.start()
    theirs.close()
    try:
        found: dict[str, float] = ours.recv()
    except EOFError:
        found = {"failed": 1.0}
    process.join()
    return found


def _measure(axis: Axis, size: int, device: str, seconds: float, to: Connection) -> None:
    import torch

    work = axis.make(size, device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    alone = device == "cpu" and torch.get_num_threads() == 1
    now = time.process_time if alone else time.perf_counter
    before = _memory(device)
    began, times = time.perf_counter(), list[float]()
    while not times or (time.perf_counter() - began < seconds and len(times) < 5):
        start = now()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(now() - start)
        if len(times) == 1:  # the first call also loads libraries
            memory = _memory(device, peak=True) - before
    to.send({"size": size, "seconds": min(times), "runs": len(times), "bytes": max(memory, 0)})


def _memory(device: str, *, peak: bool = False) -> int:
    import torch

    if device == "cuda":
        return int(torch.cuda.max_memory_allocated() if peak else torch.cuda.memory_allocated())
    if not peak:
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak starts from here
    status = Path("/proc/self/status").read_text("ascii")
    name = "VmHWM:" if peak else "VmRSS:"
    return 1024 * int(status.partition(name)[2].split()[0])


def exponent(sizes: list[float], values: list[float]) -> float:
    """The slope of log(value) over log(size), for the larger half of the sizes."""
    half = len(sizes) // 2
    pairs = [(math.log(s), math.log(v)) for s, v in zip(sizes, values, strict=True) if v > 0][half:]
    if len(pairs) < 2:
        return math.nan
    x, y = np.array(pairs).T
    return float(np.polyfit(x, y, 1)[0])


# The page


def table(results: list[dict[str, Any]]) -> str:
    about = results[-1]
    alone = "1 thread, processor time" if about["threads"] == 1 else f"{about['threads']} threads"
    rows = [
        f"**{about['machine']}**, {alone}, torch {about['torch']}; "
        f"best of up to 5 runs, {about['date']}.",
        "",
        "| Work | Sizes | Time, smallest to largest | Memory, largest | Exponent of time "
        "| of memory | Why above 1 |",
        "| --- | --- | --- | --: | --: | --: | --- |",
    ]
    known = {axis.name: axis for axis in AXES}
    for result in results:
        for name, points in result["axes"].items():
            axis, good = known[name], [p for p in points if "failed" not in p]
            sizes = [p["size"] for p in good]
            times, memory = [p["seconds"] for p in good], [p["bytes"] for p in good]
            slope, slope_of_memory = exponent(sizes, times), exponent(sizes, memory)
            rows.append(
                f"| {name} | {sizes[0]:,} to {sizes[-1]:,} {axis.unit} "
                f"| {duration(times[0])} to {duration(times[-1])} | {memory[-1] / 1e6:,.0f} MB "
                f"| {slope:.2f} | {slope_of_memory:.2f} | {axis.why if slope > 1.05 else ''} |"
            )
    return "\n".join(rows)


def duration(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def draw(results: list[dict[str, Any]]) -> None:
    """Time relative to the smallest size, over the size relative to the smallest."""
    from translucid.see import Axis as Labels
    from translucid.see import Lines

    series = {
        name: np.array([p["seconds"] / points[0]["seconds"] for p in points if "seconds" in p])
        for result in results
        for name, points in result["axes"].items()
    }
    longest = max(map(len, series.values()))
    labels = tuple(f"{2**k}" for k in range(longest))
    picture = Lines(
        "Cost as work grows", Labels("size of the work, relative to the smallest", labels),
        "time, relative to the smallest size",
        {"linear": 2.0 ** np.arange(longest)} | series, logarithmic=True,
    )  # fmt: skip
    picture.save(FIGURE)


def write_page(page: Path, files: list[Path]) -> None:
    results = [json.loads(file.read_text("utf-8")) for file in files]
    before, _, rest = page.read_text("utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    page.write_text(f"{before}{MARKS[0]}\n\n{table(results)}\n\n{MARKS[1]}{after}", "utf-8")
    draw(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write, or to add axes to")
    parser.add_argument("--only", action="append", help="axes whose name contains this")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="repeat up to this long")
    parser.add_argument("--most", type=float, default=30.0, help="stop an axis after such a size")
    parser.add_argument("--table", type=Path, metavar="PAGE")
    parser.add_argument("results", nargs="*", type=Path)
    given = parser.parse_args()
    if given.table:
        write_page(given.table, given.results)
        return
    import torch

    import translucid.model.model  # noqa: F401  # before the processes fork

    axes: dict[str, Any] = {}
    if given.out and given.out.exists():
        axes = json.loads(given.out.read_text("utf-8"))["axes"]
    for axis in AXES:
        if given.only and not any(part in axis.name for part in given.only):
            continue
        points = []
        for size in axis.sizes:
            points.append(measured(axis, size, given.device, given.seconds))
            if points[-1].get("seconds", math.inf) > given.most:
                break
        axes[axis.name] = points
        good = [p for p in points if "failed" not in p]
        slope = exponent([p["size"] for p in good], [p["seconds"] for p in good])
        shown = "  ".join(f"{p['size']:,}: {duration(p['seconds'])}" for p in good)
        print(f"{axis.name}: {shown}  exponent {slope:.2f}", flush=True)
        about = {
            "date": date.today().isoformat(), "machine": _machine(given.device),
            "threads": torch.get_num_threads(), "torch": torch.__version__,
            "load": round(os.getloadavg()[0], 2), "axes": axes,
        }  # fmt: skip
        if given.out:
            given.out.write_text(json.dumps(about, indent=1) + "\n", "utf-8")


def _machine(device: str) -> str:
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    cpu = Path("/proc/cpuinfo")
    text = cpu.read_text("utf-8") if cpu.exists() else ""
    name = text.partition("model name")[2].partition("\n")[0].strip(" \t:")
    return name or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
