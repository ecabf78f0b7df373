"""GPT-2 against transformers: tiny random models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.reference import check_decoder, greedy, randomised, save, transformers

from translucid.core.errors import InputError
from translucid.interop.importing import open_network

SIZES = {"vocab_size": 53, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 32,
         "bos_token_id": 1, "eos_token_id": 1}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "as published": {},
    "narrow": {"n_inner": 40, "layer_norm_epsilon": 0.01},
    "untied": {"tie_word_embeddings": False},
    "other activations": {"activation_function": "gelu"},
    "relu": {"activation_function": "relu"},
}


def made(name: str) -> Any:
    library = transformers()
    return randomised(library.GPT2LMHeadModel(library.GPT2Config(**(SIZES | MODELS[name]))))


@pytest.mark.parametrize("name", MODELS)
def test_equals_the_reference(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    save(theirs, tmp_path)
    opened = check_decoder(theirs, tmp_path)
    assert greedy(opened.network, [1, 7], 12) == greedy(theirs, [1, 7], 12)


@pytest.mark.parametrize("name", ["as published", "untied"])
def test_equals_the_reference_in_float64(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    save(theirs, tmp_path)
    check_decoder(theirs.double(), tmp_path, bound=1e-10)


def test_without_its_prefix_and_with_masks(tmp_path: Path) -> None:
    """As the first files on the hub are."""
    theirs = made("as published")
    save(theirs, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors = {name.removeprefix("transformer."): t for name, t in tensors.items()}
    tensors |= {"h.0.attn.bias": torch.ones(1, 1, 32, 32), "h.2.attn.masked_bias": torch.ones(())}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    opened = check_decoder(theirs, tmp_path)
    assert "ignored tensors: h.{}.attn.bias, h.{}.attn.masked_bias" in opened.notes


def test_a_head_that_differs_from_the_table_is_kept(tmp_path: Path) -> None:
    """Also where tie_word_embeddings is true; an equal copy is ignored."""
    save(made("as published"), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    for head, tied in (
        (tensors["transformer.wte.weight"].clone(), True),
        (torch.ones(53, 24), False),
    ):
        stored = tensors | {"lm_head.weight": head}
        save_file(stored, tmp_path / "model.safetensors", metadata={"format": "pt"})
        opened = open_network(tmp_path)
        assert opened.network.config.model_dump()["tied"] is tied
        assert any("are not tied" in note for note in opened.notes) is not tied
        if not tied:
            assert torch.equal(opened.network.state_dict()["head.linear.weight"], head)


@pytest.mark.parametrize(
    "key", ["scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"]
)
def test_other_attention_is_refused(tmp_path: Path, key: str) -> None:
    library = transformers()
    save(library.GPT2LMHeadModel(library.GPT2Config(**SIZES, **{key: True})), tmp_path)
    with pytest.raises(InputError, match=f"{key} = 'True'"):
        open_network(tmp_path)
