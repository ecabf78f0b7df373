"""Saved and loaded, a model gives the same logits, and weights that were one are still one."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_model, save_model
from tests.invariants.cases import config_of, every, model_of, random_text, whole

from translucid.models import Network, build

pytestmark = [
    pytest.mark.usefixtures("no_grad"),
    pytest.mark.invariant("save, load = same logits"),
]


def tied(model: Network) -> list[set[str]]:
    """The names that share one storage."""
    groups: dict[int, set[str]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        groups.setdefault(weight.data_ptr(), set()).add(name)
    return sorted((group for group in groups.values() if len(group) > 1), key=sorted)


@every()
def test_state_dict(name: str) -> None:
    model, text = model_of(name), random_text(model_of(name))
    other = build(config_of(name)).double().eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(whole(other, text), whole(model, text))
    assert tied(other) == tied(model)


@every()
def test_safetensors(name: str, tmp_path: Path) -> None:
    model, text = model_of(name), random_text(model_of(name))
    save_model(model, str(tmp_path / "model.safetensors"))
    other = build(config_of(name)).double().eval()
    load_model(other, tmp_path / "model.safetensors")
    assert torch.equal(whole(other, text), whole(model, text))
    assert tied(other) == tied(model)


@every("decoder", "encoder-decoder")
def test_tied_weights_stay_tied(name: str) -> None:
    config = config_of(name)
    model = build(config)
    table = model.decoder.embedding.table
    for changed in (model, model.double(), model.float().train()):
        assert (changed.head.linear.weight is table.weight) == config.tied
        if config.shape == "encoder-decoder":
            shared = changed.encoder.embedding.table.weight is table.weight
            assert shared == (config.target_vocab is None)
