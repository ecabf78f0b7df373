"""Training in several processes: is the result that of one process, how much data do the processes
send, and how far does it scale?

    python bench/scale.py --out scale.json          1, 2 and 4 processes of this machine (gloo)
    python bench/scale.py --forecast                tokens per second of 1 to 1,024 GPUs, computed

The processes train a small translation model with Translucid's own loop. Their traffic is counted
twice: as bytes of collective operations, where torch passes them to gloo, and as bytes sent over
TCP, as counted by the kernel (Linux). Both are compared with theory, which uses only the shapes of
the parameters and the number of processes.
"""

import argparse
import json
import math
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from translucid.core.weights import own_tensors
from translucid.runs.batches import Stream
from translucid.runs.recipe.recipe import parse
from translucid.runs.setup import set_up
from translucid.training.distributed import Processes, joined
from translucid.training.loop import Watchers, train
from translucid.training.state import State

COUNTS, FLOAT = (1, 2, 4), 4
STEPS, FIRST = 8, 3  # steps, and the first one counted: before it, DDP creates its buckets
RECIPE: dict[str, Any] = {
    "task": {"kind": "translate"},
    "data": {"toyland": 200},
    "tokenizer": {"kind": "word"},
    "model": {"kind": "transformer", "d_model": 64, "heads": 2, "layers": 2, "dropout": 0.0},
    "training": {
        "steps": STEPS + 1, "batch_tokens": 800, "warmup": 1, "log_every": 1, "device": "cpu",
        "optimizer": "sgd", "learning_rate": 0.1, "evaluate_every": 100,
    },
    "decoding": {"beam_size": 1},
}  # fmt: skip


# The traffic by theory


@dataclass(frozen=True)
class Traffic:
    """Bytes per step of the buffers that each process passes to each kind of collective
    operation."""

    all_reduce: int = 0
    all_gather: int = 0  # of the whole tensors, not of the shards
    reduce_scatter: int = 0

    def sent(self, processes: int, *, gloo: bool = False) -> float:
        """The bytes that each process sends with ring algorithms: a process sends N - 1 of the N
        parts of a buffer once to gather and once to reduce. gloo implements reduce-scatter as an
        all-reduce of which each process keeps its part."""
        ring = (processes - 1) / processes
        reducing = 2 if gloo else 1
        return ring * (2 * self.all_reduce + self.all_gather + reducing * self.reduce_scatter)


def theory(network: nn.Module, parallel: str, processes: int) -> Traffic:
    """The traffic of one step, from the shapes of the parameters alone."""
    if parallel == "ddp":
        return Traffic(all_reduce=FLOAT * sum(p.numel() for p in network.parameters()))
    # Rows are distributed evenly; the last shard is padded.
    padded = {
        name: FLOAT * math.ceil(p.shape[0] / processes) * processes * p[0].numel()
        for name, p in network.named_parameters()
    }
    # The outermost parameters stay gathered from the forward to the backward pass; those of a layer
    # are gathered once for each. Cross-attention is called twice: for keys and values, and in its
    # layer.
    outermost = sum(size for name, size in padded.items() if ".layers." not in name)
    cross = sum(size for name, size in padded.items() if ".cross_attention." in name)
    whole = sum(padded.values())
    return Traffic(all_gather=2 * whole - outermost + 2 * cross, reduce_scatter=whole)


# The traffic as counted


class Collectives(TorchDispatchMode):
    """Counts the bytes of collective operations by name; operations on a single number count as
    `flags`."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.namespace in ("c10d", "_c10d_functional"):
            size = max((t.nbytes for t in tree_leaves(args) if isinstance(t, Tensor)), default=0)
            name = func._schema.name.partition("::")[2].strip("_")
            self.bytes["flags" if size <= 8 else KINDS.get(name, name)] += size
        return func(*args, **(kwargs or {}))


KINDS = {
    "allreduce": "all_reduce", "allgather_base": "all_gather",
    "all_gather_into_tensor_out": "all_gather", "reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
}  # fmt: skip


def bytes_sent() -> int:
    """The bytes that all TCP connections of this process have sent so far, as counted by the
    kernel."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # closed in the meantime
            continue
        with connection:
            internet = connection.family in (socket.AF_INET, socket.AF_INET6)
            if internet and connection.type == socket.SOCK_STREAM:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                total += struct.unpack_from("Q", info, 200)[0]  # tcpi_bytes_sent
    return total


