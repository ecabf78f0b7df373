"""Worked solutions: exercises with your numbers, solved step by step.

Each exercise is a function that runs the real parts in float64 and writes out the traced values
with the catalogue's formulas. Called without numbers, it shows a built-in example. On the command
line, every argument is an option; its help comes from the docstring.
"""

from translucid.worked.activations import activations
from translucid.worked.attention import attention
from translucid.worked.beam import beam
from translucid.worked.board import Board
from translucid.worked.clip import clip
from translucid.worked.embedding import embedding
from translucid.worked.gradcheck import gradcheck
from translucid.worked.layers import decoder_layer, encoder_layer, feedforward
from translucid.worked.mlp import mlp
from translucid.worked.multihead import multihead
from translucid.worked.norm import norm
from translucid.worked.params import params
from translucid.worked.perceptron import perceptron
from translucid.worked.positions import positions
from translucid.worked.recurrent import gru, lstm, rnn
from translucid.worked.softmax import softmax
from translucid.worked.solution.content import SolutionTable, Step
from translucid.worked.solution.numbers import Number, Numbers, matrix, scalar, vector, whole
from translucid.worked.solution.solution import Solution
from translucid.worked.steps import steps
from translucid.worked.variance import variance

# All exercises, in teaching order; the command line lists them in the same order.
EXERCISES = (
    perceptron,
    softmax,
    embedding,
    attention,
    multihead,
    positions,
    feedforward,
    encoder_layer,
    decoder_layer,
    variance,
    activations,
    mlp,
    gradcheck,
    steps,
    clip,
    norm,
    rnn,
    lstm,
    gru,
    beam,
    params,
)

__all__ = [
    "EXERCISES",
    "Board",
    "Number",
    "Numbers",
    "Solution",
    "Step",
    "SolutionTable",
    "activations",
    "attention",
    "beam",
    "clip",
    "decoder_layer",
    "embedding",
    "encoder_layer",
    "feedforward",
    "gradcheck",
    "gru",
    "lstm",
    "matrix",
    "mlp",
    "multihead",
    "norm",
    "params",
    "perceptron",
    "positions",
    "rnn",
    "scalar",
    "softmax",
    "steps",
    "variance",
    "vector",
    "whole",
]
