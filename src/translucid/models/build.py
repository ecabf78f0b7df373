"""Build a model from its configuration."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from translucid.core.errors import ConfigError, InputError
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
from translucid.models.lexicon import LexiconConfig, LexiconModel
from translucid.models.linear import LinearConfig, LinearRegression, LinearScores
from translucid.models.linear_text import LinearClassifier, LinearTagger
from translucid.models.mlp import MLP, MLPConfig, Perceptron, PerceptronConfig
from translucid.models.ngram import NGramConfig, NGramModel
from translucid.models.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentEncoder
from translucid.models.transformer import (
    TransformerConfig,
    TransformerDecoder,
    TransformerEncoder,
    norm_of,
)
from translucid.parts.characters import Characters
from translucid.parts.dropout import WordDropout
from translucid.parts.embedding import InputPart, Segments
from translucid.parts.ngrams import make_ngram_features

Counted = NGramConfig | LexiconConfig
Numeric = PerceptronConfig | MLPConfig | LinearConfig
ModelConfig = Numeric | RecurrentConfig | TransformerConfig | Counted


def config_from(values: Mapping[str, Any]) -> ModelConfig:
    """Create a configuration from a dictionary with `kind`, as stored in a model folder."""
    options = {name: value for name, value in values.items() if name != "kind"}
    kinds = {config.model_fields["kind"].default: config for config in get_args(ModelConfig)}
    if not isinstance(kind := values.get("kind"), str) or kind not in kinds:
        raise ConfigError(f"kind = {kind!r} is not a kind of model; use {', '.join(kinds)}")
    config: ModelConfig = kinds[kind](**options)
    return config


def build(config: ModelConfig) -> Network:
    """Build a model with random weights; seed torch first to make them reproducible."""
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            f"build() got {config!r}; expected an instance of PerceptronConfig, MLPConfig, "
            "LinearConfig, RecurrentConfig, TransformerConfig, NGramConfig or LexiconConfig"
        )
    match config:
        case PerceptronConfig():
            return Perceptron(config)
        case MLPConfig():
            return MLP(config)
        case LinearConfig():
            if config.inputs is not None:
                return (LinearRegression if config.head is None else LinearScores)(config)
            return (LinearTagger if config.head == "tag" else LinearClassifier)(config)
        case NGramConfig():
            return NGramModel(config)
        case LexiconConfig():
            return LexiconModel(config)
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
    """Build the input parts of an encoder in addition to the embedding, by name."""
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


FILLS = {Tensor.bernoulli_, Tensor.exponential_, Tensor.normal_, Tensor.random_, Tensor.uniform_}
DRAWS = {
    torch.bernoulli, torch.multinomial, torch.normal, torch.rand, torch.rand_like, torch.randint,
    torch.randint_like, torch.randn, torch.randn_like, torch.randperm,
}  # fmt: skip


MAKES = {torch.arange, torch.empty, torch.eye, torch.full, torch.linspace, torch.ones, torch.zeros}
SPARE_TENSORS, SPARE_VALUES = 1000, 1 << 24  # allowance for computed tables, beyond the weights


def build_undrawn(config: ModelConfig, declared: Sequence[int]) -> Network:
    """Build a network whose weights will be loaded next. Initialisation is skipped, and no random
    number generator of the process is used.

    declared: the number of values of each tensor in the file. A configuration that needs far more
    values is rejected before memory is allocated.
    """
    with _Undrawn(declared):
        return build(config)


def build_shapes(config: ModelConfig) -> Network:
    """Build a network on the meta device, to count its parameters. Initialisation is skipped: on
    this device, it would make torch import its compiler, which takes three seconds."""
    with torch.device("meta"), _Unfilled():
        return build(config)


class _Unfilled(TorchFunctionMode):
    """Skip initialisation, in this thread only."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        scales = func is Tensor.div_ and isinstance(args[0], nn.Parameter)  # at start
        if getattr(func, "__module__", None) == nn.init.__name__ or func in FILLS or scales:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]  # allocates no page
        if func in DRAWS:  # random numbers in a user's own part
            with torch.random.fork_rng(devices=[]):
                return func(*args, **kwargs)
        return func(*args, **kwargs)


class _Undrawn(_Unfilled):
    """Skip initialisation, and raise an error if the network creates far more values than
    `declared`."""

    def __init__(self, declared: Sequence[int]) -> None:
        super().__init__()
        # A tied or shared table is created twice, and one copy is discarded.
        self._tensors = 4 * len(declared) + SPARE_TENSORS
        self._values = 4 * sum(declared) + SPARE_VALUES

    def _count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._tensors -= 1
        self._values -= func(*args, **{**kwargs, "device": "meta"}).numel()
        if self._tensors < 0 or self._values < 0:
            raise InputError(
                "the configuration describes a larger model than the one whose weights are stored "
                "with it; do not use this folder unless you know who made it"
            )

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in MAKES:
            self._count(func, args, kwargs or {})
        return super().__torch_function__(func, types, args, kwargs)
