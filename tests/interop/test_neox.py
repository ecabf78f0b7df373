"""GPT-NeoX against transformers: tiny random models."""

from pathlib import Path
from typing import Any

import pytest
from tests.interop.reference import check_decoder, randomised, save, transformers

SIZES = {"vocab_size": 53, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3,
         "num_attention_heads": 4, "max_position_embeddings": 64}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "as published": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                         "partial_rotary_factor": 0.25}},
    "one after the other": {"use_parallel_residual": False, "layer_norm_eps": 0.01},
    "all dimensions": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0,
                                           "partial_rotary_factor": 1.0}},
    "tied, without biases": {"tie_word_embeddings": True, "attention_bias": False},
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_equals_the_reference(tmp_path: Path, name: str) -> None:
    library = transformers()
    config = library.GPTNeoXConfig(**(SIZES | MODELS[name]))
    theirs = randomised(library.GPTNeoXForCausalLM(config))
    save(theirs, tmp_path)
    check_decoder(theirs, tmp_path)
