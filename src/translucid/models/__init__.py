"""The models: perceptron, MLP, recurrent, Transformer. `build(config)` makes one."""

from translucid.models.autoregressive import GenerationInputs as GenerationInputs
from translucid.models.base import Network as Network
from translucid.models.build import ModelConfig as ModelConfig
from translucid.models.build import build as build
from translucid.models.build import config_from as config_from
from translucid.models.mlp import MLPConfig as MLPConfig
from translucid.models.mlp import PerceptronConfig as PerceptronConfig
from translucid.models.recurrent import RecurrentConfig as RecurrentConfig
from translucid.models.transformer import TransformerConfig as TransformerConfig
