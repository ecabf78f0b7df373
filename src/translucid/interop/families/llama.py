"""Llama and relatives that differ only in options: Mistral, Qwen2, Qwen3, SmolLM.

RMS norm before each sub-layer, rotary positions, SwiGLU, grouped-query attention. In Hugging Face's
layout, rotary positions pair each dimension with one in the other half of the head (i and i + d/2);
in llama2.c, llama.cpp's Llama files and Translucid, they pair neighbours (2i and 2i + 1).
"""

from collections.abc import Mapping
from typing import Any

from translucid.interop.families.plan import (
    GATED,
    Description,
    ForeignModel,
    ImportPlan,
    Options,
    described,
    effective,
    name_of,
)
from translucid.interop.families.rotary import rotary_keys, rotary_options
from translucid.interop.families.stack import Names, stack_rules
from translucid.models.transformer_config import TransformerConfig

PERMUTED = "rows of queries and keys reordered: Translucid's rotary positions pair neighbours"
HUGGING_FACE = Names(
    {
        "embedding": "model.embed_tokens",
        "final_norm": "model.norm",
        "attention_norm": "model.layers.{}.input_layernorm",
        "query": "model.layers.{}.self_attn.q_proj",
        "key": "model.layers.{}.self_attn.k_proj",
        "value": "model.layers.{}.self_attn.v_proj",
        "query_norm": "model.layers.{}.self_attn.q_norm",
        "key_norm": "model.layers.{}.self_attn.k_norm",
        "output": "model.layers.{}.self_attn.o_proj",
        "feedforward_norm": "model.layers.{}.post_attention_layernorm",
        "gate": "model.layers.{}.mlp.gate_proj",
        "up": "model.layers.{}.mlp.up_proj",
        "down": "model.layers.{}.mlp.down_proj",
    },
    halves=True,
)
KEYS = {
    "vocab": "vocab_size",
    "d_model": "hidden_size",
    "d_ff": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "d_head": "head_dim",
    "norm_eps": "rms_norm_eps",
}
IGNORED = (r".*rotary_emb\.inv_freq",)
COMMON: Mapping[str, Any] = {  # the same for all relatives, in every format
    "shape": "decoder", "head": "language", "norm": "rms", "placement": "pre",
    "embedding_scale": False, "dropout": 0.0, "bias": False,
}  # fmt: skip


def from_huggingface(model: ForeignModel) -> ImportPlan:
    """Make an import plan from a config.json; `model_type` sets the defaults."""
    config, kind = model.config, model.config.text("model_type")
    heads = config.whole("num_attention_heads")
    d_head = 128 if kind == "qwen3" else max(config.whole("hidden_size") // heads, 1)
    usual = {"kv_heads": _kv_heads(config, kind, heads), "d_head": d_head, "norm_eps": 1e-6}
    config.ignore("max_position_embeddings", *UNREAD[kind])
    attention_bias = kind == "qwen2"
    if kind in ("llama", "qwen3"):
        attention_bias = config.flag("attention_bias", False)
    else:
        config.must_be("attention_bias", attention_bias, "biases that this family does not have")
    if kind != "llama":
        config.must_be("mlp_bias", False, "biases that this family does not have")
    head = model.output_head("lm_head.weight", "model.embed_tokens.weight", default=False)
    made = model.transformer(
        activation=config.choice("hidden_act", GATED, "silu"),
        qkv_bias=attention_bias,
        attention_output_bias=attention_bias and kind != "qwen2",
        feedforward_bias=config.flag("mlp_bias", False),
        qk_norm=kind == "qwen3",
        tied=head.tied,
        window=_window(config, kind),
        **config.keys(KEYS, usual),
        **COMMON,
        **rotary_options(config),
    )
    rules = stack_rules(made, "decoder", made.layers, HUGGING_FACE) + head.rules
    return ImportPlan(
        kind, "language", made, rules, (*IGNORED, *head.ignored), notes=(PERMUTED, *head.notes)
    )  # fmt: skip


def _kv_heads(config: Options, kind: str, heads: int) -> int:
    """The default number of key/value heads."""
    usual = {"mistral": 8, "qwen2": 32, "qwen3": 32}
    return heads if config.has("num_key_value_heads") else usual.get(kind, heads)


# Keys of some relatives that their networks do not read.
_QWEN = ("max_window_layers", "use_sliding_window", "sliding_window")
UNREAD = {"llama": ("pretraining_tp", "max_sequence_length"), "mistral": (), "qwen2": _QWEN,
          "qwen3": _QWEN}  # fmt: skip
ARCHITECTURES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def to_huggingface(c: TransformerConfig, length: int, kind: str) -> Description:
    """Describe a model as one of these families. length: the expected length of texts."""
    values = effective(c)
    config: dict[str, Any] = {
        "model_type": kind,
        "architectures": [f"{ARCHITECTURES[kind]}ForCausalLM"],
        **described(c, KEYS),
        "hidden_act": name_of(c.activation, GATED),
        "tie_word_embeddings": c.tied,
        "max_position_embeddings": length,
        **rotary_keys(TransformerConfig(**(c.model_dump() | {"rotary_fraction": 1.0}))),
    }
    if kind in ("llama", "qwen3"):
        config["attention_bias"] = values["qkv_bias"] or values["attention_output_bias"]
    if kind == "llama":
        config["mlp_bias"] = values["feedforward_bias"]
    if kind == "mistral":
        config["sliding_window"] = c.window
    elif c.window is not None and kind != "llama":
        config |= {
            "sliding_window": c.window, "use_sliding_window": True, "max_window_layers": 0,
            "layer_types": ["sliding_attention"] * c.layers,
        }  # fmt: skip
    return Description(config)


def _window(config: Options, kind: str) -> int | None:
    """The attention window, which must be the same in all layers."""
    if kind == "llama":
        return None
    if kind == "mistral":
        config.ignore("layer_types")
        off = config.has("sliding_window") and config.get("sliding_window") is None  # null
        return None if off else config.whole("sliding_window", 4096)
    types = config.get("layer_types", [])
    if not isinstance(types, list) or len({str(t) for t in types}) > 1:
        config.unsupported("layer_types that differ between layers")
    windowed = types[:1] == ["sliding_attention"]
    used = config.flag("use_sliding_window", False) and not types
    if used and config.whole("max_window_layers", 28) < config.whole("num_hidden_layers"):
        config.unsupported("sliding_window in some layers only")
    return config.whole("sliding_window", 4096) if windowed else None
