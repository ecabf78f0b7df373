"""Compare the training speed of a small Transformer on a CPU with transformers and
torch.nn.Transformer.

    python bench/train_cpu.py [--threads 2] [--rounds 9] [--compiled] [--out cpu-train.json]

All have the sizes of the CPU row of `train.py`, the same dropout, fused AdamW and clipping. They
take steps in turn, in one process, so that other load on the machine affects all alike. The ratio
of the medians counts: of processor time with one thread, otherwise of wall-clock time. For
Translucid, it computes what `translucid train` computes in a step (the same gradients and update),
without files.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from train import packages, workloads
from train_peers import marian, texts, torch_transformer

from translucid.fast.dropout import LargeDropout
from translucid.models import TransformerConfig, build
from translucid.tasks.loss import cross_entropy

NEVER = (0, 1, 3)  # padding, unknown, start: tokens that no translation contains


def ours(work: dict[str, Any]) -> tuple[nn.Module, Callable[[], Tensor]]:
    sizes = {
        name: work[name] for name in ("vocab", "d_model", "heads", "layers", "d_ff", "dropout")
    }
    model = build(
        TransformerConfig(
            shape="encoder-decoder", head="language", positions="sinusoidal", activation="relu",
            **sizes,
        )
    )  # fmt: skip
    source, target, targets = texts(work), texts(work), texts(work)
    dropout = LargeDropout(model)

    def loss() -> Tensor:
        with dropout.used():  # without masks, as in training on texts without padding
            logits = model(source=source, target=target)
        total = cross_entropy(logits, targets, smoothing=work["smoothing"], never=NEVER)
        return total / targets.numel()

    return model, loss


def stepper(
    make: Callable[[dict[str, Any]], tuple[nn.Module, Callable[[], Tensor]]],
    work: dict[str, Any],
    *,
    compiled: bool = False,
) -> Callable[[], None]:
    torch.manual_seed(0)
    model, loss = make(work)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    called = torch.compile(loss) if compiled else loss

    def step() -> None:
        called().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--compiled", action="store_true", help="the others compiled as well")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    work = asdict(workloads("cpu")[0])
    others = {"transformers": marian, "torch.nn.Transformer": torch_transformer}
    steps = {"ours": stepper(ours, work)} | {n: stepper(make, work) for n, make in others.items()}
    if options.compiled:
        for name, make in others.items():
            steps[f"{name}, compiled"] = stepper(make, work, compiled=True)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(options.rounds + 1):
        for name, step in steps.items():
            began = clock()
            step()
            if turn:  # the first turn compiles and loads, so it is not counted
                seconds[name].append(clock() - began)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        rate = work["rows"] * work["length"] / median
        print(f"{name}: {rate:,.0f} target tokens/s, ours is {median / medians['ours']:.2f} times")
    if options.out:
        facts = {
            "machine": platform.machine(), "threads": options.threads, "packages": packages(),
            "when": date.today().isoformat(), "work": work, "seconds": seconds,
        }  # fmt: skip
        options.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
