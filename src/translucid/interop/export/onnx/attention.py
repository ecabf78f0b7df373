"""Attention and feed-forward layers of a Transformer as nodes, with the points of their parts.

Shapes: x (batch, positions, d_model); per head (batch, heads, positions, d_head).
"""

import math
from dataclasses import dataclass

import numpy as np

from translucid.interop.export.onnx.graph import Graph
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.activations import ActivationName
from translucid.parts.feedforward import GATES
from translucid.parts.norms import EPSILON, NormName


@dataclass(frozen=True)
class OnnxLayout:
    """What all layers of a stack share, as values of the graph."""

    mask: str  # broadcasts to (batch, heads, queries, keys)
    bias: str | None = None
    turns: tuple[str, str] | None = None  # cosines and sines (batch, 1, queries, pairs)


def norm(g: Graph, c: TransformerConfig, name: str, x: str) -> str:
    """The norm of this name, of the kind that the whole model has."""
    eps = c.norm_eps or EPSILON[c.norm]
    if c.norm == "none":
        return g.point(f"{name}.output", x)
    if not g.traced and c.norm == "layer":
        shift = [g.weight(f"{name}.shift")] if g.has(f"{name}.shift") else []
        gain = g.weight(f"{name}.gain")
        return g.op("LayerNormalization", x, gain, *shift, axis=-1, epsilon=eps)
    y = g.op("Mul", _normalised(g, c.norm, name, x, eps), g.weight(f"{name}.gain"))
    if g.has(f"{name}.shift"):
        y = g.op("Add", y, g.weight(f"{name}.shift"))
    return g.point(f"{name}.output", y)


def _normalised(g: Graph, kind: NormName, name: str, x: str, eps: float) -> str:
    if kind == "rms":
        rms = g.point(f"{name}.rms", _rms(g, x, eps))
        return g.point(f"{name}.normalised", g.op("Div", x, rms))
    if kind == "layer":
        mean = _mean(g, x)
        centred = g.op("Sub", x, mean)
        variance = _mean(g, g.op("Mul", centred, centred))
    else:  # batch: the statistics of training
        shape = g.op("Shape", x)
        mean, variance = (
            g.op("Expand", g.weight(f"{name}.running_{part}"), shape)
            for part in ("mean", "variance")
        )
        centred = g.op("Sub", x, mean)
    g.point(f"{name}.mean", mean)
    g.point(f"{name}.variance", variance)
    deviation = g.op("Sqrt", g.op("Add", variance, g.number(eps)))
    return g.point(f"{name}.normalised", g.op("Div", centred, deviation))


def _mean(g: Graph, x: str) -> str:
    return g.op("ReduceMean", x, g.ints(-1), keepdims=1)


def _rms(g: Graph, x: str, eps: float) -> str:
    return g.op("Sqrt", g.op("Add", _mean(g, g.op("Mul", x, x)), g.number(eps)))


def enter(g: Graph, c: TransformerConfig, name: str, x: str) -> str:
    """What a sub-layer reads."""
    return norm(g, c, f"{name}.norm", x) if c.placement == "pre" else x


def leave(g: Graph, c: TransformerConfig, name: str, x: str, branch: str) -> str:
    """What the next layer reads."""
    total = g.op("Add", g.point(f"{name}.skip", x), g.point(f"{name}.branch", branch))
    total = g.point(f"{name}.sum", total)
    return norm(g, c, f"{name}.norm", total) if c.placement == "post" else total


def in_heads(g: Graph, c: TransformerConfig, x: str, heads: int) -> str:
    """From (batch, positions, heads * d_head) to (batch, heads, positions, d_head)."""
    apart = g.op("Reshape", x, g.ints(0, 0, heads, c.head_size))
    return g.op("Transpose", apart, perm=[0, 2, 1, 3])


def self_attention(
    g: Graph, c: TransformerConfig, name: str, x: str, layout: OnnxLayout,
    past: tuple[str, str] | None,
) -> tuple[str, tuple[str, str]]:  # fmt: skip
    """Outputs, and keys and values of all positions so far."""
    counts = (c.heads, c.kv_heads or c.heads, c.kv_heads or c.heads)
    sizes = g.ints(*(count * c.head_size for count in counts))
    parts = g.ops("Split", 3, g.linear(f"{name}.qkv", x), sizes, axis=2)
    q, k, v = (
        g.point(f"{name}.{role}", in_heads(g, c, part, count))
        for role, part, count in zip(("query", "key", "value"), parts, counts, strict=True)
    )
    if c.qk_norm:
        q = g.point(f"{name}.normed_query", _head_norm(g, c, f"{name}.query_norm", q))
        k = g.point(f"{name}.normed_key", _head_norm(g, c, f"{name}.key_norm", k))
    if layout.turns is not None:
        q = g.point(f"{name}.rotated_query", _turned(g, c, q, layout.turns))
        k = g.point(f"{name}.rotated_key", _turned(g, c, k, layout.turns))
    if past is not None:
        k, v = (g.op("Concat", *both, axis=2) for both in zip(past, (k, v), strict=True))
    return attend(g, c, name, q, k, v, layout, c.score_factor), (k, v)