# One process of several


@dataclass(frozen=True)
class Trained:
    """The results of one process of a run."""

    losses: list[float]
    weights: dict[str, Tensor]
    per_step: dict[str, float]  # bytes by collective, and those `sent`
    expected: Traffic


def trained(parallel: str, processes: Processes) -> Trained:
    """Train with Translucid's own loop, and count the traffic of each step."""
    setup = set_up(parse(RECIPE, [f"training.parallel={parallel}"]), lambda _: None)
    alone, count = processes.alone, processes.count
    expected = Traffic() if alone else theory(setup.network, parallel, count)
    state = State(setup.network, setup.recipe.training, processes)
    stream = Stream(setup.task, setup.items, setup.recipe, processes=processes)
    collectives, losses, marks = Collectives(), list[float](), list[dict[str, int]]()

    def mark(step: int, seconds: float) -> None:
        processes.wait()  # until all processes have sent; the wait itself counts as flags
        marks.append(dict(collectives.bytes) | {"sent": bytes_sent()})

    # Stopped before the last step, so that nothing is evaluated.
    done, note = lambda: state.step >= STEPS, lambda line: losses.append(line.loss)
    watchers = Watchers(note, interrupted=done, ticked=mark)
    with nullcontext() if alone else collectives:
        train(state, setup.task, stream, setup.valid, setup.recipe.training, watchers)
    with state.readable() as network:
        weights = {name: t.clone() for name, t in own_tensors(network).items()}
    first, last = marks[FIRST - 1], marks[STEPS - 2]
    steps = STEPS - 1 - FIRST
    per_step = {name: (last[name] - first.get(name, 0)) / steps for name in last}
    return Trained(losses, weights, per_step, expected)


def work(parallel: Any, out: Path) -> None:
    """Run by torchrun in each process; the first one writes its results to `out`."""
    with joined(parallel, torch.device("cpu")) as processes:
        run = trained(parallel, processes)
        if processes.main:
            result = {
                "losses": run.losses, "per_step": run.per_step, "theory": vars(run.expected),
                "by_gloo": run.expected.sent(processes.count, gloo=True),
            }  # fmt: skip
            out.with_suffix(".json").write_text(json.dumps(result))
            save_file(run.weights, out)


# All of them


def measure(parallel: str, processes: int, folder: Path) -> dict[str, Any]:
    out = folder / f"{parallel}-{processes}.safetensors"
    program = [str(Path(__file__).resolve()), "--worker", parallel, str(out)]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(torchrun if processes > 1 else []), *program]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MASTER_PORT": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{parallel}, {processes}: {done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(out.with_suffix(".json").read_text("utf-8"))
    alone = folder / "ddp-1"
    weights, expected = load_file(out), load_file(alone.with_suffix(".safetensors"))
    losses = json.loads(alone.with_suffix(".json").read_text("utf-8"))["losses"]
    return result | {
        "parallel": parallel, "processes": processes,
        "loss_difference": max(  # relative
            abs(a - b) / b for a, b in zip(result["losses"], losses, strict=True)
        ),
        "weight_difference": max(float((weights[n] - expected[n]).abs().max()) for n in expected),
    }  # fmt: skip


def measured_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| | processes | losses differ by | weights differ by | all-reduce | all-gather | "
        "reduce-scatter | by theory | sent over TCP | by theory |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for row in rows:
        counted, expected = row["per_step"], row["theory"]
        kinds = [f"{counted.get(kind, 0):,.0f}" for kind in expected]
        wanted = " + ".join(f"{size:,}" for size in expected.values() if size) or "0"
        lines.append(
            f"| {row['parallel']} | {row['processes']} | {row['loss_difference']:.1e} | "
            f"{row['weight_difference']:.1e} | {' | '.join(kinds)} | {wanted} | "
            f"{counted['sent']:,.0f} | {row['by_gloo']:,.0f} |"
        )
    return "\n".join(lines)


# The forecast


