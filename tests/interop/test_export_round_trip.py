"""From transformers to here and back: every tensor of its file, bit for bit, by the same rules."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.interop.reference import randomised, save, transformers

from translucid.core.weights import own_tensors
from translucid.interop.export.huggingface import family_of, tensors_of
from translucid.interop.export.rewrites import Weights
from translucid.interop.importing import open_network
from translucid.interop.placing import is_ignored
from translucid.models.transformer_config import TransformerConfig

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 24, "max_position_embeddings": 30}  # fmt: skip
TWO = {"vocab_size": 40, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1,
       "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 24,
       "decoder_ffn_dim": 24, "max_position_embeddings": 30, "pad_token_id": 1,
       "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 2}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
        "original_max_position_embeddings": 16}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", GROUPED | {"rope_parameters": YARN}),
    "llama, tied, biases": (
        "LlamaForCausalLM",
        SIZES | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    ),
    "mistral": ("MistralForCausalLM", GROUPED | {"sliding_window": 5}),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", GROUPED | {"head_dim": 6}),
    "gpt_neox": ("GPTNeoXForCausalLM", SIZES | {"num_attention_heads": 2, "rope_parameters": {
        "rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}}),
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 4,
                                 "n_positions": 30}),
    "bert": ("BertForSequenceClassification", SIZES | {"num_labels": 3}),
    "bert, masked tokens": ("BertForMaskedLM", SIZES),
    "roberta": ("RobertaForTokenClassification", SIZES | {"pad_token_id": 1}),
    "distilbert": ("DistilBertForSequenceClassification",
                   {"vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24}),
    "marian": ("MarianMTModel", TWO | {"scale_embedding": True}),
    "bart": ("BartForConditionalGeneration", TWO),
    "mbart": ("MBartForConditionalGeneration", TWO | {"scale_embedding": True}),
    "pegasus": ("PegasusForConditionalGeneration", TWO),
    "m2m_100": ("M2M100ForConditionalGeneration", TWO),
    "t5": ("T5ForConditionalGeneration",
           {"vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2,
            "num_heads": 4}),
    "t5 1.1": ("T5ForConditionalGeneration",
               {"vocab_size": 40, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2,
                "num_heads": 4, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_comes_back(tmp_path: Path, name: str) -> None:
    library = transformers()
    kind, options = MODELS[name]
    cls = getattr(library, kind)
    save(randomised(cls(cls.config_class(**options))), tmp_path)
    opened = open_network(tmp_path)
    config = opened.network.config
    assert isinstance(config, TransformerConfig)
    fit = family_of(Weights(config, own_tensors(opened.network)), foreign=True)
    assert not fit.weights.notes  # nothing had to be rewritten
    written, stored = tensors_of(fit), load_file(tmp_path / "model.safetensors")
    ignored = {key for key in stored if is_ignored(key, opened.plan.ignored)}
    computed = {key for key in written if is_ignored(key, fit.plan.ignored)}
    assert written.keys() - computed == stored.keys() - ignored
    assert all(torch.equal(written[key], stored[key]) for key in written.keys() - computed)
    described = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert fit.description.config["model_type"] == described["model_type"]
    assert fit.description.config["architectures"] == described["architectures"]
