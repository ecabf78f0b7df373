"""What a configuration computes, whichever of its keys were set: two that mean the same are equal
here, so that a model may leave only as something that computes the same."""

from typing import Any

from translucid.models.transformer_config import TransformerConfig
from translucid.parts.norms import EPSILON

OF_TRAINING = ("dropout", "word_dropout", "bias")  # the last stands in the keys of each place


def meaning(config: TransformerConfig) -> dict[str, Any]:
    """Every key that decides what is computed, with its value in effect."""
    c = config
    values = c.model_dump()
    for name in ("qkv_bias", "attention_output_bias", "feedforward_bias"):
        values[name] = c.bias if values[name] is None else values[name]
    values |= {
        "kv_heads": c.kv_heads or c.heads,
        "d_head": c.head_size,
        "d_ff": c.d_ff or 4 * c.d_model,
        "norm_eps": c.norm_eps or EPSILON[c.norm],
        "final_norm": c.has_final_norm,
        "decoder_layers": c.decoder_layers or c.layers,
    }
    left_out = {*OF_TRAINING}
    if c.positions == "rotary":
        values |= {"rotary_high": c.rotary.high, "rotary_attention_factor": c.score_factor}
        if c.rotary_method == "linear":
            left_out |= {"rotary_length", "rotary_low", "rotary_high"}
    else:
        left_out |= {name for name in values if name.startswith("rotary_")}
    unread = {
        "max_length": c.positions != "learned",
        "first_position": c.positions not in ("learned", "sinusoidal"),
        "sinusoid_layout": c.positions != "sinusoidal",
        "relative_buckets": c.positions != "relative",
        "relative_distance": c.positions != "relative",
        "norm_bias": c.norm != "layer",
        "count_padding": c.norm != "batch",
        "decoder_layers": c.shape != "encoder-decoder",
        "pooling": c.head not in ("classify", "embed"),
        "tied": c.head not in ("language", "fill"),
    }
    left_out |= {name for name, never in unread.items() if never}
    return {name: value for name, value in values.items() if name not in left_out}


def differences(ours: TransformerConfig, theirs: TransformerConfig) -> dict[str, tuple[Any, Any]]:
    """The keys in which two models differ, each with both values."""
    first, second = meaning(ours), meaning(theirs)
    return {
        name: (first.get(name), second.get(name))
        for name in [*first, *(name for name in second if name not in first)]
        if first.get(name) != second.get(name)
    }
