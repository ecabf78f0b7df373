"""A tiny random model for each family of transformers, and other values for each of its keys."""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from tests.interop.reference import far, prompts, randomised, save, transformers
from torch import Tensor

from translucid.core.errors import TranslucidError
from translucid.interop.importing import open_network
from translucid.interop.kinds import read_source, tool_of

VOCAB, LENGTH = 53, 12
DECODER = {"vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
           "num_attention_heads": 4, "max_position_embeddings": 16}  # fmt: skip
GROUPED = DECODER | {"num_key_value_heads": 2}
ENCODER = DECODER | {"max_position_embeddings": 32, "pad_token_id": 0}
DISTIL = {"vocab_size": VOCAB, "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 4,
          "max_position_embeddings": 32, "pad_token_id": 0}  # fmt: skip
BART = {"vocab_size": VOCAB, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40, "max_position_embeddings": 32, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2, "decoder_start_token_id": 2}  # fmt: skip
MARIAN = BART | {"pad_token_id": 52, "eos_token_id": 0, "decoder_start_token_id": 52}
T5 = {"vocab_size": VOCAB, "d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2,
      "num_decoder_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 16}  # fmt: skip
# By family: the prefix of transformers' class names, the suffix of the model class, and its sizes.
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("Llama", "ForCausalLM", GROUPED),
    "mistral": ("Mistral", "ForCausalLM", GROUPED | {"sliding_window": 4}),
    "qwen2": ("Qwen2", "ForCausalLM", GROUPED),
    "qwen3": ("Qwen3", "ForCausalLM", GROUPED | {"head_dim": 8}),
    "gpt2": ("GPT2", "LMHeadModel", {"vocab_size": VOCAB, "n_embd": 24, "n_layer": 2, "n_head": 4,
             "n_positions": 32}),
    "gpt_neox": ("GPTNeoX", "ForCausalLM", DECODER | {"hidden_size": 64}),
    "bert": ("Bert", "ForMaskedLM", ENCODER),
    "bert classifier": ("Bert", "ForSequenceClassification", ENCODER),
    "roberta": ("Roberta", "ForMaskedLM", ENCODER | {"pad_token_id": 1, "type_vocab_size": 1}),
    "distilbert": ("DistilBert", "ForMaskedLM", DISTIL),
    "distilbert tagger": ("DistilBert", "ForTokenClassification", DISTIL),
    "bart": ("Bart", "ForConditionalGeneration", BART),
    "mbart": ("MBart", "ForConditionalGeneration", BART),
    "marian": ("Marian", "MTModel", MARIAN),
    "pegasus": ("Pegasus", "ForConditionalGeneration", BART | {"pad_token_id": 0}),
    "m2m_100": ("M2M100", "ForConditionalGeneration", BART),
    "t5": ("T5", "ForConditionalGeneration", T5),
    "mt5": ("MT5", "ForConditionalGeneration", T5),
}  # fmt: skip
ROPES: list[dict[str, Any]] = [
    {"rope_type": "default", "rope_theta": 100.0},
    {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
    {"rope_type": "dynamic", "factor": 3.0, "rope_theta": 10000.0},
    {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0,
     "original_max_position_embeddings": 4},
    {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "truncate": False,
     "original_max_position_embeddings": 4},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "rope_theta": 100.0, "original_max_position_embeddings": 8},
    {"rope_type": "longrope", "short_factor": [1.5] * 3, "long_factor": [2.0] * 3,
     "rope_theta": 10000.0, "original_max_position_embeddings": 4},
    {"rope_type": "proportional", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 1]},
    {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    {"rope_type": "default", "rope_theta": 10000.0, "a_new_key": 2},
]  # fmt: skip
OLD_ROPES: list[dict[str, Any]] = [
    {"type": "linear", "factor": 2.0},
    {"type": "dynamic", "factor": 2.0},
    {"type": "mrope", "mrope_section": [1, 1, 1]},
    {"type": "longrope", "short_factor": [1.5] * 3, "long_factor": [2.0] * 3},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 4},
]  # fmt: skip
# Values to try for keys whose value cannot just be incremented or negated. MISSING: omit the key.
MISSING = object()
VALUES: dict[str, list[Any]] = {
    "vocab_size": [59], "hidden_size": [32], "d_model": [32], "n_embd": [32], "dim": [32],
    "num_attention_heads": [2], "n_head": [2], "n_heads": [2], "num_heads": [2],
    "encoder_attention_heads": [2], "decoder_attention_heads": [2], "d_kv": [8],
    "head_dim": [10], "num_key_value_heads": [1, 4, None], "n_inner": [44],
    "relative_attention_num_buckets": [4], "relative_attention_max_distance": [9],
    "hidden_act": ["relu", "gelu_new", "silu", "gelu_10"],
    "activation": ["relu", "gelu_new", "silu", "mish"],
    "activation_function": ["relu", "gelu_new", "silu", "gelu", "sigmoid"],
    "dense_act_fn": ["gelu", "silu"],
    "feed_forward_proj": ["relu", "gelu", "gated-gelu", "gated-silu", "gated-relu"],
    "sliding_window": [3, None], "max_window_layers": [0, 1], "decoder_vocab_size": [47],
    "layer_types": [["sliding_attention"] * 2, ["full_attention", "sliding_attention"],
                    ["full_attention"] * 2],
    "rope_parameters": [*ROPES, MISSING], "rope_scaling": OLD_ROPES, "rope_theta": [100.0],
    "architectures": [], "dtype": ["bfloat16"], "torch_dtype": ["float16"],
    "id2label": [{"0": "a", "1": "b", "2": "c"}], "label2id": [{"a": 1}],
    "problem_type": ["multi_label_classification"], "layer_norm_eps": [0.05, MISSING],
    "rms_norm_eps": [0.05, MISSING], "layer_norm_epsilon": [0.05, MISSING],
    "bos_token_id": [7, None], "eos_token_id": [7], "pad_token_id": [4],
    "decoder_start_token_id": [7], "forced_eos_token_id": [7], "forced_bos_token_id": [7],
    "num_hidden_layers": [1, 3], "mlp_bias": [True], "summary_type": ["mean"],
    "summary_activation": ["tanh"], "chunk_size_feed_forward": [2],
    "position_embedding_type": ["relative_key", "absolute"], "rotary_pct": [0.5, 1.0],
    "rotary_emb_base": [100.0], "partial_rotary_factor": [0.5, 0.25],
    "initializer_range": [0.5], "return_dict": [],  # if False, the reference itself fails
    "transformers_version": ["4.1.0"], "_name_or_path": ["x"], "classifier_dropout": [0.3],
}  # fmt: skip
# Keys of older or newer files, which the current class does not list.
MORE_KEYS: dict[str, Any] = {
    "rope_scaling": None, "rope_theta": None, "partial_rotary_factor": None, "rotary_pct": None,
    "rotary_emb_base": None, "position_embedding_type": None, "torch_dtype": None,
    "gradient_checkpointing": False, "pruned_heads": {}, "a_key_of_a_later_version": None,
    "normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False,
    "static_position_embeddings": False, "extra_pos_embeddings": 2, "add_bias_logits": False,
    "logit_scale": None, "attention_multiplier": None, "final_logit_softcapping": None,
    "tie_word_embeddings": None, "use_sliding_window": None, "dense_act_fn": None,
    "is_gated_act": None, "scale_decoder_outputs": None, "qkv_bias": None, "attention_bias": None,
    "is_decoder": None, "add_cross_attention": None, "num_labels": None, "clip_qkv": None,
    "layer_types": None, "num_hidden_layers": None, "hidden_size": None, "mlp_bias": None,
}  # fmt: skip
VALUES |= {
    "pruned_heads": [{"0": [1]}], "a_key_of_a_later_version": [0.5], "logit_scale": [0.5],
    "attention_multiplier": [0.5], "final_logit_softcapping": [30.0], "num_labels": [2, 3],
    "tie_word_embeddings": [True, False, MISSING], "use_sliding_window": [True],
    "is_gated_act": [True, False], "scale_decoder_outputs": [True, False, MISSING],
    "qkv_bias": [False], "attention_bias": [True, False], "is_decoder": [True],
    "add_cross_attention": [True], "clip_qkv": [8.0], "extra_pos_embeddings": [0],
}  # fmt: skip

