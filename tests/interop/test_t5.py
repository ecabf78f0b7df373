"""T5, T5 1.1 and mT5 against transformers: tiny random models."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.reference import randomised, save, transformers
from tests.interop.seq2seq_reference import check_encoder_decoder, check_generation
from tests.tiny.dealt import dealt

from translucid.core.errors import InputError
from translucid.interop.importing import open_network

SIZES = {"vocab_size": 53, "d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 3,
         "num_decoder_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}  # fmt: skip
GATED = {"feed_forward_proj": "gated-gelu"}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("T5", {}),
    "t5 with few buckets": ("T5", {"relative_attention_num_buckets": 6,
        "relative_attention_max_distance": 7, "num_decoder_layers": None,
        "layer_norm_epsilon": 0.01}),
    "t5 with gelu": ("T5", {"feed_forward_proj": "gelu"}),
    "t5 1.1": ("T5", GATED | {"tie_word_embeddings": False}),
    "t5 with gates and one table": ("T5", {"feed_forward_proj": "gated-silu"}),
    "mt5": ("MT5", GATED),
}  # fmt: skip


def made(name: str, **more: Any) -> Any:
    family, options = MODELS[name]
    library = transformers()
    config = getattr(library, f"{family}Config")(**(SIZES | options | more))
    model = randomised(getattr(library, f"{family}ForConditionalGeneration")(config))
    with torch.no_grad():
        for place, weight in model.named_parameters():
            if place.endswith("Attention.q.weight"):  # drawn smaller, as scores are not divided
                weight.mul_(SIZES["d_kv"] ** -0.5)
    return model


@pytest.mark.parametrize("name", dealt(MODELS, share=3, rest=pytest.mark.slow))
def test_equals_the_reference(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    save(theirs, tmp_path)
    opened = check_encoder_decoder(theirs, tmp_path)
    check_generation(theirs, opened.network, start=[0], eos=1, pad=0)


def test_a_separate_head(tmp_path: Path) -> None:
    """As 1.1 was published: the configuration says that nothing is tied, and there are copies of
    the table, and a bias of cross-attention that nobody reads."""
    theirs = made("t5 1.1")
    save(theirs, tmp_path)
    head = torch.randn(53, 24, generator=torch.Generator().manual_seed(3))
    theirs.lm_head.weight = torch.nn.Parameter(head.clone())
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    tensors |= {"lm_head.weight": head, unread: torch.ones(32, 4),
                "encoder.embed_tokens.weight": tensors["shared.weight"].clone()}  # fmt: skip
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    config.pop("scale_decoder_outputs", None)
    (tmp_path / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    opened = check_encoder_decoder(theirs, tmp_path)
    assert opened.plan.config.logit_scale == 1  # type: ignore[union-attr]
    assert any("relative_attention_bias" in note for note in opened.notes)


def test_unsupported_activations_are_refused(tmp_path: Path) -> None:
    save(made("t5"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"feed_forward_proj": "gated-tanh"}))
    with pytest.raises(InputError, match=r"feed_forward_proj = 'gated-tanh'.* relu"):
        open_network(tmp_path)
