"""From ids to vectors as nodes: the embedding table, and what else an encoder reads of a token."""

import math

import numpy as np

from translucid.interop.export.onnx.graph import Graph
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig

WIDTH = 3  # of the filters over characters, as parts.characters has it


def looked_up(g: Graph, c: SequenceConfig, side: str, ids: str) -> str:
    """The vector of each token: (batch, length, d_model)."""
    name = f"{side}.embedding"
    x = g.point(f"{name}.lookup", g.op("Gather", g.weight(f"{name}.table.weight"), ids))
    if isinstance(c, TransformerConfig) and c.embedding_scale:
        x = g.point(f"{name}.scaled", g.op("Mul", x, g.number(math.sqrt(c.d_model))))
    if side == "encoder" and c.characters:
        x = g.point("encoder.characters.sum", g.op("Add", x, _characters(g)))
    if side == "encoder" and isinstance(c, TransformerConfig) and c.segments:
        first = g.constant(g.weights["encoder.segments.table.weight"][0])  # one text a row
        rows = g.point("encoder.segments.lookup", g.op("Expand", first, g.op("Shape", x)))
        x = g.point("encoder.segments.sum", g.op("Add", x, rows))
    return x


def _characters(g: Graph) -> str:
    """What the characters of each word say."""
    at = "encoder.characters"
    ids = g.input("characters", "int64", ("batch", "keys", "characters"))
    inside = g.op("Greater", ids, g.ints(0))
    real = g.axes(g.cast(inside, "float32"), 3)
    x = g.op("Mul", g.op("Gather", g.weight(f"{at}.table.weight"), ids), real)
    g.point(f"{at}.lookup", x)
    pads = np.zeros(8, dtype=np.int64)
    pads[[2, 6]] = WIDTH - 1
    around = g.op("Pad", x, g.constant(pads))
    apart = g.op("Concat", *(g.axes(part, 4) for part in _windows(g, around, x)), axis=4)
    windows = g.op("Reshape", apart, g.ints(0, 0, 0, -1))  # (batch, length, windows, inputs)
    slid = g.point(f"{at}.convolved", g.linear(f"{at}.filters", windows))
    marks = _windows(g, g.op("Pad", real, g.constant(pads)), x)
    answers = g.op("Mul", g.op("Relu", slid), g.op("Max", *marks))
    g.point(f"{at}.activated", answers)
    loudest = g.op("ReduceMax", answers, g.ints(2), keepdims=0)
    return g.point(f"{at}.output", g.linear(f"{at}.linear", g.point(f"{at}.loudest", loudest)))


def _windows(g: Graph, around: str, x: str) -> list[str]:
    """One character of each window after the other: (batch, length, windows, ...)."""
    many = g.op("Add", g.size(x, 2), g.ints(WIDTH - 1))
    return [g.slice(around, g.ints(i), g.op("Add", many, g.ints(i)), 2) for i in range(WIDTH)]