# Keys that some families refuse only because the weights have another size.
SIZES = {"num_hidden_layers", "hidden_size", "num_labels", "id2label"}


def changes(config: Any) -> Iterator[tuple[str, Any]]:
    """Every key of a configuration, and some that its class does not have, each with different
    values."""
    held = config.to_dict()
    for key, value in (MORE_KEYS | held).items():
        if key == "model_type":
            continue
        if key in VALUES:
            others = VALUES[key]
        elif isinstance(value, bool):
            others = [not value]
        elif isinstance(value, int | float):
            others = [0.3 if "drop" in key else value + 1, MISSING]
        else:
            raise AssertionError(f"no other value is known for {key} = {value!r}")
        for other in others:
            if other is MISSING or key not in held or held[key] != other:
                yield key, other


def make(family: str, folder: Path, **more: Any) -> Any:
    """Save a model of a family with random weights, and return it."""
    library = transformers()
    prefix, kind, sizes = FAMILIES[family]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = getattr(library, f"{prefix}Config")(**(sizes | more))
        model = randomised(getattr(library, prefix + kind)(config))
    for name, module in model.named_modules():
        if name.endswith("embed_positions") and hasattr(module, "create_weight"):
            module.weight.data.copy_(module.create_weight())  # computed, but among the weights
    save(model, folder)
    return model


