"""Options of rotary positions in transformers' config.json, in both versions: `rope_theta` with
`rope_scaling`, or both in `rope_parameters`."""

import math
from typing import Any

from translucid.interop.families.plan import Options
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.rotary_scaling import yarn_attention_factor

METHODS = ("default", "linear", "dynamic", "llama3", "yarn")
LAYER_TYPES = ("full_attention", "sliding_attention")


def rotary_options(config: Options, *, partial: bool = False) -> dict[str, Any]:
    """Read the rotary options of a config.json as keys of a TransformerConfig. partial: for
    GPT-NeoX, which rotates only a part of each head and whose keys had different names before
    transformers 5."""
    scaling, parameters = config.part("rope_scaling"), config.part("rope_parameters")
    named = scaling if config.get("rope_scaling") else parameters  # as in transformers
    if any(isinstance(named.get(kind), dict) for kind in LAYER_TYPES):
        named.unsupported("rotary positions that differ between layers", "the same in all layers")
    older = "rotary_emb_base" if partial else "rope_theta"
    base = named.number("rope_theta", config.number(older, 10000.0))
    made: dict[str, Any] = {"positions": "rotary", "rotary_base": base}
    fraction = 1.0
    if partial:
        usual = config.number("rotary_pct", 0.25)
        fraction = named.number("partial_rotary_factor", usual)
        config.must_be("rope_theta", base, f"a base that differs from {older}")
    else:
        named.must_be("partial_rotary_factor", fraction, "only a part of each head rotates")
    config.must_be("partial_rotary_factor", fraction, "a different part of each head rotates")
    if fraction != 1:
        made["rotary_fraction"] = fraction
    method = named.text("rope_type", named.get("type", "default"))
    named.ignore("type")  # the older name
    if method not in METHODS:
        named.unsupported(f"rope_type = {method[:40]!r}", ", ".join(METHODS))
    if named is scaling:
        parameters.ignore(
            *config.get("rope_parameters", {})
        )  # transformers does not read them either
    if method == "default":
        return made
    if method == "yarn" and fraction != 1:
        named.unsupported(f"rope_type = 'yarn' with partial_rotary_factor = {fraction}")
    made |= {"rotary_method": method, "rotary_scaling": named.number("factor")}
    context = config.get("max_position_embeddings")
    match method:
        case "dynamic":
            made["rotary_length"] = config.whole("max_position_embeddings")
        case "llama3":
            made["rotary_length"] = named.whole("original_max_position_embeddings", context)
            made["rotary_low"] = named.number("low_freq_factor")
            made["rotary_high"] = named.number("high_freq_factor")
        case "yarn":
            made["rotary_length"] = named.whole("original_max_position_embeddings", context)
            made["rotary_low"] = named.number("beta_slow", 1.0)
            made["rotary_high"] = named.number("beta_fast", 32.0)
            made["rotary_attention_factor"] = _yarn_factor(named)
            named.must_be("truncate", True, "YaRN's ramp with ends that are not whole numbers")
    return made


def rotary_keys(c: TransformerConfig) -> dict[str, Any]:
    """The rotary options of a configuration as keys of config.json, in both versions."""
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": c.rotary_base}
    keys: dict[str, Any] = {"rope_theta": c.rotary_base, "rope_parameters": parameters}
    if c.rotary_fraction != 1:
        parameters["partial_rotary_factor"] = c.rotary_fraction
    if c.rotary_method == "linear" and c.rotary_scaling == 1:
        return keys
    parameters |= {"rope_type": c.rotary_method, "factor": c.rotary_scaling}
    original = {"original_max_position_embeddings": c.rotary_length}
    match c.rotary_method:
        case "dynamic":
            keys["max_position_embeddings"] = c.rotary_length
        case "llama3":
            parameters |= original | {
                "low_freq_factor": c.rotary.low, "high_freq_factor": c.rotary.high,
            }  # fmt: skip
        case "yarn":
            factor = c.rotary_attention_factor or yarn_attention_factor(c.rotary_scaling)
            parameters |= original | {
                "beta_slow": c.rotary.low, "beta_fast": c.rotary.high, "attention_factor": factor,
            }  # fmt: skip
    return keys | {"rope_scaling": parameters}


def _yarn_factor(named: Options) -> float:
    """The factor by which YaRN multiplies cosines and sines."""
    if named.get("attention_factor") is not None:
        return named.number("attention_factor")
    factor = named.number("factor")

    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if named.get("mscale") and named.get("mscale_all_dim"):
        return scale(named.number("mscale")) / scale(named.number("mscale_all_dim"))
    return scale(1.0)