@dataclass(frozen=True)
class Interconnect:
    """Bytes per second and latencies in seconds, for each GPU and in one direction."""

    in_node: float = 450e9  # NVLink
    between: float = 50e9  # 400 Gb/s of InfiniBand for each GPU
    node: int = 8  # GPUs of a machine
    efficiency: float = 0.8  # fraction of the bandwidth that a collective operation uses
    hop: float = 10e-6  # latency of a message between machines
    tcp_hop: float = 30e-6  # latency of a TCP message between the CPUs of two machines
    local_hop: float = 10e-6  # latency of a TCP message within a machine
    bucket: float = 25e6  # bytes that DDP sends at a time


@dataclass(frozen=True)
class Model:
    """A model and its speed on one GPU (docs/explanation/speed.md)."""

    name: str
    parameters: int
    tokens: int  # target tokens per step
    rate: float  # target tokens per second
    flags: int = 1  # exchanges of a single number per step, over TCP

    @property
    def step(self) -> float:
        return self.tokens / self.rate


MODELS = (
    Model("Transformer-base, 384 x (64 + 64)", 60_524_544, 24_576, 743_808),
    Model("GPT-2 124M, 32 x 1,024", 124_475_904, 32_768, 500_000),
)


def communication(model: Model, gpus: int, wires: Interconnect) -> float:
    """Seconds to sum the gradients: within each machine; then between machines, where each GPU
    sends its part; then within each machine again. Bandwidth of a ring, latency of a tree."""
    size = FLOAT * model.parameters
    local, machines = min(gpus, wires.node), math.ceil(gpus / wires.node)
    inside = 2 * (local - 1) / local * size / (wires.in_node * wires.efficiency)
    across = 2 * (machines - 1) / machines * (size / local) / (wires.between * wires.efficiency)
    buckets = math.ceil(size / wires.bucket)
    return inside + across + buckets * 2 * math.ceil(math.log2(machines)) * wires.hop


def agreement(model: Model, gpus: int, wires: Interconnect) -> float:
    """Seconds for all processes to agree whether to stop: two rounds of gloo's ring."""
    between = 1 / wires.node if gpus > wires.node else 0.0
    hop = between * wires.tcp_hop + (1 - between) * wires.local_hop
    return model.flags * 2 * (gpus - 1) * hop


def rate(
    model: Model, gpus: int, *, captured: bool, wires: Interconnect, backward: float = 2 / 3
) -> float:
    """Target tokens per second of this many GPUs, each with the batch size of the measurement on
    one GPU.

    Without CUDA graphs, gradients are sent while the rest of the backward pass computes (a fraction
    `backward` of the step), and the CPUs agree while the GPUs wait. With CUDA graphs (captured),
    gradients are sent after the step, and the CPUs agree while the GPUs compute the next one.
    """
    sending, agreeing = communication(model, gpus, wires), agreement(model, gpus, wires)
    if captured:
        seconds = max(model.step + sending, agreeing)
    else:
        seconds = model.step + max(sending - backward * model.step, 0.0) + agreeing
    return gpus * model.tokens / seconds


def forecast_table(gpus: tuple[int, ...] = (1, 8, 64, 1024)) -> str:
    lines = [
        "| model | GPUs | sending, ms | agreeing, ms | kernel by kernel, tokens/s | of linear | "
        "captured, tokens/s | of linear |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    wires = Interconnect()
    for model in MODELS:
        for count in gpus:
            spent = communication(model, count, wires), agreement(model, count, wires)
            rates = [rate(model, count, captured=way, wires=wires) for way in (False, True)]
            shown = [f"{r:,.0f} | {r / (count * model.rate):.0%}" for r in rates]
            lines.append(
                f"| {model.name} | {count:,} | {1e3 * spent[0]:.2f} | {1e3 * spent[1]:.2f} | "
                f"{' | '.join(shown)} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forecast", action="store_true", help="print the table of many GPUs")
    parser.add_argument("--out", type=Path, help="write what was measured, as JSON")
    parser.add_argument("--worker", nargs=2, metavar=("PARALLEL", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], Path(options.worker[1]))
        return
    if options.forecast:
        print(forecast_table())
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        jobs = [("ddp", 1), *((p, n) for p in ("ddp", "fsdp") for n in COUNTS if n > 1)]
        rows = [measure(parallel, processes, folder) for parallel, processes in jobs]
    print(measured_table(rows))
    if options.out:
        facts = {"when": date.today().isoformat(), "torch": torch.__version__, "runs": rows}
        options.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
