"""How much memory a training needs, known before any of it is taken: a system that runs out ends
the process without a word.

    parameters x 4 bytes x (weights + gradients + what the optimizer keeps) + activations

The activations are those that the backward pass needs at least; what is refused cannot fit.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from translucid.core.device import available_bytes
from translucid.core.errors import ConfigError
from translucid.models.build import ModelConfig, build_shapes
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer import TransformerConfig
from translucid.training.config import TrainingConfig

FLOAT = 4  # bytes: weights, gradients and moments are float32
KEPT = {"adamw": 2, "adam": 2, "sgd": 1, "muon": 1}  # by an optimizer, for each parameter
DEEP = ("layers", "decoder_layers")  # keys that repeat a part
# Sizes that nobody wonders at.
ORDINARY = {
    "d_model": 512, "hidden": 512, "d_ff": 2048, "layers": 12, "decoder_layers": 12,
    "max_length": 2048, "ensemble_size": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Footprint:
    """Bytes, by what takes them."""

    parameters: int
    weights: int
    gradients: int
    optimizer: int
    average: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.average + self.activations


def estimate(config: ModelConfig, training: TrainingConfig) -> Footprint:
    """What training such a model takes at least."""
    parameters, buffers = count(config)
    whole = FLOAT * parameters
    return Footprint(
        parameters,
        weights=whole + FLOAT * buffers,
        gradients=whole,
        optimizer=KEPT[training.optimizer] * whole,
        average=whole if training.ema is not None else 0,
        activations=activations(config, training),
    )


def count(config: ModelConfig) -> tuple[int, int]:
    """Parameters and values of tables; of many layers, one and a second are built and taken as
    often as there are layers."""
    deep = {key: n for key in DEEP if (n := getattr(config, key, None)) is not None}
    several = getattr(config, "ensemble_size", 1)
    alone = {} if several == 1 else {"ensemble_size": 1}
    one = config.model_copy(update={**dict.fromkeys(deep, 1), **alone})
    parameters, buffers = _built(one)
    first = parameters, buffers
    for key, layers in deep.items():
        if layers > 1:
            two = _built(one.model_copy(update={key: 2}))
            parameters += (layers - 1) * (two[0] - first[0])
            buffers += (layers - 1) * (two[1] - first[1])
    return several * parameters, several * buffers


def _built(config: ModelConfig) -> tuple[int, int]:
    network = build_shapes(config)
    return sum(p.numel() for p in network.parameters()), sum(b.numel() for b in network.buffers())


def activations(config: ModelConfig, training: TrainingConfig) -> int:
    """Bytes that the forward pass of one batch leaves for the backward pass, at the least: what
    goes into each linear layer, and the logits."""
    size = 2 if training.precision == "bfloat16" else FLOAT
    if not isinstance(config, TransformerConfig | RecurrentConfig):
        hidden: tuple[int, ...] = getattr(config, "hidden", ())
        return size * training.batch_tokens * sum(hidden)
    if isinstance(config, TransformerConfig):
        d_ff = config.d_ff or 4 * config.d_model
        per_layer = 6 * config.d_model + d_ff  # q, k, v, what they mix, two norms; the inner layer
        layers = config.layers
        if config.shape == "encoder-decoder":  # each reads its half of the tokens
            layers = (layers + (config.decoder_layers or layers)) // 2
    else:
        gates = {"lstm": 4, "gru": 3}.get(config.cell, 1)
        per_layer = (gates + 1) * config.hidden * (2 if config.bidirectional else 1)
        layers = config.layers
    per_token = config.d_model + layers * per_layer
    if config.head == "language":  # logits, and what is made of them
        vocab = config.target_vocab or config.vocab
        per_token += vocab if config.shape == "encoder-decoder" else 2 * vocab
    return size * training.batch_tokens * per_token  # of an ensemble, one model after another


def check_memory(
    config: ModelConfig,
    training: TrainingConfig,
    device: torch.device,
    model: Mapping[str, Any],
) -> None:
    """Refuse a training that cannot fit, with the number and the keys to lower. model: the section
    of the recipe."""
    available = available_bytes(device)
    if available is None:
        return
    try:
        need = estimate(config, training)
    except (RuntimeError, OverflowError, TypeError):  # sizes that torch cannot even count
        raise ConfigError(
            f"this model is larger than can be counted, and {_words(available)} of memory are "
            f"available on {device}; lower {_keys(config, model)}"
        ) from None
    # Of several processes, each shards what changes and has the weights whole, to evaluate them.
    processes = int(os.environ.get("WORLD_SIZE", "1")) if training.parallel == "fsdp" else 1
    steady = need.weights + need.activations
    if steady + (need.total - steady) // processes <= available:
        return
    parts = {
        "weights": need.weights, "gradients": need.gradients,
        f"what {training.optimizer} keeps": need.optimizer, "the average": need.average,
        f"activations of {training.batch_tokens:,} tokens": need.activations,
    }  # fmt: skip
    listed = ", ".join(f"{name} {_words(size)}" for name, size in parts.items() if size)
    raise ConfigError(
        f"training this model ({need.parameters:,} parameters) needs about {_words(need.total)} "
        f"({listed}), but {_words(available)} of memory are available on {device}; lower "
        f"{_keys(config, model, need, available)}"
    )


def _keys(
    config: ModelConfig, model: Mapping[str, Any], need: Footprint | None = None, available: int = 0
) -> str:
    """What to lower, that which is most out of the ordinary first."""
    sizes = {key: model[key] for key in ORDINARY if isinstance(model.get(key), int)}
    sizes = dict(sorted(sizes.items(), key=lambda pair: -pair[1] / ORDINARY[pair[0]]))
    keys = [f"model.{key} ({value})" for key, value in sizes.items()]
    if not isinstance(config, TransformerConfig | RecurrentConfig):
        keys = keys or ["model.hidden"]
    else:
        keys = keys or ["model.d_model"]
        keys.append("tokenizer.vocab_size")
        table = config.vocab * config.d_model
        if need is not None and 2 * table > need.parameters and config.vocab > config.d_model:
            keys.insert(0, keys.pop())
    if need is None:
        return ", ".join(keys)
    fits_in_small_batches = need.total - need.activations < available
    place = 0 if fits_in_small_batches else len(keys)
    return ", ".join([*keys[:place], "training.batch_tokens", *keys[place:]])


def _words(size: int) -> str:
    """1.5 GiB"""
    value, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    place = 0
    while value >= 1024 and place < len(units) - 1:
        value, place = value / 1024, place + 1
    return f"{value:,.0f} {units[place]}" if place == 0 else f"{value:,.1f} {units[place]}"
