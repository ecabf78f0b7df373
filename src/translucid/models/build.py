"""From a configuration to a model."""

from collections.abc import Mapping
from typing import Any, get_args

from translucid.core.errors import ConfigError
from translucid.models.adapters import adapt
from translucid.models.base import (
    Decoder,
    DecoderModel,
    Encoder,
    EncoderDecoderModel,
    EncoderModel,
    Network,
)
from translucid.models.ensemble import Ensemble, GeneratingEnsemble
from translucid.models.heads import Head, MaskedLanguageHead, make_head
from translucid.models.mlp import MLP, MLPConfig
from translucid.models.perceptron import Perceptron, PerceptronConfig
from translucid.models.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentEncoder
from translucid.models.transformer import (
    TransformerConfig,
    TransformerDecoder,
    TransformerEncoder,
    norm_of,
)
from translucid.parts.characters import Characters, WordDropout
from translucid.parts.ngrams import make_ngram_features
from translucid.parts.segments import Segments
from translucid.parts.tokens import InputPart

ModelConfig = PerceptronConfig | MLPConfig | RecurrentConfig | TransformerConfig


def config_from(values: Mapping[str, Any]) -> ModelConfig:
    """A configuration from its plain values, `kind` among them, as a model folder holds them."""
    options = {name: value for name, value in values.items() if name != "kind"}
    kinds = {config.model_fields["kind"].default: config for config in get_args(ModelConfig)}
    if not isinstance(kind := values.get("kind"), str) or kind not in kinds:
        raise ConfigError(f"kind = {kind!r}: no such kind of model; there are {', '.join(kinds)}")
    config: ModelConfig = kinds[kind](**options)
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
    if config.ensemble_size > 1:
        return _ensemble(config)
    network = _sequence_model(config)
    if isinstance(config, TransformerConfig) and config.lora_rank:
        adapt(network, config)
    return network


def _sequence_model(config: RecurrentConfig | TransformerConfig) -> Network:
    match config.shape:
        case "encoder":
            encoder = _encoder(config, _input_parts(config))
            ngrams = make_ngram_features(
                config.vocab, config.ngram_features, config.outputs, config.dropout
            )
            return EncoderModel(config, encoder, _encoder_head(config, encoder), ngrams)
        case "decoder":
            return DecoderModel(config, _decoder(config))
        case "encoder-decoder":
            return EncoderDecoderModel(config, _encoder(config), _decoder(config))


def _encoder_head(config: RecurrentConfig | TransformerConfig, encoder: Encoder) -> Head:
    if config.head == "fill":
        assert isinstance(config, TransformerConfig), "the config was validated"
        tied = encoder.embedding if config.tied else None
        dense = config.head_dense or "gelu"
        return MaskedLanguageHead(encoder.d_output, config.vocab, norm_of(config), dense, tied)
    return make_head(
        config.head,
        encoder.d_output,
        config.outputs,
        config.pooling,
        config.head_dense,
        normalise=config.normalise,
    )


def _ensemble(config: RecurrentConfig | TransformerConfig) -> Ensemble:
    alone = config.model_copy(update={"ensemble_size": 1})
    members = [build(alone) for _ in range(config.ensemble_size)]
    if config.shape == "decoder" and config.head == "language":
        return GeneratingEnsemble([m for m in members if isinstance(m, DecoderModel)], config)
    return Ensemble(config, members)


def _input_parts(config: RecurrentConfig | TransformerConfig) -> dict[str, InputPart]:
    """What an encoder makes of its tokens beside looking them up, by name."""
    parts: dict[str, InputPart] = {}
    if config.characters:
        parts["characters"] = Characters(config.characters, config.d_model)
    if isinstance(config, TransformerConfig) and config.segments:
        parts["segments"] = Segments(config.segments, config.d_model)
    if config.word_dropout:
        parts["word_dropout"] = WordDropout(config.word_dropout)
    return parts


def _encoder(
    config: RecurrentConfig | TransformerConfig, parts: Mapping[str, InputPart] | None = None
) -> Encoder:
    if isinstance(config, RecurrentConfig):
        return RecurrentEncoder(config, parts or {})
    return TransformerEncoder(config, parts or {})


def _decoder(config: RecurrentConfig | TransformerConfig) -> Decoder:
    if isinstance(config, RecurrentConfig):
        return RecurrentDecoder(config)
    return TransformerDecoder(config)
