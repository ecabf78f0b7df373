"""Add LoRA adapters to the linear layers of a network, and merge them into the layers."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch
from torch import nn

from translucid.core.errors import ConfigError, nearest
from translucid.models.base import Network
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.lora import AdaptedLinear


def adapt(network: Network, config: TransformerConfig) -> None:
    """Add a LoRA adapter to each linear layer in the encoder and decoder whose name matches a
    pattern in `lora_where`."""
    stacks = ("encoder.", "decoder.")
    layers = {
        name: module
        for name, module in network.named_modules()
        if type(module) is nn.Linear and name.startswith(stacks)
    }
    alpha = config.lora_alpha or float(config.lora_rank)
    for name, layer in layers.items():
        if any(fnmatchcase(name, pattern) for pattern in config.lora_where):
            owner = network.get_submodule(name.rpartition(".")[0])
            adapted = AdaptedLinear(layer, config.lora_rank, alpha, config.lora_dropout)
            setattr(owner, name.rpartition(".")[2], adapted)


def check_adapters(network: Network, patterns: Sequence[str]) -> None:
    """Raise an error if one of the patterns matches no linear layer."""
    kinds = AdaptedLinear | nn.Linear
    layers = [name for name, module in network.named_modules() if isinstance(module, kinds)]
    layers = [name for name in layers if not name.endswith((".base", ".down", ".up"))]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in layers):
            close = nearest(pattern.replace("*", ""), layers) or layers[:1]
            raise ConfigError(
                f"model.lora_where: {pattern!r} matches no linear layer of the model; did you mean "
                f"{' or '.join(close)}?"
            )


def is_adapted(network: nn.Module) -> bool:
    return any(isinstance(module, AdaptedLinear) for module in network.modules())


@torch.no_grad()
def merge(network: Network) -> None:
    """Add the adapters' weights to their layers and remove the adapters. The network's outputs stay
    the same up to rounding."""
    if not is_adapted(network):
        return
    for name, module in list(network.named_modules()):
        if isinstance(module, AdaptedLinear):
            merged = module.base
            merged.weight.copy_(module.weight)
            merged.requires_grad_(True)
            owner = network.get_submodule(name.rpartition(".")[0])
            setattr(owner, name.rpartition(".")[2], merged)
    fields = TransformerConfig.model_fields.items()
    defaults = {key: field.default for key, field in fields if key.startswith("lora_")}
    for part in network.modules():
        config = getattr(part, "config", None)
        if isinstance(part, Network) and isinstance(config, TransformerConfig):
            part.config = config.model_copy(update=defaults)
