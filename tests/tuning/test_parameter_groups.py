"""Weights that are frozen stay to the bit and cost no optimizer state; learning rates by part."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.tuning.small import NET, REVIEWS, TINY, classifier
from torch import Tensor

import translucid as tl
from translucid.core.errors import ConfigError
from translucid.core.weights import own_tensors
from translucid.models import build, config_from
from translucid.tasks import model_folder
from translucid.training.config import TrainingConfig
from translucid.training.parameter_groups import freeze
from translucid.training.state import State

SIZES = {"kind": "transformer", "vocab": 20, **NET}
LANGUAGE = SIZES | {"shape": "decoder", "head": "language"}


def tuned(out: Path, **options: Any) -> dict[str, Tensor]:
    run: dict[str, Any] = {**TINY, "train": REVIEWS, "start_from": classifier(), **options}
    return own_tensors(tl.train("classify", out, **run).network)


def checkpoint(run: Path, step: int) -> dict[str, Tensor]:
    return load_file(run / "state" / f"step-{step:08}" / "tensors.safetensors")


@pytest.mark.slow
def test_frozen_weights_stay_and_a_resume_is_exact(tmp_path: Path) -> None:
    source = own_tensors(model_folder.load(classifier()).network)
    tuned(tmp_path / "whole", freeze=["encoder.*"], steps=3, warmup=0)
    whole = checkpoint(tmp_path / "whole", 3)
    for name, tensor in source.items():
        same = torch.equal(whole[f"network.{name}"], tensor)
        assert same == name.startswith("encoder."), name
    moments = [name for name in whole if name.endswith("exp_avg")]
    assert len(moments) == sum(name.startswith("head.") for name in source)
    tuned(
        tmp_path / "stopped", freeze=["encoder.*"], steps=3, warmup=0, callbacks=lambda line: False
    )
    tl.resume(tmp_path / "stopped", quiet=True)
    again = checkpoint(tmp_path / "stopped", 3)
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_learning_rate_factors_scale_the_steps(tmp_path: Path) -> None:
    plain: dict[str, Any] = {
        "optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0, "steps": 1, "warmup": 0,
        "learning_rate": 0.5,
    }  # fmt: skip
    before = own_tensors(model_folder.load(classifier()).network)
    one = tuned(tmp_path / "one", **plain)
    other = tuned(
        tmp_path / "other", **plain, layer_decay=0.5, learning_rates={"head.*": 4.0, "*.bias": 0.0}
    )
    factors = {"head": 4.0, "encoder.layers.1": 0.5, "encoder.layers.0": 0.25,
               "encoder.embedding": 0.125, "encoder.final_norm": 1.0}  # fmt: skip
    for name, tensor in other.items():
        factor = next(factor for part, factor in factors.items() if name.startswith(part))
        factor = 0.0 if name.endswith(".bias") else factor
        moved = (one[name] - before[name]) * factor
        torch.testing.assert_close(tensor - before[name], moved, rtol=1e-3, atol=1e-6)
    assert any((one[name] - before[name]).abs().max() > 1e-3 for name in one)


def test_a_tied_table_has_the_name_of_the_head_too() -> None:
    network = build(config_from(LANGUAGE))
    freeze(network, ["head"])
    frozen = [name for name, p in network.named_parameters() if not p.requires_grad]
    assert frozen == ["decoder.embedding.table.weight"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"freeze": ["encodr.*"]}, "training.freeze: 'encodr.*' .* encoder"),
        ({"freeze": ["*"]}, "freeze = .*to train"),
        ({"learning_rates": {"heads": 2.0}}, "training.learning_rates: 'heads' .* head"),
    ],
)
def test_patterns_that_match_no_weight_are_refused(options: dict[str, Any], words: str) -> None:
    network = build(config_from(SIZES | {"shape": "encoder", "head": "classify", "outputs": 2}))
    config = TrainingConfig(**options)
    with pytest.raises(ConfigError, match=words):
        State(network, config)
