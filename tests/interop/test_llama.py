"""Llama and its relatives against transformers: tiny random models, in all the ways they differ."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.interop.reference import (
    FLOAT32,
    check_decoder,
    far,
    greedy,
    prompts,
    randomised,
    save,
    transformers,
)
from tests.interop.writers import LLAMA2C, llama2c_weights, write_gguf, write_llama2c
from tests.tiny.dealt import dealt

from translucid.core.errors import InputError
from translucid.interop.importing import open_network

SIZES = {
    "vocab_size": 53, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


def rope(**options: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 10000.0, **options}}


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama tied": ("Llama", {"tie_word_embeddings": True}),
    "llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True, "rms_norm_eps": 0.1}),
    "llama with wide heads": ("Llama", {"head_dim": 10, "num_key_value_heads": 1}),
    "llama with all heads": ("Llama", {"num_key_value_heads": 4, **rope(rope_theta=500.0)}),
    "llama linear": ("Llama", rope(rope_type="linear", factor=4.0)),
    "llama 3": ("Llama", rope(rope_type="llama3", factor=8.0, low_freq_factor=2.0,
                high_freq_factor=5.0, original_max_position_embeddings=16)),
    "llama yarn": ("Llama", rope(rope_type="yarn", factor=4.0,
                   original_max_position_embeddings=16)),
    "llama dynamic": ("Llama", rope(rope_type="dynamic", factor=3.0)),
    "mistral": ("Mistral", {"sliding_window": 4, "head_dim": 6}),
    "mistral without a window": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {}),
    "qwen2 tied": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 8}),
}  # fmt: skip


def made(name: str, **more: Any) -> Any:
    family, options = MODELS[name]
    library = transformers()
    config = getattr(library, f"{family}Config")(**(SIZES | options | more))
    return randomised(getattr(library, f"{family}ForCausalLM")(config))


@pytest.mark.parametrize("name", dealt(MODELS, share=3, rest=pytest.mark.slow))
def test_equals_the_reference(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    save(theirs, tmp_path)
    opened = check_decoder(theirs, tmp_path)
    assert any("reordered" in note for note in opened.notes)
    assert greedy(opened.network, [1, 7], 12) == greedy(theirs, [1, 7], 12)


def test_dynamic_scaling_beyond_its_length(tmp_path: Path) -> None:
    """Each token turns as the length up to itself has it: what the reference does step by step. A
    text that it reads at once, it turns as the length of the whole has it."""
    theirs = made("llama dynamic", max_position_embeddings=8)
    save(theirs, tmp_path)
    ids, _ = prompts(53, rows=2, length=14)
    logits, cache = [], None
    with torch.inference_mode():
        for place in range(ids.shape[1]):
            step = theirs(ids[:, place : place + 1], past_key_values=cache, use_cache=True)
            cache = step.past_key_values
            logits.append(step.logits)
        wanted = torch.cat(logits, dim=1)
        ours = open_network(tmp_path).network(ids)
    assert far(ours, wanted, float(wanted.abs().max())) < FLOAT32
    with torch.inference_mode():
        theirs = made("llama dynamic", max_position_embeddings=64)  # as if there were no scaling
        assert far(theirs(ids).logits[:, 9:], wanted[:, 9:], float(wanted.abs().max())) > 1e-3


def test_shards_are_one_model(tmp_path: Path) -> None:
    theirs = made("qwen2")
    save(theirs, tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    check_decoder(theirs, tmp_path)


def test_a_pickle_in_place_of_safetensors(tmp_path: Path) -> None:
    theirs = made("llama")
    save(theirs, tmp_path)
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    check_decoder(theirs, tmp_path)


def test_older_keys_of_the_config(tmp_path: Path) -> None:
    """Before transformers 5: rope_theta by itself, and rope_scaling with `type`."""
    theirs = made("llama linear")
    save(theirs, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    del config["rope_parameters"]
    config |= {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    check_decoder(theirs, tmp_path)


def as_gguf(
    folder: Path,
    path: Path,
    kind: str,
    config: dict[str, Any],
    scaling: Mapping[str, Any] | None = None,
    factors: torch.Tensor | None = None,
) -> None:
    """The model of a folder as llama.cpp's converter writes it. scaling: facts about rotary
    positions; factors: by which Llama 3 divides their frequencies."""
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    inner = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj":
             "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
             "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
             "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}  # fmt: skip
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        module, _, suffix = name.rpartition(".")
        part = module.split(".")[-1]
        if kind == "llama" and part in heads:  # its converter: n_head, 2, d/2 becomes d/2, 2
            rows = tensor.reshape(heads[part], 2, -1, *tensor.shape[1:])
            tensor = rows.swapaxes(1, 2).reshape(tensor.shape)
        if module not in names:
            _, _, layer, own = module.split(".", 3)
            module, names[module] = module, f"blk.{layer}.{inner[own]}"
        raw = tensor.contiguous().numpy().tobytes()
        tensors[f"{names[module]}.{suffix}"] = ("F32", tuple(tensor.shape), raw)
    if factors is not None:
        tensors["rope_freqs.weight"] = ("F32", tuple(factors.shape), factors.numpy().tobytes())
    facts = {"block_count": config["num_hidden_layers"], "embedding_length": config["hidden_size"],
             "feed_forward_length": config["intermediate_size"],
             "attention.head_count": config["num_attention_heads"],
             "attention.head_count_kv": config["num_key_value_heads"],
             "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
             "rope.freq_base": 10000.0}  # fmt: skip
    if "head_dim" in config:
        facts["attention.key_length"] = facts["attention.value_length"] = config["head_dim"]
    facts |= scaling or {}
    metadata = {"general.architecture": kind} | {f"{kind}.{k}": v for k, v in facts.items()}
    write_gguf(path, metadata, tensors)


@pytest.mark.parametrize("name", ["llama", "llama tied", "qwen2", "qwen3"])
def test_gguf_equals_the_reference(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    save(theirs, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    as_gguf(tmp_path, tmp_path / "model.gguf", MODELS[name][0].lower(), config)
    opened = check_decoder(theirs, tmp_path / "model.gguf")
    assert opened.source.kind == "gguf"
    assert any("reordered" in note for note in opened.notes) == ("qwen" in name)


def llama3_factors(base: float, d_head: int, factor: float) -> torch.Tensor:
    """As llama.cpp's converter has them: what each frequency is divided by."""
    low, high, length, factors = 1.0, 4.0, 8192, []
    for i in range(d_head // 2):
        wave = 2 * math.pi * base ** (2 * i / d_head)
        if wave < length / high:
            factors.append(1.0)
        elif wave > length / low:
            factors.append(factor)
        else:
            smooth = (length / wave - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return torch.tensor(factors)


YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 16}  # fmt: skip
SCALED: dict[str, tuple[dict[str, Any], dict[str, Any], torch.Tensor | None]] = {
    "linear": (
        rope(rope_type="linear", factor=4.0),
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, None,
    ),
    "linear, an older name": (
        rope(rope_type="linear", factor=2.5), {"rope.scale_linear": 2.5}, None
    ),
    "none, whatever the factor": (
        {}, {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, None
    ),
    "yarn": (
        rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=16), YARN, None
    ),
    "yarn with other ends": (
        rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024, beta_fast=4.0,
             beta_slow=0.1) | {"max_position_embeddings": 4096},
        YARN | {"rope.scaling.original_context_length": 1024,
                "rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 0.1}, None,
    ),
    "llama 3": (
        rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
             original_max_position_embeddings=8192, rope_theta=500000.0)
        | {"head_dim": 16, "max_position_embeddings": 65536},
        {"rope.freq_base": 500000.0}, llama3_factors(500000.0, 16, 8.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_scaled_rotary_positions_of_gguf(tmp_path: Path, name: str) -> None:
    options, facts, factors = SCALED[name]
    theirs = made("llama", **options)
    save(theirs, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    as_gguf(tmp_path, tmp_path / "model.gguf", "llama", config, facts, factors)
    check_decoder(theirs, tmp_path / "model.gguf", length=24)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"rope.scaling.type": "longrope"}, "none, linear, yarn"),
        (YARN | {"rope.scaling.attn_factor": 1.5}, "a different scaling of rotary positions"),
        (YARN | {"rope.scaling.yarn_ext_factor": 0.5}, "a different scaling of rotary positions"),
    ],
)
def test_other_scalings_of_gguf_are_refused(
    tmp_path: Path, facts: dict[str, Any], message: str
) -> None:
    save(made("llama"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    as_gguf(tmp_path, tmp_path / "model.gguf", "llama", config, facts)
    with pytest.raises(InputError, match=message):
        open_network(tmp_path / "model.gguf")


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("shared", [True, False])
def test_llama2c_equals_the_reference(tmp_path: Path, version: int, shared: bool) -> None:
    """Its queries and keys are in pairs: in halves, they are a model of transformers."""
    library = transformers()
    sizes = LLAMA2C
    config = library.LlamaConfig(
        vocab_size=10, hidden_size=8, intermediate_size=12, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5,
        tie_word_embeddings=shared,
    )  # fmt: skip
    theirs = library.LlamaForCausalLM(config).eval()
    torch.manual_seed(5)
    weights = llama2c_weights(sizes, shared)
    write_llama2c(tmp_path / "a.bin", sizes, weights, version)
    names = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}
    inner = {"attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "attention.wq": "self_attn.q_proj", "attention.wk": "self_attn.k_proj",
             "attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj",
             "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj",
             "feed_forward.w3": "mlp.up_proj"}  # fmt: skip
    state = {}
    for name, tensor in weights.items():
        module = name.removesuffix(".weight")
        if module.endswith((".wq", ".wk")):
            heads = 4 if module.endswith("wq") else 2
            tensor = tensor.view(heads, -1, 2, 8).transpose(1, 2).reshape(tensor.shape)
        if module not in names:
            _, layer, own = module.split(".", 2)
            names[module] = f"model.layers.{layer}.{inner[own]}"
        state[f"{names[module]}.weight"] = tensor
    missing, extra = theirs.load_state_dict(state, strict=False)
    assert not extra
    assert missing == (["lm_head.weight"] if shared else [])
    opened = check_decoder(theirs, tmp_path / "a.bin")
    assert opened.source.kind == "llama2c"


def change(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | values))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "experts": ({"num_local_experts": 8}, "mixture of experts"),
    "mixtral": ({"model_type": "mixtral"}, "mixture of experts"),
    "mamba": ({"model_type": "mamba"}, "state space model"),
    "unknown": ({"model_type": "lama"}, "did you mean llama"),
    "quantized": ({"quantization_config": {"bits": 4}}, "quantized"),
    "activation": ({"hidden_act": "mish"}, "hidden_act = 'mish'"),
    "rope": ({"rope_parameters": {"rope_type": "longrope", "factor": 2}}, "longrope"),
    "layer types": (
        {"layer_types": ["full_attention", "sliding_attention"]},
        "layer_types = ['full_attention', 'sliding_attention']",
    ),
    "text": ({"hidden_size": "24"}, "hidden_size = '24'"),
    "negative": ({"num_hidden_layers": -1}, "a whole number above 0"),
    "many layers": ({"num_hidden_layers": 1 << 39}, "layers, but there are only"),
    "more layers": ({"num_hidden_layers": 4}, "9 missing: model.layers.{}.input_layernorm.weight"),
    "fewer layers": ({"num_hidden_layers": 2}, "9 unknown: "),
    "heads": ({"num_attention_heads": 5}, "cannot be built"),
    "wider": ({"hidden_size": 32}, "with a wrong shape"),
    "huge": ({"intermediate_size": 1 << 38}, "larger model than"),
    "tied": ({"tie_word_embeddings": "no"}, "true or false"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_wrong_key_and_the_folder(tmp_path: Path, name: str) -> None:
    save(made("llama"), tmp_path)
    values, message = WRONG[name]
    change(tmp_path, **values)
    with pytest.raises(InputError) as failure:
        open_network(tmp_path)
    assert message in str(failure.value)
    assert str(tmp_path) in str(failure.value)


def test_shards_stay_in_their_folder(tmp_path: Path) -> None:
    save(made("llama"), tmp_path / "model")
    (tmp_path / "model/model.safetensors").rename(tmp_path / "outside.safetensors")
    index = {"weight_map": {"model.norm.weight": "../outside.safetensors"}}
    (tmp_path / "model/model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match=r"outside of"):
        open_network(tmp_path / "model")
    (tmp_path / "model/model.safetensors.index.json").unlink()
    (tmp_path / "model/model.safetensors").symlink_to(tmp_path / "outside.safetensors")
    with pytest.raises(InputError, match=r"symbolic link"):
        open_network(tmp_path / "model")
