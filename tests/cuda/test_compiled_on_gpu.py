"""Compiled layers within captured steps: the same numbers, new draws in every step, one program."""

from pathlib import Path

import pytest
import torch
from tests.cuda.test_capture import Training, on_gpu, same_weights
from tests.runs.test_resume import same_runs, stop_and_resume

from translucid.fast.compiled import CompiledLayers
from translucid.runs.batches import Stream
from translucid.runs.run import train_recipe
from translucid.runs.setup import set_up
from translucid.training.cuda_graphs import Captured
from translucid.training.loop import seed_step

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # of torch, from inside its compiler
]


@pytest.mark.parametrize("task", ["translate", "language"])
def test_compiled_and_captured_steps_are_plain_steps(task: str) -> None:
    setting = set_up(on_gpu(task, ema=0.9), lambda _: None)
    runs = [Training(setting, capture=compiled, compile=compiled) for compiled in (False, True)]
    for run in runs:
        run.go()
    plain, fast = runs
    assert [p.loss for p in fast.log] == pytest.approx([p.loss for p in plain.log], rel=1e-4)
    assert [p.norm for p in fast.log] == pytest.approx([p.norm for p in plain.log], rel=1e-3)
    assert not any("does not work here" in line for line in fast.said)
    # A bias of the keys moves all scores of a query alike, which softmax does not see: its gradient
    # is rounding, which Adam makes as large as any.
    same_weights(fast.state, plain.state, but=("qkv.bias", "kv.bias"))


def test_a_compiled_graph_draws_anew_in_every_step_and_the_same_for_the_same_step() -> None:
    setting = set_up(on_gpu("translate", "transformer"), lambda _: None)
    stream = Stream(setting.task, setting.items, setting.recipe)
    batch = next(stream)
    captured = Captured(
        setting.network, setting.task, setting.recipe.training, torch.device("cuda"),
        CompiledLayers(setting.network, print),
    )  # fmt: skip
    losses = []
    for step in (0, 1, 0, 1):
        captured.prepare([batch])
        seed_step(0, step, torch.device("cuda", 0))
        losses.append(float(captured.add(batch, 1.0, last=True)))
    assert losses[:2] == losses[2:]
    assert losses[0] != losses[1]


def test_a_resumed_run_equals_the_uninterrupted_run(tmp_path: Path) -> None:
    chosen = on_gpu(
        "translate", "transformer", compile=True, steps=11, ema=0.9, evaluate_every=4,
        precision="bfloat16",
    )  # fmt: skip
    train_recipe(chosen, tmp_path / "straight", quiet=True)
    stop_and_resume(chosen, tmp_path / "stopped", [1, 2, 4, 1])
    same_runs(tmp_path / "straight", tmp_path / "stopped")
