"""Llama and its relatives, which differ in options only: Mistral, Qwen2, Qwen3, SmolLM.

RMS norm before each sub-layer, rotary positions, SwiGLU, grouped heads. Hugging Face keeps queries
and keys so that halves of a head turn, llama2.c and the Llama files of llama.cpp in pairs, as here.
"""

from collections.abc import Mapping
from typing import Any

import torch

from translucid.core.errors import InputError
from translucid.interop.families.options import GATED, Options, name_of
from translucid.interop.families.plan import (
    Description,
    Plan,
    check_layers,
    is_tied,
    tie_notes,
    transformer,
)
from translucid.interop.families.rotary import rotary_keys, rotary_options
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import Rule, rule
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.norms import EPSILON

PERMUTED = "rows of queries and keys reordered: halves of a head that turn are pairs here"
TIED = "the output head is the embedding table"
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
GGUF_MODULES = {
    "embedding": "token_embd",
    "final_norm": "output_norm",
    "attention_norm": "blk.{}.attn_norm",
    "query": "blk.{}.attn_q",
    "key": "blk.{}.attn_k",
    "value": "blk.{}.attn_v",
    "query_norm": "blk.{}.attn_q_norm",
    "key_norm": "blk.{}.attn_k_norm",
    "output": "blk.{}.attn_output",
    "feedforward_norm": "blk.{}.ffn_norm",
    "gate": "blk.{}.ffn_gate",
    "up": "blk.{}.ffn_up",
    "down": "blk.{}.ffn_down",
}
LLAMA2C = Names(
    {
        "embedding": "tok_embeddings",
        "final_norm": "norm",
        "attention_norm": "layers.{}.attention_norm",
        "query": "layers.{}.attention.wq",
        "key": "layers.{}.attention.wk",
        "value": "layers.{}.attention.wv",
        "output": "layers.{}.attention.wo",
        "feedforward_norm": "layers.{}.ffn_norm",
        "gate": "layers.{}.feed_forward.w1",
        "up": "layers.{}.feed_forward.w3",
        "down": "layers.{}.feed_forward.w2",
    }
)
IGNORED = (r".*rotary_emb\.inv_freq",)


