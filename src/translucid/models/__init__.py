"""The models: perceptron, MLP, linear, n-gram, word alignment, recurrent, Transformer.

`build(config)` creates one.
"""

from translucid.models.autoregressive import GenerationInputs as GenerationInputs
from translucid.models.base import DecoderModel as DecoderModel
from translucid.models.base import EncoderDecoderModel as EncoderDecoderModel
from translucid.models.base import EncoderModel as EncoderModel
from translucid.models.base import Network as Network
from translucid.models.build import ModelConfig as ModelConfig
from translucid.models.build import build as build
from translucid.models.build import config_from as config_from
from translucid.models.lexicon import LexiconConfig as LexiconConfig
from translucid.models.lexicon import LexiconModel as LexiconModel
from translucid.models.linear import LinearConfig as LinearConfig
from translucid.models.linear import LinearRegression as LinearRegression
from translucid.models.linear import LinearScores as LinearScores
from translucid.models.linear_text import LinearClassifier as LinearClassifier
from translucid.models.linear_text import LinearTagger as LinearTagger
from translucid.models.mlp import MLP as MLP
from translucid.models.mlp import MLPConfig as MLPConfig
from translucid.models.mlp import Perceptron as Perceptron
from translucid.models.mlp import PerceptronConfig as PerceptronConfig
from translucid.models.ngram import NGramConfig as NGramConfig
from translucid.models.ngram import NGramModel as NGramModel
from translucid.models.recurrent import RecurrentConfig as RecurrentConfig
from translucid.models.recurrent import RecurrentEncoder as RecurrentEncoder
from translucid.models.transformer import Layer as Layer
from translucid.models.transformer import Stack as Stack
from translucid.models.transformer import TransformerConfig as TransformerConfig
