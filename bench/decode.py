"""Compare the speed of text generation, and of tagging, in Translucid and other libraries.

    python bench/decode.py --where cpu --rounds 5 --out cpu.json [--only "int8 batch 32"]
    python bench/decode.py --table docs/explanation/speed.md cpu.json gpu.json

All tools run models of the same sizes on the same sources, with the same beams and numbers of
tokens. In every round, each of them runs once, so that other load on the machine affects all alike;
the best round of each counts. Each workload has a target: a multiple of another tool's speed, or a
number of tokens of the best translations per second. If `--out` names the file of an earlier run,
its other workloads are kept, so a table can be measured in parts. Needs the packages of the extra
`bench`, and onnx and onnxruntime.

On a busy machine, run it on one processor (`taskset -c 0 python bench/decode.py ...`): then the
processor time is measured, without that of other processes.
"""

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from decode_table import missed, write_table
from peers import CONTESTANTS, THREADS, CannotYet, Cell, Run, Task, Workload, ours

from translucid.fast import cpu_kernels

# Limit the instruction sets of Translucid, ctranslate2, and torch with its libraries.
VARIABLES = (
    cpu_kernels.VARIABLE, "CT2_FORCE_CPU_ISA", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
)  # fmt: skip


@dataclass(frozen=True)
class Race:
    """A workload, and its target speed."""

    work: Workload
    times: dict[str, float]  # by tool: the least multiple of its speed
    rate: float | None = None  # tokens per second


def races(where: str) -> list[Race]:
    if where == "cpu-others":
        return recurrent_races() + tagging_races()
    return translations() if where == "cpu" else gpu_races()


def recurrent_races() -> list[Race]:
    """Language models with two layers of 512, and an encoder-decoder with attention."""
    kinds: list[tuple[Cell, Task]] = [
        ("lstm", "write"), ("gru", "write"), ("rnn", "write"), ("lstm", "translate"),
    ]  # fmt: skip
    return [
        Race(
            Workload(
                task=task, cell=cell, precision=precision, device="cpu", batch=batch, beams=1,
                given=24, tokens=32, vocab=8_000, d_model=512, layers=2, heads=1, d_ff=1,
            ),
            {"onnxruntime": 1.0} | ({"torch.nn": 1.0} if precision == "float32" else {}),
        )
        for cell, task in kinds
        for precision in ("float32", "int8")
        for batch in (1, 32)
    ]  # fmt: skip


def tagging_races() -> list[Race]:
    """An encoder of the translation model's size reads texts of 24 tokens."""
    peers = {"transformers": 1.0, "onnxruntime": 1.0, "torch.nn": 1.0}
    return [
        Race(
            Workload(
                task="tag", precision=precision, device="cpu", batch=batch, beams=1, given=24,
                tokens=24, vocab=8_000, d_model=512, layers=6, heads=8, d_ff=2048,
            ),
            peers if precision == "float32" else {"onnxruntime": 1.0},
        )
        for precision in ("float32", "int8")
        for batch in (1, 32)
    ]  # fmt: skip


def translations() -> list[Race]:
    found = []
    for precision in ("float32", "int8"):
        for batch in (1, 32):
            for beams in (1, 4):
                work = Workload(
                    task="translate", precision=precision, device="cpu", batch=batch, beams=beams,
                    given=24, tokens=32, vocab=8_000, d_model=512, layers=6, heads=8, d_ff=2048,
                )  # fmt: skip
                if precision == "float32":
                    times = {"transformers": 2.0, "ctranslate2": 1.0}
                else:
                    times = {"ctranslate2": 1.0}
                found.append(Race(work, times))
    return found


def gpu_races() -> list[Race]:
    return [
        Race(translation(1, 1), {}, 2_000),
        Race(translation(64, 4), {}, 80_000),
        Race(translation(512, 4), {}, 150_000),
        Race(language(1), {}, 2_500),
        Race(language(64), {}, 100_000),
    ]


def translation(batch: int, beams: int, tokens: int = 64) -> Workload:
    return Workload(
        task="translate", precision="bf16", device="cuda", batch=batch, beams=beams, given=32,
        tokens=tokens, vocab=32_000, d_model=512, layers=6, heads=8, d_ff=2048,
    )  # fmt: skip


def language(batch: int) -> Workload:
    """A GPT-2 of the smallest size."""
    return Workload(
        task="write", precision="bf16", device="cuda", batch=batch, beams=1, given=8, tokens=128,
        vocab=50_257, d_model=768, layers=12, heads=12, d_ff=3072,
    )  # fmt: skip


# Measuring