def reopened(family: str, folder: Path) -> Any:
    """The model that transformers opens from a folder; None if it fails or lacks weights."""
    prefix, kind, _ = FAMILIES[family]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model, info = getattr(transformers(), prefix + kind).from_pretrained(
                folder, output_loading_info=True, dtype=torch.float32
            )
        except Exception:  # if the reference cannot open it, there is nothing to compare with
            return None
    wrong = info["missing_keys"] or info["mismatched_keys"] or info["unexpected_keys"]
    return None if wrong else model.eval()


def edit(folder: Path, changed: Mapping[str, Any]) -> None:
    path = folder / "config.json"
    held = json.loads(path.read_text("utf-8")) | changed
    path.write_text(json.dumps({k: v for k, v in held.items() if v is not MISSING}))


def distance(theirs: Any, ours: Any) -> float | None:
    """The largest difference between the outputs of two models for the same ids, relative to the
    largest output; None if the reference fails."""
    vocab = min(theirs.config.vocab_size, getattr(theirs.config, "decoder_vocab_size", VOCAB))
    ids, mask = prompts(vocab, left=False, length=LENGTH)
    pad = theirs.config.pad_token_id or 0
    ids = ids.masked_fill(ids == pad, 3 if pad != 3 else 5).masked_fill(~mask, pad)
    inputs: dict[str, Tensor] = {"input_ids": ids, "attention_mask": mask.long()}
    call = [ids, mask]
    if ours.config.shape == "encoder-decoder":
        target, _ = prompts(vocab, length=9)
        inputs["decoder_input_ids"] = target.clamp(min=6)
        call.insert(1, inputs["decoder_input_ids"])
    theirs.config.return_dict = True  # without it, some models of transformers fail
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reference = theirs(**inputs).logits
        except Exception:
            return None
        made = ours(*call)
    if ours.config.shape != "encoder-decoder" and reference.dim() == 3:
        reference, made = reference[mask], made[mask]
    if made.shape != reference.shape:
        return float("inf")
    return far(made, reference, float(reference.abs().max()))


def verdict(family: str, folder: Path, changed: Mapping[str, Any]) -> str:
    """ "equal", "refused", "no reference", or what is wrong. folder: contains a model without these
    changes."""
    edit(folder, changed)
    if not SIZES & changed.keys() and refused_by_name(folder, changed):
        return "refused"  # without the reference, whose opening takes ten times as long
    theirs = reopened(family, folder)
    if theirs is None and MISSING not in changed.values():  # the weights have other sizes then
        with suppress(Exception):  # transformers may reject the values
            make(family, folder, **changed)
            edit(folder, changed)
            theirs = reopened(family, folder)
    try:
        ours = open_network(folder).network
    except TranslucidError as error:
        if theirs is None or any(key in str(error) for key in changed):
            return "refused"
        return f"wrong: refused, but not for this key: {error}"
    apart = None if theirs is None else distance(theirs, ours)
    if apart is None:
        return "no reference"
    return "equal" if apart < 1e-4 else f"wrong: {apart:.1e} of the largest logit"


def refused_by_name(folder: Path, changed: Mapping[str, Any]) -> bool:
    """Whether the configuration is rejected, whatever the weights are, for one of these keys."""
    try:
        source = read_source(folder)
        tool_of(source.kind).plan(source)
    except TranslucidError as error:
        return any(key in str(error) for key in changed)
    return False


def plan(folder: Path) -> Any:
    """The parts of Translucid's import plan for a folder, except its notes; None if it rejects the
    folder."""
    try:
        source = read_source(folder)
        made = tool_of(source.kind).plan(source)
    except TranslucidError:
        return None
    return made.config, made.rules, made.ignored, made.labels
