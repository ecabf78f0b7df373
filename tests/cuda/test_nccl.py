"""Gradients that NCCL carries: a group of one on one GPU computes what no group computes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SMALL = [
    "data.toyland=200", "tokenizer.kind=word", "model.d_model=16", "model.heads=2",
    "model.layers=1", "model.dropout=0.0", "training.batch_tokens=300", "training.log_every=1",
    "training.evaluate_every=3", "training.device=cuda", "training.warmup=1", "training.steps=6",
    "training.optimizer=sgd", "training.learning_rate=0.1", "training.cuda_graphs=false",
]  # fmt: skip
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]


def train(how: list[str], out: Path, *more: str) -> str:
    command = [*how, "-m", "translucid", "train", "classify", "--out", str(out), *SMALL, *more]
    environment = os.environ | {"NCCL_DEBUG": "VERSION", "MASTER_PORT": "0"}
    ran = subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environment, timeout=240
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def losses(run: Path) -> list[float]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_group_of_one_process_computes_the_same(parallel: str, tmp_path: Path) -> None:
    train([sys.executable], tmp_path / "alone")
    said = train(TORCHRUN, tmp_path / "group", f"--parallel={parallel}")
    assert "NCCL version" in said
    assert losses(tmp_path / "group") == pytest.approx(losses(tmp_path / "alone"), rel=1e-6)
    ours, theirs = (load_file(tmp_path / r / "last/model.safetensors") for r in ("alone", "group"))
    for name, weight in ours.items():
        torch.testing.assert_close(theirs[name], weight, rtol=0, atol=1e-6)
