"""The layers that models consist of. Each computes one formula and traces every step of it."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.parts.activations import ACTIVATIONS as ACTIVATIONS
    from translucid.parts.activations import ActivationName as ActivationName
    from translucid.parts.activations import softmax as softmax
    from translucid.parts.attention import Layout as Layout
    from translucid.parts.attention import SelfAttention as SelfAttention
    from translucid.parts.cache import KVCache as KVCache
    from translucid.parts.embedding import LanguageHead as LanguageHead
    from translucid.parts.embedding import Tokens as Tokens
    from translucid.parts.feedforward import Dense as Dense
    from translucid.parts.feedforward import FeedForward as FeedForward
    from translucid.parts.norms import BatchNorm as BatchNorm
    from translucid.parts.norms import LayerNorm as LayerNorm
    from translucid.parts.norms import NormName as NormName
    from translucid.parts.norms import Placement as Placement
    from translucid.parts.norms import Residual as Residual
    from translucid.parts.norms import RMSNorm as RMSNorm
    from translucid.parts.norms import Standardise as Standardise
    from translucid.parts.norms import make_norm as make_norm
    from translucid.parts.positions import PositionName as PositionName
    from translucid.parts.positions import Rotary as Rotary
    from translucid.parts.positions import Sinusoidal as Sinusoidal
    from translucid.parts.positions import frequencies as frequencies
    from translucid.parts.positions import period as period
    from translucid.parts.positions import rotate as rotate
    from translucid.parts.recurrent import Recurrent as Recurrent
    from translucid.parts.recurrent_cells import STEPS as STEPS
    from translucid.parts.recurrent_cells import CellName as CellName
    from translucid.parts.switch import Switch as Switch

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "activations": ["ACTIVATIONS", "ActivationName", "softmax"],
        "attention": ["Layout", "SelfAttention"],
        "cache": ["KVCache"],
        "embedding": ["LanguageHead", "Tokens"],
        "feedforward": ["Dense", "FeedForward"],
        "norms": [
            "BatchNorm",
            "LayerNorm",
            "NormName",
            "Placement",
            "RMSNorm",
            "Residual",
            "Standardise",
            "make_norm",
        ],
        "positions": ["PositionName", "Rotary", "Sinusoidal", "frequencies", "period", "rotate"],
        "recurrent": ["Recurrent"],
        "recurrent_cells": ["CellName", "STEPS"],
        "switch": ["Switch"],
    },
)
