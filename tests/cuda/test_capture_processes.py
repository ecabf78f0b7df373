"""Captured steps of several processes compute what plain steps of one process compute.

NCCL carries gradients between GPUs, one process on each, so with one GPU a group of one is tried,
and gloo carries those of two processes that share it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from tests.runs.test_runs import small

from translucid.core.weights import own_tensors
from translucid.runs.batches import Stream
from translucid.runs.setup import set_up
from translucid.training.distributed import ALONE, Processes
from translucid.training.loop import TrainingProgress, Watchers, train
from translucid.training.state import State

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def work(out: Path, changed: dict[str, Any]) -> None:
    """A run without a folder; the first process leaves its losses and weights."""
    # Few tokens: some batches have fewer rows than there are processes.
    chosen = {"device": "cuda:0", "batch_tokens": 56, "steps": 12, "optimizer": "adamw", "ema": 0.9}
    recipe = small("translate", "still", **(chosen | changed))
    setup, processes = set_up(recipe, print), ALONE
    assert setup.recipe.training.cuda_graphs is changed["cuda_graphs"]
    if dist.is_initialized():
        processes = Processes(dist.get_rank(), dist.get_world_size(), "ddp")
    log: list[TrainingProgress] = []
    state = State(setup.network, setup.recipe.training, processes)
    # The batches are those of a captured run in any case.
    planned = setup.recipe.training.model_copy(update={"cuda_graphs": True, "packing": False})
    of_captured = setup.recipe.model_copy(update={"training": planned})
    stream = Stream(setup.task, setup.items, of_captured, processes=processes)
    watchers = Watchers(log.append)
    train(state, setup.task, stream, setup.valid[:2], setup.recipe.training, watchers)
    if processes.main:
        tensors = {name: t.contiguous() for name, t in own_tensors(state.network).items()}
        save_file(tensors, out)
        facts = {"losses": [p.loss for p in log], "norms": [p.norm for p in log]}
        out.with_suffix(".json").write_text(json.dumps(facts))


def run(out: Path, backend: str | None, processes: int, **changed: Any) -> dict[str, Any]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(torchrun if backend else []), __file__, str(out), str(backend)]
    root = str(Path(__file__).parents[2])
    environment = os.environ | {
        "MASTER_PORT": "0", "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    }  # fmt: skip
    ran = subprocess.run(
        [*command, json.dumps(changed)], capture_output=True, encoding="utf-8", env=environment,
        timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    facts: dict[str, Any] = json.loads(out.with_suffix(".json").read_text("utf-8"))
    return facts | {"weights": load_file(out)}


@pytest.mark.parametrize(("backend", "processes"), [("cpu:gloo,cuda:nccl", 1), ("gloo", 2)])
@pytest.mark.parametrize("more", [{}, {"accumulate": 3}, {"compile": True}], ids=str)
def test_captured_steps_of_a_group_are_plain_steps_of_one_process(
    backend: str, processes: int, more: dict[str, Any], tmp_path: Path
) -> None:
    accumulate = {"accumulate": more.get("accumulate", 1)}
    plain = run(tmp_path / "plain", None, 1, cuda_graphs=False, **accumulate)
    captured = run(tmp_path / "group", backend, processes, cuda_graphs=True, **more)
    assert captured["losses"] == pytest.approx(plain["losses"], rel=1e-3)
    assert captured["norms"] == pytest.approx(plain["norms"], rel=5e-3)
    for name, weight in plain["weights"].items():
        if not name.endswith("qkv.bias"):  # only rounding, see docs/guides/processes.md
            torch.testing.assert_close(captured["weights"][name], weight, rtol=1e-2, atol=2e-3)


if __name__ == "__main__":
    file, backend, changed = sys.argv[1:]
    if backend != "None":
        dist.init_process_group(backend)
    work(Path(file), json.loads(changed))
    if backend != "None":
        dist.destroy_process_group()
