"""Worked solutions: give numbers, get every step as a teacher writes it.

Each function runs the real parts in float64 with a trace and writes the trace down through the
catalogue. Called without numbers, it shows a built-in example.
"""

from translucid.glass.worked.attention import attention, multihead
from translucid.glass.worked.softmax import softmax

__all__ = ["attention", "multihead", "softmax"]
