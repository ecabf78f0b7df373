"""What is captured and what is not is decided before training, and said."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs.test_runs import SMALL, small

from translucid.core.errors import ConfigError
from translucid.models import MLPConfig, ModelConfig, RecurrentConfig, TransformerConfig
from translucid.runs.recipe import recipe
from translucid.runs.run import train_recipe
from translucid.training import cuda_graphs
from translucid.training.config import TrainingConfig

GPU, CPU = torch.device("cuda"), torch.device("cpu")
SHAPE: dict[str, Any] = {"shape": "encoder", "head": "tag", "vocab": 9, "outputs": 3, "d_model": 8}
LANGUAGE: dict[str, Any] = {"shape": "decoder", "head": "language", "vocab": 9, "tied": False}
TRANSFORMER = TransformerConfig(**SHAPE)

NOT: dict[str, tuple[ModelConfig, dict[str, Any], str]] = {
    "recurrent encoder": (RecurrentConfig(**SHAPE), {}, "a recurrent encoder"),
    "carried state": (
        RecurrentConfig(**LANGUAGE),
        {"carry_state": True},
        "rows that pad a batch",
    ),
    "penalties": (
        RecurrentConfig(**LANGUAGE),
        {"temporal_regularization": 1.0},
        "penalties on activations",
    ),
    "perceptrons": (MLPConfig(inputs=2, outputs=1), {}, "steps of model.kind = mlp"),
    "batch norm": (TransformerConfig(**SHAPE, norm="batch"), {}, "batch norm"),
    "characters": (TransformerConfig(**SHAPE, characters=4), {}, "a model that reads characters"),
}


@pytest.mark.parametrize("case", NOT)
def test_what_cannot_be_captured_is_refused_or_reported(case: str) -> None:
    model, training, words = NOT[case]
    with pytest.raises(
        ConfigError, match=rf"training.cuda_graphs = true: {words}.*; set cuda_graphs to false"
    ):
        cuda_graphs.decide(TrainingConfig(cuda_graphs=True, **training), model, GPU, print)
    said: list[str] = []
    decided = cuda_graphs.decide(TrainingConfig(**training), model, GPU, said.append)
    assert decided.cuda_graphs is False
    (line,) = said
    assert words in line


def test_several_processes_are_captured_on_request_but_shards_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    asked, said = TrainingConfig(cuda_graphs=True), list[str]()
    assert cuda_graphs.decide(asked, TRANSFORMER, GPU, print).cuda_graphs is True
    decided = cuda_graphs.decide(TrainingConfig(), TRANSFORMER, GPU, said.append)
    assert decided.cuda_graphs is False
    (line,) = said
    assert "several processes" in line
    sharded = asked.model_copy(update={"parallel": "fsdp"})
    with pytest.raises(ConfigError, match=r"\(fsdp\)"):
        cuda_graphs.decide(sharded, TRANSFORMER, GPU, print)


def test_steps_are_captured_on_a_gpu_by_default() -> None:
    said: list[str] = []
    for wanted, device, decided in (
        ("auto", GPU, True), (True, GPU, True), (False, GPU, False), ("auto", CPU, False)
    ):  # fmt: skip
        config = TrainingConfig(cuda_graphs=wanted)
        for model in (TRANSFORMER, RecurrentConfig(**LANGUAGE)):
            assert cuda_graphs.decide(config, model, device, said.append).cuda_graphs is decided
    assert said == []


def test_a_cpu_cannot_capture_and_a_run_records_what_was_decided(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"CUDA GPU.* cpu; set cuda_graphs to false"):
        train_recipe(small("tag", "still", cuda_graphs=True), tmp_path / "run", quiet=True)
    train_recipe(small("tag", "still"), tmp_path / "run", quiet=True)
    assert recipe.read(tmp_path / "run/recipe.toml").training.cuda_graphs is False
    assert "cuda_graphs" not in (tmp_path / "run/log.txt").read_text("utf-8")


def test_capture_is_one_of_three_words() -> None:
    parts = {"task": {"kind": "tag"}, "model": SMALL["still"], "data": {"toyland": 9}}
    with pytest.raises(ConfigError, match=r"training.cuda_graphs = 'yes'"):
        recipe.parse(parts | {"training": {"cuda_graphs": "yes"}})