def measure(race: Race, rounds: int) -> dict[str, Any]:
    """Measure one workload: seconds of every tool in every round, after a round that warms up."""
    work = race.work
    runs, cannot = line_up(work)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    load = os.getloadavg()[0]
    for turn in range(rounds):
        order = list(runs) if turn % 2 == 0 else list(runs)[::-1]
        for name in order:
            seconds[name].append(clocked(runs[name], work))
    rates = {name: work.batch * work.tokens / min(took) for name, took in seconds.items()}
    shown = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    print(f"{work.name}: {shown} tokens/s", flush=True)
    return {
        "name": work.name, "work": asdict(work), "times": race.times, "rate": race.rate,
        "load": round(load, 2), "seconds": seconds, "tokens_per_s": rates, "cannot": cannot,
    }  # fmt: skip


def line_up(work: Workload) -> tuple[dict[str, Run], dict[str, str]]:
    """The tools that can run a workload, after one run each; and the reasons why the others
    cannot."""
    runs, cannot = {}, {}
    for name, make in CONTESTANTS.items():
        try:
            with torch.inference_mode():
                run = make(work)
                found = run()
        except CannotYet as error:
            cannot[name] = str(error)
            continue
        lengths = [len(row) for row in found]
        assert lengths == [work.tokens] * work.batch, f"{name} wrote {lengths} tokens"
        runs[name] = run
    return runs, cannot


def clocked(run: Run, work: Workload) -> float:
    alone = work.device == "cpu" and THREADS == 1
    now = time.process_time if alone else time.perf_counter
    settle(work)
    began = now()
    with torch.inference_mode():
        run()
    settle(work)
    return now() - began


def settle(work: Workload) -> None:
    """Wait until no earlier run is still in progress."""
    if work.device == "cuda":
        torch.cuda.synchronize()


def measure_memory(work: Workload) -> dict[str, Any]:
    """The peak memory of Translucid beyond its weights, and the size of the caches."""
    run = ours(work)
    settle(work)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    settle(work)
    held, caches = torch.cuda.max_memory_allocated() - before, work.cache_bytes()
    print(f"{work.name}: {held / caches:.2f} of the caches' {caches / 1e6:,.0f} MB", flush=True)
    return {"name": work.name, "work": asdict(work), "held": held, "caches": caches, "most": 1.2}


def measured(where: str, rounds: int, only: str, out: Path | None) -> dict[str, Any]:
    """Measure all workloads. The results so far are written to `out` after each one, in case a
    later one fails."""
    if where != "gpu":
        torch.set_num_threads(THREADS)
    names = [race.work.name for race in races(where)]
    chosen = [race for race in races(where) if only in race.work.name]
    result: dict[str, Any] = {
        "where": where,
        "when": date.today().isoformat(),
        "rounds": rounds,
    } | machine(where)
    result["races"] = kept(out, result)
    for race in chosen:
        measured = measure(race, rounds)
        result["races"] = [old for old in result["races"] if old["name"] != race.work.name]
        result["races"].append(measured)
        result["races"].sort(key=lambda one: names.index(one["name"]))
        write(out, result)
    long = translation(64, 8, tokens=512)
    if where == "gpu" and only in long.name:
        result["memory"] = measure_memory(long)
        write(out, result)
    return result


def kept(out: Path | None, result: dict[str, Any]) -> list[Any]:
    """The workloads of an earlier run with the same versions on the same machine."""
    if out is None or not out.exists():
        return []
    earlier: dict[str, Any] = json.loads(out.read_text("utf-8"))
    other = [key for key, value in result.items() if earlier[key] != value and key != "when"]
    if other:
        sys.exit(f"{out} was measured with another {', '.join(other)}; choose another file")
    races: list[Any] = earlier["races"]
    return races


def write(out: Path | None, result: dict[str, Any]) -> None:
    if out is not None:
        out.write_text(json.dumps(result, indent=2) + "\n")


def machine(where: str) -> dict[str, Any]:
    device = torch.cuda.get_device_name() if where == "gpu" else processor()
    packages = {}
    for name in ("torch", "transformers", "ctranslate2", "onnxruntime"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "none"
    found = {"device": device, "threads": THREADS, "packages": packages}
    if where != "gpu":
        found["kernels"] = cpu_kernels.path().name if cpu_kernels.available() else "torch"
        found["variables"] = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return found


def processor() -> str:
    """The name of the processor as Linux states it; for ARM, Linux only states its features."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="with --table: what --out wrote")
    where = "cpu and gpu: Transformers that generate; cpu-others: recurrent networks and encoders"
    parser.add_argument("--where", choices=["cpu", "cpu-others", "gpu"], help=where)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    parser.add_argument("--table", type=Path, help="the page whose table to write")
    options = parser.parse_args()
    if not options.where and not options.files:
        parser.error("give --where, or --table with files")
    results = [json.loads(file.read_text("utf-8")) for file in options.files]
    if options.where:
        results.append(measured(options.where, options.rounds, options.only, options.out))
    if options.table:
        write_table(options.table, results)
    for line in missed(results):
        print(f"missed: {line}", file=sys.stderr)


if __name__ == "__main__":
    main()
