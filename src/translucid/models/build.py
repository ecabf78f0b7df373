"""From a configuration to a model."""

from typing import assert_never

from translucid.models.base import DecoderModel, EncoderDecoderModel, EncoderModel, Model
from translucid.models.mlp import MLP, MLPConfig
from translucid.models.perceptron import Perceptron, PerceptronConfig
from translucid.models.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentEncoder
from translucid.models.transformer import TransformerConfig, TransformerDecoder, TransformerEncoder

ModelConfig = PerceptronConfig | MLPConfig | RecurrentConfig | TransformerConfig


def build(config: ModelConfig) -> Model:
    """A freshly initialised model; the random numbers are torch's, so seed torch first."""
    match config:
        case PerceptronConfig():
            return Perceptron(config)
        case MLPConfig():
            return MLP(config)
        case RecurrentConfig(shape="encoder"):
            return EncoderModel(config, RecurrentEncoder(config))
        case RecurrentConfig(shape="decoder"):
            return DecoderModel(config, RecurrentDecoder(config))
        case RecurrentConfig(shape="encoder-decoder"):
            return EncoderDecoderModel(config, RecurrentEncoder(config), RecurrentDecoder(config))
        case TransformerConfig(shape="encoder"):
            return EncoderModel(config, TransformerEncoder(config))
        case TransformerConfig(shape="decoder"):
            return DecoderModel(config, TransformerDecoder(config))
        case TransformerConfig(shape="encoder-decoder"):
            return EncoderDecoderModel(
                config, TransformerEncoder(config), TransformerDecoder(config)
            )
        case _:
            assert_never(config)
