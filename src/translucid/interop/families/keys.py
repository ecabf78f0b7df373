"""Every key of a config.json in Hugging Face's layout is honoured (a family has read it), known to
be irrelevant (listed here), or refused by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from translucid.core.errors import InputError, nearest
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan
from translucid.models.sequence_config import SequenceConfig

# Keys that change training, precision, speed or bookkeeping, but no output.
IRRELEVANT = frozenset({
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "_commit_hash", "_flash_attn_2_enabled", "_name_or_path", "_num_labels", "adapters",
    "attn_implementation", "chunk_size_feed_forward", "dtype", "finetuning_task",
    "gradient_checkpointing", "id2label", "is_llama_config", "label2id", "language",
    "name_or_path", "num_labels", "output_attentions", "output_hidden_states", "output_past",
    "prefix", "return_dict", "task_specific_params", "tf_legacy_loss", "tokenizer_class",
    "torch_dtype", "torchscript", "transformers.js_config", "transformers_version",
    "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache", "use_return_dict",
    "architectures", "model_type", "model_max_length", "experts_implementation",
    # rates of dropout, and how weights are drawn
    "activation_dropout", "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop",
    "classif_dropout", "classifier_dropout", "decoder_layerdrop", "dropout", "dropout_rate",
    "embd_pdrop", "encoder_layerdrop", "hidden_dropout", "hidden_dropout_prob", "init_std",
    "initializer_factor", "initializer_range", "layerdrop", "qa_dropout", "resid_pdrop",
    "seq_classif_dropout", "summary_first_dropout",
})  # fmt: skip
# Which tokens have a role: the tokenizer reads them, not the network.
TOKENS = frozenset({
    "bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id", "mask_token_id",
    "pad_token_id", "sep_token_id", "unk_token_id",
})  # fmt: skip
# How texts are searched for, which older files keep here: generation_config.json's keys.
GENERATION = frozenset({
    "assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind",
    "bad_words_ids", "begin_suppress_tokens", "cache_config", "cache_implementation",
    "constraints", "disable_compile", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff",
    "exponential_decay_length_penalty", "force_words_ids", "forced_bos_token_id",
    "forced_decoder_ids", "forced_eos_token_id", "guidance_scale", "is_assistant",
    "length_penalty", "low_memory", "max_length", "max_matching_ngram_size", "max_new_tokens",
    "max_time", "min_length", "min_new_tokens", "min_p", "no_repeat_ngram_size",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_logits", "output_scores", "penalty_alpha",
    "prefill_chunk_size", "prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits",
    "repetition_penalty", "return_dict_in_generate", "return_legacy_cache", "sequence_bias",
    "stop_strings", "suppress_tokens", "target_lookbehind", "temperature", "token_healing",
    "top_h", "top_k", "top_p", "trace_request", "typical_p", "watermarking_config",
})  # fmt: skip
# Keys that would change the output, with the values at which they do not.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,), "cross_attention_hidden_size": (), "is_decoder": (False,),
    "pruned_heads": ({},), "tie_encoder_decoder": (False,), "use_mrope": (False,),
    "rope_interleaved": (False,), "attention_multiplier": (1, 1.0), "logits_scaling": (1, 1.0),
    "embedding_multiplier": (1, 1.0), "residual_multiplier": (1, 1.0),
    "force_bos_token_to_be_generated": (False,), "do_blenderbot_90_layernorm": (False,),
    "problem_type": ("single_label_classification",),
}  # fmt: skip
_BART = ("max_position_embeddings", "add_bias_logits", "extra_pos_embeddings",
         "student_encoder_layers", "student_decoder_layers", "save_step")  # fmt: skip
_BERT = ("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
         "pooler_size_per_head", "pooler_type")  # fmt: skip
_QWEN = ("max_position_embeddings", "max_window_layers", "use_sliding_window", "sliding_window")
_T5 = ("n_positions",)
# Keys of a family that its network does not read, or that only heads which are refused have.
OF_FAMILY: Mapping[str, tuple[str, ...]] = {
    "llama": ("max_position_embeddings", "pretraining_tp", "max_sequence_length"),
    "mistral": ("max_position_embeddings",),
    "qwen2": _QWEN, "qwen3": _QWEN,
    "gpt2": ("n_ctx", "summary_activation", "summary_proj_to_labels", "summary_type",
             "summary_use_proj"),
    "gpt_neox": ("max_position_embeddings", "is_decoder"),
    "bert": _BERT, "roberta": _BERT,
    "distilbert": ("sinusoidal_pos_embds", "tie_weights_"),  # the table of positions is stored
    **dict.fromkeys(("bart", "mbart", "pegasus", "m2m_100"), _BART),
    "marian": (*_BART, "decoder_vocab_size"),  # where source and target have one vocabulary
    "t5": _T5, "mt5": (*_T5, "tie_word_embeddings"),  # it is tied if its head is the table
}  # fmt: skip


# Second names for a key, which may say the same only.
_SIZES = {"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
          "num_hidden_layers": "encoder_layers"}  # fmt: skip
_T5_SIZES = {"hidden_size": "d_model", "num_attention_heads": "num_heads", "head_dim": "d_kv",
             "num_hidden_layers": "num_layers"}  # fmt: skip
SAME_AS: Mapping[str, Mapping[str, str]] = {
    "gpt2": {"hidden_size": "n_embd", "max_position_embeddings": "n_positions",
             "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"},
    "distilbert": {"hidden_size": "dim", "num_attention_heads": "n_heads",
                   "num_hidden_layers": "n_layers"},
    **dict.fromkeys(("bart", "mbart", "marian", "pegasus", "m2m_100"), _SIZES),
    "t5": _T5_SIZES, "mt5": _T5_SIZES,
}  # fmt: skip


def check_keys(config: Options, plan: Plan, allowed: Sequence[str] = ()) -> list[str]:
    """Refuse keys of unknown meaning. allowed: keys that the user says to ignore; gives a note on
    each of them."""
    config.ignore(*IRRELEVANT, *TOKENS, *GENERATION, *OF_FAMILY[plan.family])
    writes = isinstance(plan.config, SequenceConfig) and plan.config.shape == "encoder-decoder"
    config.must_be("is_encoder_decoder", writes, f"not as a {plan.family} model is built")
    if plan.task != "classify":
        config.ignore("problem_type")
    notes = []
    if config.get("auto_map") is not None:
        notes.append("auto_map in config.json names code of the folder, which is never run")
    unread = config.unread()
    for name in allowed:
        if name not in unread:
            known = nearest(name, unread, 1)
            hint = f"; did you mean {known[0]}?" if known else ""
            raise InputError(
                f"--ignore-key {name}: {config.where} has no such key of unknown meaning{hint}"
            )
        notes.append(f"ignored as you asked: {name} = {_shown(unread.pop(name))} in config.json")
    second = SAME_AS.get(plan.family, {})
    unknown = {
        key: value
        for key, value in unread.items()
        if value not in NEUTRAL.get(key, ()) and value != config.get(second.get(key, ""))
    }
    if unknown:
        shown = ", ".join(f"{key} = {_shown(value)}" for key, value in list(unknown.items())[:8])
        more = f" and {len(unknown) - 8} more" if len(unknown) > 8 else ""
        options = " ".join(f"--ignore-key {key}" for key in list(unknown)[:8])
        raise InputError(
            f"{config.where}: {shown}{more}: Translucid does not know what this does to a "
            f"{plan.family} model, which might compute something else; if you know that it changes "
            f"no output, import the model with: translucid import FOLDER OUT {options}"
        )
    return notes


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