def cross_attention(
    g: Graph, c: TransformerConfig, name: str, x: str, source: tuple[str, str], mask: str
) -> str:
    """source: keys and values; mask: (batch, keys)."""
    query = in_heads(g, c, g.linear(f"{name}.query", x), c.heads)
    q, k, v = (
        g.point(f"{name}.{role}", value)
        for role, value in zip(("query", "key", "value"), (query, *source), strict=True)
    )
    return attend(g, c, name, q, k, v, OnnxLayout(g.axes(mask, 1, 2)), 1.0)


def attend(
    g: Graph, c: TransformerConfig, name: str, q: str, k: str, v: str, layout: OnnxLayout,
    factor: float,
) -> str:  # fmt: skip
    groups = c.heads // (c.kv_heads or c.heads)
    if groups > 1:
        k, v = _repeated(g, c, k, groups), _repeated(g, c, v, groups)
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    g.point(f"{name}.scores", scores)
    scale = g.number(factor / math.sqrt(c.head_size) if c.scaled else factor)
    scores = g.point(f"{name}.scaled", g.op("Mul", scores, g.point(f"{name}.scale", scale)))
    if layout.bias is not None:
        scores = g.point(f"{name}.biased", g.op("Add", scores, layout.bias))
    mask = layout.mask
    if g.traced:
        mask = g.point(f"{name}.mask", g.op("Expand", mask, g.op("Shape", scores)), "bool")
        never = g.constant(np.float32(-np.inf))
        g.point(f"{name}.masked", g.op("Where", mask, scores, never))
    pattern = g.point(f"{name}.pattern", g.softmax(scores, mask, name))
    mixed = g.point(f"{name}.mixed", g.op("MatMul", pattern, v))
    joined = g.op("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = g.op("Reshape", joined, g.ints(0, 0, c.heads * c.head_size))
    return g.point(f"{name}.output", g.linear(f"{name}.output", joined))


def _repeated(g: Graph, c: TransformerConfig, x: str, groups: int) -> str:
    """Each head of (batch, kv_heads, keys, d_head) so many times in a row."""
    many = g.op("Concat", *[g.axes(x, 2)] * groups, axis=2)
    return g.op("Reshape", many, g.shape(g.size(x, 0), g.ints(c.heads), g.size(x, 2), g.size(x, 3)))


def _head_norm(g: Graph, c: TransformerConfig, name: str, x: str) -> str:
    rms = _rms(g, x, c.norm_eps or EPSILON["rms"])
    return g.op("Mul", g.op("Div", x, rms), g.weight(f"{name}.gain"))


def _turned(g: Graph, c: TransformerConfig, x: str, turns: tuple[str, str]) -> str:
    """Pairs of dimensions, turned."""
    paired = int(c.head_size * c.rotary_fraction)
    even, odd = (
        g.op("Slice", x, g.ints(start), g.ints(paired), g.ints(3), g.ints(2)) for start in (0, 1)
    )
    cos, sin = turns
    first = g.op("Sub", g.op("Mul", even, cos), g.op("Mul", odd, sin))
    second = g.op("Add", g.op("Mul", even, sin), g.op("Mul", odd, cos))
    both = g.op("Concat", g.axes(first, 4), g.axes(second, 4), axis=4)
    turned = g.op("Reshape", both, g.ints(0, 0, 0, paired))
    if paired == c.head_size:
        return turned
    rest = g.slice(x, g.ints(paired), g.ints(c.head_size), 3)
    return g.op("Concat", turned, rest, axis=3)


def feedforward(g: Graph, c: TransformerConfig, name: str, x: str) -> str:
    hidden = g.linear(f"{name}.expand", x)
    activation = c.activation
    if activation == "swiglu" or activation == "geglu" or activation == "geglu_tanh":
        inner: ActivationName = GATES[activation]
        gate, hidden = g.ops("Split", 2, hidden, axis=2, num_outputs=2)
        g.point(f"{name}.hidden", hidden)
        gate = g.point(f"{name}.gate", g.activation(inner, gate))
        hidden = g.op("Mul", gate, hidden)
    else:
        hidden = g.activation(activation, g.point(f"{name}.hidden", hidden))
    hidden = g.point(f"{name}.activated", hidden)
    return g.point(f"{name}.output", g.linear(f"{name}.output", hidden))
