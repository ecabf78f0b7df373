"""Worked solutions: give numbers, get every step as a teacher writes it.

Each function runs the real parts in float64 with a trace and writes the trace down through the
catalogue. Called without numbers, it shows a built-in example.
"""

from translucid.worked.attention import attention
from translucid.worked.beam import beam
from translucid.worked.mlp import mlp
from translucid.worked.multihead import multihead
from translucid.worked.params import params
from translucid.worked.perceptron import perceptron
from translucid.worked.positions import positions
from translucid.worked.recurrent import gru, lstm, rnn
from translucid.worked.softmax import softmax
from translucid.worked.solution.content import Step
from translucid.worked.solution.solution import Solution

__all__ = [
    "Solution",
    "Step",
    "attention",
    "beam",
    "gru",
    "lstm",
    "mlp",
    "multihead",
    "params",
    "perceptron",
    "positions",
    "rnn",
    "softmax",
]
