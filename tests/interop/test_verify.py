"""`import --verify` names the first layer that differs from the reference."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.config_keys import make
from tests.interop.encoders import WORDS, bert, roberta, sentence_bert, write_word_pieces
from tests.interop.reference import save
from tests.interop.test_llama import MODELS, as_gguf
from tests.interop.test_llama import made as made_llama
from tests.interop.writers import LLAMA2C, llama2c_weights, write_llama2c
from tests.tiny.dealt import dealt

from translucid.interop import verify
from translucid.interop.importing import import_model, open_network
from translucid.interop.kinds import read_source
from translucid.interop.verify import differences, first_wrong
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.model_folder import Bundle


def of_family(family: str, folder: Path, **tokens: int) -> None:
    """With the tokenizer of BERT, which does not affect the layers."""
    make(family, folder, vocab_size=len(WORDS), pad_token_id=0, **tokens)
    write_word_pieces(folder)


def bart(folder: Path, family: str = "bart") -> None:
    of_family(family, folder, bos_token_id=2, eos_token_id=3, decoder_start_token_id=2)


def classifier(folder: Path) -> None:
    bert(folder, "ForSequenceClassification", num_labels=3)


MADE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "bert": (bert, "encoder"), "roberta": (roberta, "encoder"),
    "classifier": (classifier, "encoder"),
    "distilbert": (lambda folder: of_family("distilbert tagger", folder), "encoder"),
    "sentence": (sentence_bert, "encoder"), "bart": (bart, "decoder"),
    "mbart": (lambda folder: bart(folder, "mbart"), "encoder"),
    "pegasus": (lambda folder: bart(folder, "pegasus"), "decoder"),
    "m2m100": (lambda folder: bart(folder, "m2m_100"), "decoder"),
    "t5": (lambda folder: of_family("t5", folder, eos_token_id=3, decoder_start_token_id=0),
           "decoder"),
}  # fmt: skip


@pytest.mark.parametrize("kind", dealt(MADE, share=3, rest=pytest.mark.slow))
def test_verify_names_the_layer_of_a_wrong_weight(tmp_path: Path, kind: str) -> None:
    write, side = MADE[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(tmp_path)
    held = import_model(tmp_path)
    compared = differences(read_source(tmp_path), held)
    assert first_wrong(compared) is None, list(map(str, compared))
    both = held.network.config.shape == "encoder-decoder"  # type: ignore[union-attr]
    assert len(compared) == (7 if both else 4)  # embedding and two layers of each stack, outputs
    assert all(difference.scale > 0.05 for difference in compared)
    with torch.no_grad():
        held.network.get_parameter(f"{side}.layers.1.feedforward.output.weight")[0, 0] += 1
    wrong = first_wrong(differences(read_source(tmp_path), held))
    assert wrong is not None
    assert wrong.name == (f"{side}, " if both else "") + "after layer 1, the last"
    with torch.no_grad():
        held.network.get_parameter(f"{side}.layers.0.self_attention.output.weight")[0, 0] += 1
    wrong = first_wrong(differences(read_source(tmp_path), held))
    assert wrong is not None
    assert wrong.name == (f"{side}, " if both else "") + "after layer 0"


def compare_ids(path: Path, network: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of ids in the place of a text, for files without a tokenizer."""
    ids = torch.tensor([[1, 5, 2, 9, 3, 3, 7]])
    monkeypatch.setattr(verify, "inputs_of", lambda held, text: {"ids": ids})
    return differences(read_source(path), Bundle(network, "language"))


@pytest.mark.parametrize("version", [0, 2])
def test_verify_computes_llama2c_with_the_reference(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    write_llama2c(tmp_path / "m.bin", LLAMA2C, llama2c_weights(LLAMA2C, version == 0), version)
    network = open_network(tmp_path / "m.bin").network
    compared = compare_ids(tmp_path / "m.bin", network, monkeypatch)
    assert first_wrong(compared) is None, list(map(str, compared))
    assert isinstance(network.config, TransformerConfig)
    assert len(compared) == network.config.layers + 2
    with torch.no_grad():
        network.get_parameter("decoder.layers.0.self_attention.qkv.weight")[0] += 1
    wrong = first_wrong(compare_ids(tmp_path / "m.bin", network, monkeypatch))
    assert wrong is not None
    assert wrong.name.startswith("after layer 0")


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_verify_computes_gguf_with_the_reference(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(made_llama(name), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    path = tmp_path / "model.gguf"
    as_gguf(tmp_path, path, MODELS[name][0].lower(), config)
    network = open_network(path).network
    compared = compare_ids(path, network, monkeypatch)
    assert first_wrong(compared) is None, list(map(str, compared))
    with torch.no_grad():
        network.get_parameter("decoder.layers.1.self_attention.qkv.weight")[0] += 1
    wrong = first_wrong(compare_ids(path, network, monkeypatch))
    assert wrong is not None
    assert wrong.name.startswith("after layer 1")
