"""From a configuration to a model."""

from collections.abc import Mapping
from typing import Any, get_args

from translucid.errors import ConfigError
from translucid.models.base import (
    Decoder,
    DecoderModel,
    Encoder,
    EncoderDecoderModel,
    EncoderModel,
    Network,
)
from translucid.models.committee import Committee, WritingCommittee
from translucid.models.mlp import MLP, MLPConfig
from translucid.models.perceptron import Perceptron, PerceptronConfig
from translucid.models.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentEncoder
from translucid.models.transformer import TransformerConfig, TransformerDecoder, TransformerEncoder

ModelConfig = PerceptronConfig | MLPConfig | RecurrentConfig | TransformerConfig


def config_from(values: Mapping[str, Any]) -> ModelConfig:
    """A configuration from its plain values, `kind` among them, as a model folder holds them."""
    options = {name: value for name, value in values.items() if name != "kind"}
    kinds = {config.model_fields["kind"].default: config for config in get_args(ModelConfig)}
    config: ModelConfig = kinds[values["kind"]](**options)
    return config


def build(config: ModelConfig) -> Network:
    """A freshly initialised model; the random numbers are torch's, so seed torch first."""
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            f"build({config!r}): give a PerceptronConfig, MLPConfig, RecurrentConfig or "
            f"TransformerConfig, made with its sizes"
        )
    match config:
        case PerceptronConfig():
            return Perceptron(config)
        case MLPConfig():
            return MLP(config)
    if config.members > 1:
        return _committee(config)
    match config.shape:
        case "encoder":
            return EncoderModel(config, _encoder(config))
        case "decoder":
            return DecoderModel(config, _decoder(config))
        case "encoder-decoder":
            return EncoderDecoderModel(config, _encoder(config), _decoder(config))


def _committee(config: RecurrentConfig | TransformerConfig) -> Committee:
    alone = config.model_copy(update={"members": 1})
    members = [build(alone) for _ in range(config.members)]
    if config.shape == "decoder" and config.head == "language":
        return WritingCommittee(config, [m for m in members if isinstance(m, DecoderModel)])
    return Committee(config, [m for m in members if isinstance(m, EncoderModel | DecoderModel)])


def _encoder(config: RecurrentConfig | TransformerConfig) -> Encoder:
    if isinstance(config, RecurrentConfig):
        return RecurrentEncoder(config)
    return TransformerEncoder(config)


def _decoder(config: RecurrentConfig | TransformerConfig) -> Decoder:
    if isinstance(config, RecurrentConfig):
        return RecurrentDecoder(config)
    return TransformerDecoder(config)
