"""Estimate the memory of a training run before it starts, since a system that runs out of memory
kills the process without a message.

    parameters x 4 bytes x (weights + gradients + optimizer state) + activations

The estimate is a lower bound, so a run that is rejected cannot fit in memory.
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
KEPT = {"adamw": 2, "adam": 2, "sgd": 1, "muon": 1}  # values per parameter in the optimizer
DEEP = ("layers", "decoder_layers")  # keys for the number of layers
ORDINARY = {  # common sizes
    "d_model": 512, "hidden": 512, "d_ff": 2048, "layers": 12, "decoder_layers": 12,
    "max_length": 2048, "ensemble_size": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Footprint:
    """Memory in bytes, by purpose."""

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
    """Estimate the minimum memory for training a model with this configuration."""
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
    """Count parameters and buffer values, extrapolating from models with one and two layers."""
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
    """A lower bound on the bytes that the forward pass of a batch stores for the backward pass: the
    inputs of all linear layers, and the logits."""
    size = 2 if training.precision == "bfloat16" else FLOAT
    if not isinstance(config, TransformerConfig | RecurrentConfig):
        hidden: tuple[int, ...] = getattr(config, "hidden", ())
        return size * training.batch_tokens * sum(hidden)
    if isinstance(config, TransformerConfig):
        d_ff = config.d_ff or 4 * config.d_model
        per_layer = 6 * config.d_model + d_ff  # q, k, v, their mix, two norms; the hidden layer
        layers = config.layers
        if config.shape == "encoder-decoder":  # each reads half of the tokens
            layers = (layers + (config.decoder_layers or layers)) // 2
    else:
        gates = {"lstm": 4, "gru": 3}.get(config.cell, 1)
        per_layer = (gates + 1) * config.hidden * (2 if config.bidirectional else 1)
        layers = config.layers
    per_token = config.d_model + layers * per_layer
    if config.head == "language":  # logits and their gradient
        vocab = config.target_vocab or config.vocab
        per_token += vocab if config.shape == "encoder-decoder" else 2 * vocab
    return size * training.batch_tokens * per_token  # an ensemble trains one member at a time


def check_memory(
    config: ModelConfig,
    training: TrainingConfig,
    device: torch.device,
    model: Mapping[str, Any],
) -> None:
    """Raise an error that names the keys to lower if a run cannot fit in memory. model: the
    recipe's section of that name."""
    available = available_bytes(device)
    if available is None:
        return
    try:
        need = estimate(config, training)
    except (RuntimeError, OverflowError, TypeError):  # sizes that torch cannot even count
        raise ConfigError(
            f"this model is far too large: its parameters cannot even be counted, and {device} has "
            f"{_words(available)} of memory available; lower {_keys(config, model)}"
        ) from None
    # With fsdp, gradients and optimizer are sharded; each process also has whole weights.
    processes = int(os.environ.get("WORLD_SIZE", "1")) if training.parallel == "fsdp" else 1
    steady = need.weights + need.activations
    if steady + (need.total - steady) // processes <= available:
        return
    parts = {
        "weights": need.weights, "gradients": need.gradients,
        f"state of {training.optimizer}": need.optimizer, "average": need.average,
        f"activations of {training.batch_tokens:,} tokens": need.activations,
    }  # fmt: skip
    listed = ", ".join(f"{name} {_words(size)}" for name, size in parts.items() if size)
    raise ConfigError(
        f"training this model ({need.parameters:,} parameters) needs about {_words(need.total)} "
        f"({listed}), but only {_words(available)} of memory is available on {device}; lower "
        f"{_keys(config, model, need, available)}"
    )


def _keys(
    config: ModelConfig, model: Mapping[str, Any], need: Footprint | None = None, available: int = 0
) -> str:
    """The names and values of the keys to lower, as text. Keys far above the usual size come
    first."""
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
    """Format a size in bytes, such as 1.5 GiB."""
    value, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    place = 0
    while value >= 1024 and place < len(units) - 1:
        value, place = value / 1024, place + 1
    return f"{value:,.0f} {units[place]}" if place == 0 else f"{value:,.1f} {units[place]}"