def from_huggingface(config: Options, file: ModelFile) -> Plan:
    """From config.json; `model_type` decides what its options leave open."""
    kind = config.text("model_type")
    heads = config.whole("num_attention_heads")
    d_model = config.whole("hidden_size")
    attention_bias = kind == "qwen2"
    if kind in ("llama", "qwen3"):
        attention_bias = config.flag("attention_bias", False)
    else:
        config.must_be("attention_bias", attention_bias, "biases that this family does not have")
    if kind != "llama":
        config.must_be("mlp_bias", False, "biases that this family does not have")
    tied = is_tied(config, file, "lm_head.weight", "model.embed_tokens.weight", False)
    made = transformer(
        config.where,
        vocab=config.whole("vocab_size"),
        d_model=d_model,
        heads=heads,
        kv_heads=config.whole("num_key_value_heads", _kv_heads(config, kind, heads)),
        d_head=config.whole("head_dim", 128 if kind == "qwen3" else max(d_model // heads, 1)),
        layers=check_layers(config.whole("num_hidden_layers"), len(file.tensors), config.where),
        d_ff=config.whole("intermediate_size"),
        activation=config.choice("hidden_act", GATED, "silu"),
        norm_eps=config.number("rms_norm_eps", 1e-6),
        qkv_bias=attention_bias,
        attention_output_bias=attention_bias and kind != "qwen2",
        feedforward_bias=config.flag("mlp_bias", False),
        qk_norm=kind == "qwen3",
        tied=tied,
        window=_window(config, kind),
        **COMMON,
        **rotary_options(config),
    )
    ignored = (*IGNORED, r"lm_head\.weight") if made.tied else IGNORED
    return Plan(
        kind, "language", made, _rules(made, HUGGING_FACE, "lm_head.weight"), ignored,
        notes=(PERMUTED, *[TIED] * made.tied, *tie_notes(config, tied, False)),
    )  # fmt: skip


def _kv_heads(config: Options, kind: str, heads: int) -> int:
    """How many heads of keys and values a file means that gives no number."""
    usual = {"mistral": 8, "qwen2": 32, "qwen3": 32}
    return heads if config.has("num_key_value_heads") else usual.get(kind, heads)


ARCHITECTURES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def to_huggingface(c: TransformerConfig, length: int, kind: str) -> Description:
    """As one of the relatives. length: how far texts are meant to go."""
    qkv, output, forward = (
        c.bias if bias is None else bias
        for bias in (c.qkv_bias, c.attention_output_bias, c.feedforward_bias)
    )
    described: dict[str, Any] = {
        "model_type": kind,
        "architectures": [f"{ARCHITECTURES[kind]}ForCausalLM"],
        "vocab_size": c.vocab,
        "hidden_size": c.d_model,
        "intermediate_size": c.d_ff or 4 * c.d_model,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads or c.heads,
        "head_dim": c.head_size,
        "hidden_act": name_of(c.activation, GATED),
        "rms_norm_eps": c.norm_eps or EPSILON["rms"],
        "tie_word_embeddings": c.tied,
        "max_position_embeddings": length,
        **rotary_keys(TransformerConfig(**(c.model_dump() | {"rotary_fraction": 1.0}))),
    }
    if kind in ("llama", "qwen3"):
        described["attention_bias"] = qkv or output
    if kind == "llama":
        described["mlp_bias"] = forward
    if kind == "mistral":
        described["sliding_window"] = c.window
    elif c.window is not None and kind != "llama":
        described |= {
            "sliding_window": c.window, "use_sliding_window": True, "max_window_layers": 0,
            "layer_types": ["sliding_attention"] * c.layers,
        }  # fmt: skip
    return Description(described)


COMMON: Mapping[str, Any] = {
    "shape": "decoder", "head": "language", "norm": "rms", "placement": "pre",
    "embedding_scale": False, "dropout": 0.0, "bias": False,
}  # fmt: skip


def _window(config: Options, kind: str) -> int | None:
    """How far back a token sees, which is the same in all layers here."""
    if kind == "llama":
        return None
    if kind == "mistral":
        config.ignore("layer_types")
        return config.whole("sliding_window", 4096) if _windowed(config) else None
    types = config.get("layer_types", [])
    if not isinstance(types, list) or len({str(t) for t in types}) > 1:
        raise InputError(
            f"{config.where}: layer_types differ from layer to layer, which cannot be computed here"
        )
    windowed = types[:1] == ["sliding_attention"]
    used = config.flag("use_sliding_window", False) and not types
    if used and config.whole("max_window_layers", 28) < config.whole("num_hidden_layers"):
        raise InputError(
            f"{config.where}: sliding_window in some layers only, which cannot be computed here"
        )
    return config.whole("sliding_window", 4096) if windowed else None


def _windowed(config: Options) -> bool:
    """Whether Mistral's window is not switched off, which null does."""
    return config.get("sliding_window") is not None or not config.has("sliding_window")


def from_gguf(facts: Options, file: ModelFile) -> Plan:
    """From the header of llama.cpp's file. Llama's queries and keys are in pairs there."""
    kind = facts.text("general.architecture")
    own = Options(file.metadata, facts.where, f"{kind}.")
    if own.get("expert_count", 0):
        raise InputError(f"{facts.where} is a mixture of experts, which cannot be computed here")
    heads, d_model = own.whole("attention.head_count"), own.whole("embedding_length")
    d_head = own.whole("attention.key_length", max(d_model // heads, 1))
    if own.get("attention.value_length", d_head) != d_head:
        raise InputError(f"{facts.where}: keys and values of different sizes cannot be computed")
    table = file.tensors.get("token_embd.weight")
    made = transformer(
        facts.where,
        vocab=table.shape[0] if table is not None and table.shape else own.whole("vocab_size"),
        d_model=d_model,
        heads=heads,
        kv_heads=own.whole("attention.head_count_kv", heads),
        d_head=d_head,
        layers=check_layers(own.whole("block_count"), len(file.tensors), facts.where),
        d_ff=own.whole("feed_forward_length"),
        activation="swiglu",
        norm_eps=round_off(own.number("attention.layer_norm_rms_epsilon")),
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        attention_output_bias="blk.0.attn_output.bias" in file.tensors,
        feedforward_bias="blk.0.ffn_up.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        tied="output.weight" not in file.tensors,
        window=own.get("attention.sliding_window"),
        **COMMON,
        **_gguf_rotary(own, file, d_head),
    )
    halves = kind != "llama"
    names = Names(GGUF_MODULES, halves=halves)
    return Plan(
        kind, "language", made, _rules(made, names, "output.weight"), (r"rope_freqs\.weight",),
        notes=(*[PERMUTED] * halves, *[TIED] * made.tied),
    )  # fmt: skip


def to_gguf(c: TransformerConfig, length: int) -> Description:
    """Facts of a header, with the names of the tensors that tell more. Of its relatives llama.cpp's
    Llama alone has biases everywhere."""
    kind = "qwen3" if c.qk_norm else "llama"
    turning = c.rotary_fraction if c.qk_norm else 1.0  # llama.cpp opens no Llama that turns less
    facts: dict[str, Any] = {
        "context_length": length,
        "embedding_length": c.d_model,
        "block_count": c.layers,
        "feed_forward_length": c.d_ff or 4 * c.d_model,
        "attention.head_count": c.heads,
        "attention.head_count_kv": c.kv_heads or c.heads,
        "attention.key_length": c.head_size,
        "attention.value_length": c.head_size,
        "attention.layer_norm_rms_epsilon": c.norm_eps or EPSILON["rms"],
        "rope.dimension_count": int(c.head_size * turning),
        "rope.freq_base": c.rotary_base,
        "vocab_size": c.vocab,
    }
    if c.rotary_scaling != 1 and c.rotary_method in ("linear", "yarn"):
        facts |= {"rope.scaling.type": c.rotary_method, "rope.scaling.factor": c.rotary_scaling}
        if c.rotary_method == "yarn":
            facts |= {
                "rope.scaling.original_context_length": c.rotary_length,
                "rope.scaling.yarn_beta_slow": c.rotary.low,
                "rope.scaling.yarn_beta_fast": c.rotary.high,
            }
    named = {f"{kind}.{name}": value for name, value in facts.items()}
    places = {
        "blk.0.attn_q.bias": c.qkv_bias, "blk.0.attn_output.bias": c.attention_output_bias,
        "blk.0.ffn_up.bias": c.feedforward_bias,
    }  # fmt: skip
    names = [name for name, bias in places.items() if (c.bias if bias is None else bias)]
    if c.qk_norm:
        names.append("blk.0.attn_q_norm.weight")
    if not c.tied:
        names.append("output.weight")
    return Description({"general.architecture": kind} | named, tuple(names))


def round_off(value: float) -> float:
    """A number that went through float32, as it was meant: 9.9999997e-06 is 1e-05."""
    return float(f"{value:.6g}")


def _gguf_rotary(own: Options, file: ModelFile, d_head: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "positions": "rotary",
        "rotary_base": round_off(own.number("rope.freq_base", 10000.0)),
    }
    turning = own.whole("rope.dimension_count", d_head)
    if turning != d_head:
        made["rotary_fraction"] = turning / d_head
    if "rope_freqs.weight" in file.tensors:
        return made | _llama3_scaling(own, file, made["rotary_base"], turning)
    # The second is an older name; llama.cpp takes none, and 0, for 1.
    named = [name for name in ("rope.scaling.factor", "rope.scale_linear") if own.get(name)]
    factor = round_off(own.number(named[0])) if named else 1.0
    method = own.text("rope.scaling.type", "linear")
    for name, plain in (("attn_factor", 1.0), ("yarn_ext_factor", 1.0), ("yarn_attn_factor", 1.0),
                        ("yarn_log_multiplier", 0.0)):  # fmt: skip
        own.must_be(f"rope.scaling.{name}", plain, "another scaling of rotary positions")
    match method:
        case "none":
            return made
        case "linear":
            return made | {"rotary_scaling": factor}
        case "yarn":
            return made | {
                "rotary_method": "yarn",
                "rotary_scaling": factor,
                "rotary_length": own.whole("rope.scaling.original_context_length"),
                "rotary_low": round_off(own.number("rope.scaling.yarn_beta_slow", 1.0)),
                "rotary_high": round_off(own.number("rope.scaling.yarn_beta_fast", 32.0)),
            }
    raise InputError(
        f"{own.where}: rope.scaling.type = {method[:40]!r} cannot be computed here; none, linear "
        "and yarn can"
    )


def _llama3_scaling(own: Options, file: ModelFile, base: float, turning: int) -> dict[str, Any]:
    """Llama 3 writes a factor for every frequency: the usual settings are tried."""
    factors = file.tensors["rope_freqs.weight"].read().double()
    options: dict[str, Any] = {
        "rotary_method": "llama3", "rotary_scaling": round_off(float(factors.max())),
        "rotary_length": 8192, "rotary_low": 1.0, "rotary_high": 4.0,
    }  # fmt: skip
    wave = 2 * torch.pi * base ** (torch.arange(0, turning, 2).double() / turning)
    smooth = ((8192 / wave - 1.0) / (4.0 - 1.0)).clamp(0, 1)
    expected = 1 / ((1 - smooth) / options["rotary_scaling"] + smooth)
    if factors.shape != expected.shape or not torch.allclose(factors, expected, rtol=1e-4):
        raise InputError(
            f"{own.where}: the factors in rope_freqs.weight are not those of Llama 3 with an "
            "original length of 8192; use the model in Hugging Face's format"
        )
    return options


def from_llama2c(facts: Options, file: ModelFile) -> Plan:
    """From the header of a file of llama2.c."""
    made = transformer(
        facts.where,
        vocab=facts.whole("vocab_size"),
        d_model=facts.whole("dim"),
        heads=facts.whole("n_heads"),
        kv_heads=facts.whole("n_kv_heads"),
        layers=facts.whole("n_layers"),
        d_ff=facts.whole("hidden_dim"),
        activation="swiglu",
        norm_eps=1e-5,
        tied=facts.flag("shared_classifier"),
        positions="rotary",
        **COMMON,
    )
    return Plan(
        "llama2.c", "language", made, _rules(made, LLAMA2C, "output.weight"),
        notes=(TIED,) if made.tied else (),
    )  # fmt: skip


def _rules(config: TransformerConfig, names: Names, head: str) -> list[Rule]:
    rules = stack_rules(config, "decoder", config.layers, names)
    return rules if config.tied else [*rules, rule(head, "head.linear.weight")]
