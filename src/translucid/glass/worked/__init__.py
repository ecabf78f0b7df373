"""Worked solutions: give numbers, get every step as a teacher writes it.

Each function runs the real parts in float64 with a trace and writes the trace down through the
catalogue. Called without numbers, it shows a built-in example.
"""

from translucid.glass.content import Step
from translucid.glass.solution import Solution
from translucid.glass.worked.attention import attention
from translucid.glass.worked.beam import beam
from translucid.glass.worked.mlp import mlp
from translucid.glass.worked.multihead import multihead
from translucid.glass.worked.params import params
from translucid.glass.worked.positions import positions
from translucid.glass.worked.recurrent import gru, lstm, rnn
from translucid.glass.worked.softmax import softmax

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
    "positions",
    "rnn",
    "softmax",
]
