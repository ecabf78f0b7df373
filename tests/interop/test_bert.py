"""BERT, RoBERTa and DistilBERT against transformers: tiny random models, by head."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.reference import FLOAT32, far, prompts, randomised, save, transformers
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.interop.importing import OpenedNetwork, open_network

SIZES = {"vocab_size": 53, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
         "num_attention_heads": 4, "max_position_embeddings": 32}  # fmt: skip
DISTIL = {"vocab_size": 53, "dim": 24, "hidden_dim": 40, "n_layers": 3, "n_heads": 4,
          "max_position_embeddings": 32}  # fmt: skip
HEADS = ["MaskedLM", "SequenceClassification", "TokenClassification", "Model"]
FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": SIZES | {"type_vocab_size": 2, "pad_token_id": 0},
    "Roberta": SIZES | {"type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5},
    "DistilBert": DISTIL | {"pad_token_id": 0},
}


def made(family: str, head: str, **more: Any) -> Any:
    library = transformers()
    config = getattr(library, f"{family}Config")(**(FAMILIES[family] | more), num_labels=5)
    name = f"{family}Model" if head == "Model" else f"{family}For{head}"
    return randomised(getattr(library, name)(config))


def check_encoder(theirs: Any, folder: Path, bound: float, **segments: Tensor) -> OpenedNetwork:
    opened = open_network(folder)
    ours = opened.network.to(next(theirs.parameters()).dtype)
    ids, mask = prompts(53, left=False)
    ids = ids.masked_fill(~mask, theirs.config.pad_token_id)
    options = {"token_type_ids": segments["segments"]} if segments else {}
    trace = Trace("*")
    with torch.inference_mode():
        reference = theirs(
            input_ids=ids, attention_mask=mask.long(), output_hidden_states=True, **options
        )
        outputs = ours(ids, mask, trace=trace, **segments)
        plain = ours(ids, mask, **segments)
    wanted = reference.logits if "logits" in reference else reference.last_hidden_state
    if wanted.dim() == 3:
        wanted, outputs, plain = wanted[mask], outputs[mask], plain[mask]
    largest = float(wanted.abs().max())
    assert largest > 0.2
    assert far(outputs, wanted, largest) < bound
    assert far(plain, wanted, largest) < bound
    for layer, state in enumerate(reference.hidden_states[1:]):
        ours_state = trace[f"encoder.layers.{layer}.feedforward_residual.norm.output"]
        scale = float(state[mask].abs().max())
        assert far(ours_state[mask], state[mask], scale) < bound, f"layer {layer}"
    return opened


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_reference(tmp_path: Path, family: str, head: str) -> None:
    theirs = made(family, head)
    save(theirs, tmp_path)
    opened = check_encoder(theirs, tmp_path, FLOAT32)
    assert len(opened.plan.labels) == (5 if "Classification" in head else 0)
    if head == "MaskedLM":
        check_encoder(theirs.double(), tmp_path, 1e-10)


def test_segments(tmp_path: Path) -> None:
    theirs = made("Bert", "MaskedLM", layer_norm_eps=0.01, hidden_act="gelu_new")
    save(theirs, tmp_path)
    segments = (torch.arange(11) > 4).long().expand(3, -1)
    check_encoder(theirs, tmp_path, FLOAT32, segments=segments)


def test_old_names(tmp_path: Path) -> None:
    """Without the prefix, with gamma and beta, and with what training left."""
    theirs = made("Bert", "Model")
    save(theirs, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    tensors["embeddings.position_ids"] = torch.arange(32)[None]
    tensors["cls.seq_relationship.weight"] = torch.ones(2, 24)
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    opened = check_encoder(theirs, tmp_path, FLOAT32)
    assert any("cls.seq_relationship.weight" in note for note in opened.notes)


def test_another_head_is_refused_by_name(tmp_path: Path) -> None:
    library = transformers()
    save(library.BertForMultipleChoice(library.BertConfig(**FAMILIES["Bert"])), tmp_path)
    with pytest.raises(InputError, match="BertForMultipleChoice"):
        open_network(tmp_path)


@pytest.mark.parametrize("mode", ["mean_tokens", "cls_token"])
@pytest.mark.parametrize("normalised", [True, False])
def test_sentence_transformers(tmp_path: Path, mode: str, normalised: bool) -> None:
    theirs = made("Bert", "Model")
    save(theirs, tmp_path)
    kinds = ["Transformer", "Pooling", *["Normalize"] * normalised]
    places = ["", "1_Pooling", "2_Normalize"]
    modules = [{"path": places[i], "type": f"sentence_transformers.models.{kind}"}
               for i, kind in enumerate(kinds)]  # fmt: skip
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling").mkdir()
    config = {"word_embedding_dimension": 24, f"pooling_mode_{mode}": True}
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(config))
    ids, mask = prompts(53, left=False)
    with torch.inference_mode():
        states = theirs(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        ours = open_network(tmp_path).network(ids, mask)
    weight = mask.float()[..., None]
    mean = (states * weight).sum(1) / weight.sum(1)
    wanted = mean if mode == "mean_tokens" else states[:, 0]
    wanted = wanted / wanted.norm(dim=-1, keepdim=True) if normalised else wanted
    assert far(ours, wanted, float(wanted.abs().max())) < FLOAT32
    config["pooling_mode_max_tokens"] = True
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="a different kind of pooling"):
        open_network(tmp_path)
