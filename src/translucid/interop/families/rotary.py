"""Rotary positions as transformers' config.json describes them, in its two generations:
`rope_theta` with `rope_scaling`, or both in `rope_parameters`."""

import math
from typing import Any

from translucid.errors import InputError
from translucid.interop.families.options import Options
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.rotary_scaling import yarn_attention_factor

METHODS = ("default", "linear", "dynamic", "llama3", "yarn")


def rotary_options(config: Options) -> dict[str, Any]:
    """Keys of a TransformerConfig."""
    scaling, parameters = config.part("rope_scaling"), config.part("rope_parameters")
    named = parameters if parameters.get("rope_type") or not scaling.get("factor") else scaling
    inner = parameters.get("full_attention")
    if isinstance(inner, dict):
        raise InputError(
            f"{config.where}: rope_parameters differ from layer to layer, which cannot be computed "
            "here"
        )
    made: dict[str, Any] = {
        "positions": "rotary",
        "rotary_base": parameters.number("rope_theta", config.number("rope_theta", 10000.0)),
    }
    fraction = parameters.number("partial_rotary_factor", _partial(config))
    if fraction != 1:
        made["rotary_fraction"] = fraction
    method = named.text("rope_type", named.get("type", "default"))
    if method not in METHODS:
        raise InputError(
            f"{named.where}: rope_type = {method[:40]!r} cannot be computed here; "
            f"{', '.join(METHODS)} can"
        )
    if method == "default":
        return made
    made |= {"rotary_method": method, "rotary_scaling": named.number("factor")}
    context = config.get("max_position_embeddings")
    match method:
        case "dynamic":
            made["rotary_length"] = config.whole("max_position_embeddings")
        case "llama3":
            made["rotary_length"] = named.whole("original_max_position_embeddings")
            made["rotary_low"] = named.number("low_freq_factor")
            made["rotary_high"] = named.number("high_freq_factor")
        case "yarn":
            made["rotary_length"] = named.whole("original_max_position_embeddings", context)
            made["rotary_low"] = named.number("beta_slow", 1.0)
            made["rotary_high"] = named.number("beta_fast", 32.0)
            made["rotary_attention_factor"] = _yarn_factor(named)
            named.must_be("truncate", True, "ends of the ramp that are not whole")
    return made


def rotary_keys(c: TransformerConfig) -> dict[str, Any]:
    """Keys of a config.json, in both generations."""
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


def _partial(config: Options) -> float:
    return config.number("partial_rotary_factor", config.number("rotary_pct", 1.0))


def _yarn_factor(named: Options) -> float:
    """By which yarn multiplies cosines and sines."""
    if named.get("attention_factor") is not None:
        return named.number("attention_factor")
    factor = named.number("factor")

    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if named.get("mscale") and named.get("mscale_all_dim"):
        return scale(named.number("mscale")) / scale(named.number("mscale_all_dim"))
    return scale(1.0)
