"""What a family makes of a description: a configuration of ours, and rules for the weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from translucid.errors import ConfigError, InputError
from translucid.interop.rules import Rule
from translucid.models.build import ModelConfig
from translucid.models.transformer_config import TransformerConfig


@dataclass(frozen=True)
class Plan:
    """All that is needed to open a model, but its tensors and tokenizers."""

    family: str  # for people
    task: str
    config: ModelConfig
    rules: list[Rule]
    ignored: tuple[str, ...] = ()  # patterns of tensors that hold no weights
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what was done to the weights, a line each
    statistics: Mapping[str, Any] = field(default_factory=dict)  # what its task has to know


def transformer(where: str, **options: Any) -> TransformerConfig:
    """A configuration of ours; what cannot be is told of the file that asked for it."""
    try:
        return TransformerConfig(**options)
    except ConfigError as error:
        raise InputError(f"{where} describes a model that cannot be built: {error}") from None


def check_layers(layers: int, tensors: int, where: str) -> int:
    """Before a rule is made for every layer."""
    if layers > tensors:
        raise InputError(
            f"{where}: {layers:,} layers, but the weights hold only {tensors:,} tensors; the "
            "configuration is not that of these weights"
        )
    return layers
