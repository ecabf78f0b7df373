"""Compare the training speed of Translucid, through `translucid train`, with transformers and
torch.nn.Transformer.

    python bench/train.py --where gpu --out gpu-train.json [--only "GPT-2"] [--data FOLDER]
    python bench/train.py --table docs/explanation/speed.md gpu-train.json

Translucid reads files, makes batches, logs and validates as in any run; its rate is the one in
timing.jsonl after the warm-up. The other tools repeat one random batch (`train_peers.py`). Each
tool runs in its own process. In workloads with fixed shapes, the texts are random words, equally
many on every line; with --data, a folder of parallel texts train.SOURCE and train.TARGET, lines of
different lengths are measured, too.
"""

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import torch

START, END = "<!-- training on a {where}, by bench/train.py -->", "<!-- end of what was trained -->"
PATIENCE = 420.0  # maximum seconds for one tool


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The sizes of a batch and of a model."""

    name: str
    task: Literal["language", "translate"]
    rows: int
    length: int  # tokens of each row, of source and of target
    vocab: int
    d_model: int
    layers: int
    heads: int
    d_ff: int
    dropout: float
    smoothing: float
    device: str
    bf16: bool
    peers: tuple[str, ...]
    rate: float | None  # target speed in target tokens per second
    times: float  # target speed as a multiple of the fastest other tool
    steps: int
    kind: Literal["transformer", "recurrent"] = "transformer"

    def overrides(self) -> list[str]:
        """The settings for `translucid train`."""
        sides = 2 if self.task == "translate" else 1
        keys: dict[str, Any] = {
            "tokenizer.kind": "word", "tokenizer.vocab_size": self.vocab,
            "data.max_length": self.length, "model.kind": self.kind,
            "model.d_model": self.d_model, "model.layers": self.layers,
            "model.dropout": self.dropout,
            "training.batch_tokens": sides * self.rows * self.length,
            "training.precision": "bfloat16" if self.bf16 else "float32",
            "training.device": self.device, "training.steps": self.steps,
            "training.evaluate_every": self.steps, "training.log_every": max(self.steps // 8, 1),
            "training.warmup": 5, "training.learning_rate": 1e-4,
        }  # fmt: skip
        if self.kind == "recurrent":
            keys |= {"model.cell": "lstm", "model.hidden": self.d_model, "model.tied": "true"}
        else:
            keys |= {
                "model.heads": self.heads, "model.d_ff": self.d_ff,
                "model.activation": "relu" if self.task == "translate" else "gelu",
                "model.positions": "sinusoidal" if self.task == "translate" else "learned",
                "model.max_length": max(self.length, 512),
                "training.compile": "true" if self.device == "cuda" else "false",
            }  # fmt: skip
        if self.task == "translate":
            keys |= {"task.label_smoothing": self.smoothing, "tokenizer.joint": "true"}
            keys |= {"decoding.beam_size": 1}
        else:
            keys |= {"data.unit": "file"}
        return [f"{name}={value}" for name, value in keys.items()]


def workloads(where: str) -> list[Workload]:
    if where == "gpu":
        return [
            Workload(
                name="GPT-2 124M, 32 x 1,024", task="language", rows=32, length=1024,
                vocab=50_304, d_model=768, layers=12, heads=12, d_ff=3072, dropout=0.0,
                smoothing=0.0, device="cuda", bf16=True, peers=("transformers",), rate=520_000,
                times=1.2, steps=160,
            ),
            Workload(
                name="Transformer-base, 384 x (64 + 64)", task="translate", rows=384, length=64,
                vocab=32_000, d_model=512, layers=6, heads=8, d_ff=2048, dropout=0.1,
                smoothing=0.1, device="cuda", bf16=True,
                peers=("transformers", "torch.nn.Transformer"), rate=700_000, times=1.35,
                steps=240,
            ),
            Workload(
                name="LSTM, 2 layers of 640, 64 x 128", task="language", rows=64, length=128,
                vocab=33_282, d_model=640, layers=2, heads=1, d_ff=640, dropout=0.5, smoothing=0.0,
                device="cuda", bf16=True, peers=("torch.nn.LSTM",), rate=None, times=1.0, steps=480,
                kind="recurrent",
            ),
            *(
                Workload(
                    name=f"decoder of 12 layers, 1 x {length:,}", task="language", rows=1,
                    length=length, vocab=33_282, d_model=768, layers=12, heads=12, d_ff=3072,
                    dropout=0.0, smoothing=0.0, device="cuda", bf16=True, peers=(), rate=None,
                    times=1.0, steps=32,
                )
                for length in (4_096, 8_192, 16_384, 32_768)
            ),
        ]  # fmt: skip
    return [
        Workload(
            name="3 + 3 layers, d_model 256, 64 x (24 + 24)", task="translate", rows=64, length=24,
            vocab=8_000, d_model=256, layers=3, heads=4, d_ff=1024, dropout=0.1, smoothing=0.1,
            device="cpu", bf16=False, peers=("transformers", "torch.nn.Transformer"), rate=None,
            times=1.1, steps=24,
        )
    ]  # fmt: skip


# Ours


def write_texts(work: Workload, folder: Path) -> list[Path]:
    """Write lines of random words that contain every word of the vocabulary."""
    chance = random.Random(0)
    words = [f"w{number}" for number in range(work.vocab - 4)]  # without the four special tokens
    files = []
    if work.task == "language":
        # Whole batches, as for the other tools; the last row of the last batch is half full.
        batch = work.rows * work.length
        batches = max(41, 1 + 3 * len(words) // batch)
        text = words + chance.choices(words, k=batches * batch - work.length // 2 - len(words))
        files.append(folder / "train.txt")
        lines = [" ".join(text[i : i + 1000]) for i in range(0, len(text), 1000)]
        files[0].write_text("\n".join(lines) + "\n")
        (folder / "valid.txt").write_text(" ".join(text[-4000:]) + "\n")
        return files
    lines = 40 * work.rows
    for side in ("source", "target"):
        # One token of a row is the end token of the source, or the start token of the target.
        text = words + chance.choices(words, k=lines * (work.length - 1))
        rows = [
            " ".join(text[i : i + work.length - 1])
            for i in range(0, lines * (work.length - 1), work.length - 1)
        ]
        files.append(folder / f"train.{side}")
        files[-1].write_text("\n".join(rows) + "\n")
        (folder / f"valid.{side}").write_text("\n".join(rows[:8]) + "\n")
    return files


def ours(work: Workload) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        files = write_texts(work, folder)
        held_out = [str(file).replace("train.", "valid.") for file in files]
        return trained(
            [work.task, "--train", *map(str, files), "--valid", *held_out, *work.overrides()],
            folder / "run",
        )


def trained(arguments: list[str], out: Path) -> dict[str, Any]:
    """Run `translucid train`; the rate is that of its time windows after the first two."""
    began = time.time()
    command = [sys.executable, "-m", "translucid", "train", *arguments, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    took = time.time() - began
    if done.returncode:
        raise RuntimeError(f"translucid train ended with {done.returncode}: {done.stderr[-2000:]}")
    metrics = [json.loads(line) for line in (out / "timing.jsonl").read_text("utf-8").splitlines()]
    windows = [line["targets_per_second"] for line in metrics if "targets_per_second" in line]
    memory = max((line["memory"] for line in metrics if line.get("memory")), default=None)
    assert len(windows) > 3, f"{len(windows)} windows are too few"
    return {
        "tokens_per_s": statistics.median(windows[2:]), "windows": windows, "seconds": took,
        "memory": memory,
        "log": (out / "log.txt").read_text("utf-8")[-3000:],
    }  # fmt: skip


# The others


def peer(name: str, work: Workload) -> dict[str, Any]:
    """The best result of another tool, compiled or not: on a CPU, compiling does not always
    help."""
    ways = [True] if work.device == "cuda" else [True, False]
    runs = {}
    for compiled in ways:
        described = json.dumps(asdict(work) | {"compiled": compiled})
        command = [sys.executable, str(Path(__file__).with_name("train_peers.py")), name, described]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr[-1500:]}")
        runs["compiled" if compiled else "plain"] = json.loads(done.stdout.splitlines()[-1])
    best = max(runs, key=lambda way: float(runs[way]["tokens_per_s"]))
    return runs[best] | {"way": best}


def measure(work: Workload, *, alone: bool) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in ("ours", *(() if alone else work.peers)):
        try:
            results[name] = ours(work) if name == "ours" else peer(name, work)
            print(f"{work.name}: {name} {results[name]['tokens_per_s']:,.0f}", flush=True)
        except (RuntimeError, subprocess.TimeoutExpired, AssertionError) as error:
            results[name] = {"failed": str(error)}
            print(f"{work.name}: {name} failed: {error}", flush=True)
    return {"work": asdict(work), "results": results}


def ragged(work: Workload, folder: Path) -> dict[str, Any]:
    """The same sizes on real lines, in real target tokens: `train` does not count padding."""
    sides = sorted(folder.glob("train.*"))
    with tempfile.TemporaryDirectory() as made:
        options = [o for o in work.overrides() if "tokenizer.kind" not in o]
        options = [o.replace("data.max_length=64", "data.max_length=256") for o in options]
        held_out = [str(file).replace("train.", "valid.") for file in sides]
        result = trained(
            [
                work.task, "--train", *map(str, sides), "--valid", *held_out, *options,
                "tokenizer.kind=bpe",
            ],
            Path(made) / "run",
        )  # fmt: skip
    print(f"{work.name} on {folder.name}: {result['tokens_per_s']:,.0f}", flush=True)
    return {"work": asdict(work), "data": folder.name, "results": {"ours": result}}


# The upper bound, and the table


def ceiling() -> float | None:
    """Multiplications and additions per second of a large matrix product in bfloat16."""
    if not torch.cuda.is_available():
        return None
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(5):
        a @ a
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
    return float(20 * 2 * 8192**3 / (time.perf_counter() - began))


def packages() -> dict[str, str]:
    found = {}
    for name in ("torch", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def table(result: dict[str, Any]) -> str:
    lines = [
        f"**{result['device']}**, {', '.join(f'{n} {v}' for n, v in result['packages'].items())}; "
        f"{result['when']}. Target tokens per second:",
        "",
        "| workload | ours | transformers | torch.nn | ours is | wanted | memory |",
        "| --- | --: | --: | --: | --- | --- | --: |",
    ]
    for race in result["races"]:
        work, rates = race["work"], {}
        for name, value in race["results"].items():
            rates["torch.nn" if name.startswith("torch.nn") else name] = value.get("tokens_per_s")
        shown = [
            f"{rates[name]:,.0f}" if rates.get(name) else "—"
            for name in ("ours", "transformers", "torch.nn")
        ]
        others = [rate for name, rate in rates.items() if name != "ours" and rate]
        ratio = f"{rates['ours'] / max(others):.2f} × the best" if others else "—"
        goal = f"{work['rate']:,.0f}, " if work["rate"] else ""
        wanted = f"{goal}{work['times']} ×" if others else "—"
        memory = race["results"]["ours"].get("memory")
        used = f"{memory / 1e9:.1f} GB" if memory else "—"
        name = f"{work['name']}, lines of {race['data']}" if "data" in race else work["name"]
        lines.append(f"| {name} | {' | '.join(shown)} | {ratio} | {wanted} | {used} |")
    return "\n".join(lines)


def write_table(page: Path, results: list[dict[str, Any]]) -> None:
    text = page.read_text("utf-8")
    for result in results:
        start = START.format(where=result["where"])
        if start not in text:
            text = f"{text.rstrip()}\n\n{start}\n{END}\n"
        head, rest = text.split(start)
        text = "\n\n".join([head.rstrip(), start, table(result), END]) + rest.partition(END)[2]
    page.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--where", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--only", default="", help="workloads whose name holds this")
    parser.add_argument("--alone", action="store_true", help="ours without the others")
    parser.add_argument(
        "--data", type=Path, nargs="*", default=[], help="folders of parallel texts"
    )
    parser.add_argument("--out", type=Path, default=Path("train.json"))
    parser.add_argument("--table", type=Path, help="write the results' tables into this page")
    parser.add_argument("results", type=Path, nargs="*")
    options = parser.parse_args()
    if options.table:
        write_table(
            options.table, [json.loads(file.read_text("utf-8")) for file in options.results]
        )
        return
    device = torch.cuda.get_device_name() if options.where == "gpu" else platform.machine()
    result: dict[str, Any] = {
        "where": options.where, "device": device, "packages": packages(),
        "when": date.today().isoformat(), "ceiling": ceiling(), "races": [],
    }  # fmt: skip
    for work in workloads(options.where):
        if options.only in work.name:
            result["races"].append(measure(work, alone=options.alone))
            options.out.write_text(json.dumps(result, indent=1))
    for folder in options.data:
        work = next(work for work in workloads(options.where) if work.task == "translate")
        result["races"].append(ragged(work, folder))
        options.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
