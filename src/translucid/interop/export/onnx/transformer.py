"""Build ONNX graphs of a Transformer: an encoder, and a decoder that takes and returns keys and
values.

The decoder handles prompts and single steps: `mask` covers past and new tokens, and an empty past
has length 0. The trace points have the same names as in the network.

Shapes: x (batch, queries, d_model); per head (batch, heads, queries, d_head); mask (batch,
past + queries); past_keys, past_values (layers, batch, kv_heads, past, d_head).
"""

import math
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch

from translucid.interop.export.onnx.graph import BATCH, PAST, SOURCE, Graph
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.activations import ActivationName
from translucid.parts.feedforward import GATES
from translucid.parts.norms import EPSILON, NormName
from translucid.parts.positions import Alibi, NoPositions


@dataclass(frozen=True)
class OnnxLayout:
    """Values that all layers of a stack share."""

    mask: str  # broadcasts to (batch, heads, queries, keys)
    bias: str | None = None
    turns: tuple[str, str] | None = None  # cosines and sines (batch, 1, queries, pairs)


class OnnxStack:
    """Builds one stack of layers into a graph. positions: the network's own position module.
    length: rows of the tables that replace computed positions."""

    def __init__(
        self, graph: Graph, config: TransformerConfig, side: str, positions: NoPositions,
        length: int,
    ) -> None:  # fmt: skip
        self.g, self.c, self.side, self.length = graph, config, side, length
        self.positions = deepcopy(positions).cpu()
        self.causal = side == "decoder"
        self.cross = self.causal and config.shape == "encoder-decoder"
        self.layers = config.layers
        if self.cross:
            self.layers = config.decoder_layers or config.layers

    def run(
        self, x: str, mask: str, past: tuple[str, str] | None = None,
        source: tuple[str, str, str] | None = None,
    ) -> tuple[str, list[tuple[str, str]]]:  # fmt: skip
        """Run the stack; returns outputs, and the keys and values of each layer. past, source: keys
        and values of all layers; source also contains its mask."""
        g, c = self.g, self.c
        total = g.size(mask, 1)
        first = g.op("Sub", total, g.size(x, 1))
        places = g.op("CumSum", g.cast(mask, "int64"), g.index(1))
        places = g.op("Max", g.op("Sub", places, g.ints(1)), g.ints(0))  # (batch, keys)
        asked = g.slice(places, first, total, 1)  # (batch, queries)
        x = self._placed(x, asked)
        turns, bias = self._turns(asked), self._bias(places, asked)
        queries, keys = g.range(first, total), g.range(g.ints(0), total)
        layout = OnnxLayout(self._mask(mask, places, asked, queries, keys), bias, turns)
        states = []
        for i in range(self.layers):
            before = None if past is None else (self._of(past[0], i), self._of(past[1], i))
            x, kept = self._layer(i, x, layout, before, source)
            states.append(kept)
        if not c.has_final_norm:
            return g.point(f"{self.side}.final_norm.output", x), states
        return norm(g, c, f"{self.side}.final_norm", x), states

    def _of(self, stacked: str, layer: int) -> str:
        return self.g.op("Gather", stacked, self.g.index(layer), axis=0)

    def _layer(
        self, i: int, x: str, layout: OnnxLayout, past: tuple[str, str] | None,
        source: tuple[str, str, str] | None,
    ) -> tuple[str, tuple[str, str]]:  # fmt: skip
        g, c, at = self.g, self.c, f"{self.side}.layers.{i}"
        start = x
        name = f"{at}.self_attention"
        y = enter(g, c, f"{name}_residual", x)
        y, kept = self_attention(g, c, name, y, layout, past)
        x = leave(g, c, f"{name}_residual", x, y)
        if source is not None:
            name = f"{at}.cross_attention"
            y = enter(g, c, f"{name}_residual", x)
            projected = self._of(source[0], i), self._of(source[1], i)
            y = cross_attention(g, c, name, y, projected, source[2])
            x = leave(g, c, f"{name}_residual", x, y)
        name = f"{at}.feedforward"
        y = enter(g, c, f"{name}_residual", start if c.parallel_residual else x)
        return leave(g, c, f"{name}_residual", x, feedforward(g, c, name, y)), kept

    # ---- positions and masks ----

    def _placed(self, x: str, places: str) -> str:
        """Add the position vectors, looked up in a table, to x."""
        g, c, side = self.g, self.c, self.side
        if type(self.positions).add is not NoPositions.add:
            length = c.max_length if self.positions.limited else self.length
            nothing = torch.zeros(1, length, c.d_model)
            rows = g.constant(self.positions.add(nothing, torch.arange(length)[None])[0])
            encoding = g.point(f"{side}.positions.encoding", g.op("Gather", rows, places))
            x = g.point(f"{side}.positions.output", g.op("Add", x, encoding))
        return norm(g, c, f"{side}.embedding_norm", x) if c.embedding_norm else x

    def _mask(self, mask: str, places: str, asked: str, queries: str, keys: str) -> str:
        """Which keys each query may attend to: (batch, 1, queries or 1, keys)."""
        g, at = self.g, f"{self.side}.masks"
        seen = g.point(f"{at}.padding", g.axes(mask, 1, 2), "bool")
        if self.causal:
            earlier = g.op("LessOrEqual", g.axes(keys, 0), g.axes(queries, 1))
            earlier = g.point(f"{at}.causal", g.axes(earlier, 0, 1), "bool")
            seen = g.op("And", seen, earlier)
        if self.c.window is not None:
            distance = g.op("Abs", self._offset(places, asked))
            near = g.axes(g.op("Less", distance, g.ints(self.c.window)), 1)
            seen = g.op("And", seen, g.point(f"{at}.window", near, "bool"))
        return seen

    def _offset(self, places: str, asked: str) -> str:
        """Position of each key minus that of each query: (batch, queries, keys)."""
        return self.g.op("Sub", self.g.axes(places, 1), self.g.axes(asked, 2))

    def _bias(self, places: str, asked: str) -> str | None:
        """The attention bias, which depends only on the offset: (batch, heads, queries, keys)."""
        g, name = self.g, f"{self.side}.positions.bias"
        if isinstance(self.positions, Alibi):
            distance = g.axes(g.cast(g.op("Abs", self._offset(places, asked)), "float32"), 1)
            slopes = g.constant(-self.positions.slopes[None, :, None, None])
            return g.point(name, g.op("Mul", distance, slopes))
        offsets = torch.arange(-self.length, self.length + 1)
        table = self.positions.bias(torch.zeros(1, 1, dtype=torch.long), offsets[None])
        if table is None:
            return None
        rows = g.constant(table[0, :, 0].t())  # (offsets, heads)
        row = g.op("Add", self._offset(places, asked), g.ints(self.length))
        bias = g.op("Gather", rows, row)  # (batch, queries, keys, heads)
        return g.point(name, g.op("Transpose", bias, perm=[0, 3, 1, 2]))

    def _turns(self, asked: str) -> tuple[str, str] | None:
        """Cosines and sines of rotary positions: (batch, 1, queries, pairs)."""
        g, angles = self.g, self.positions.angles(torch.arange(self.length)[None])
        if angles is None:
            return None
        if g.traced:
            g.point(f"{self.side}.positions.angles", g.op("Gather", g.constant(angles[0]), asked))
        tables = g.constant(angles[0].cos()), g.constant(angles[0].sin())
        cos, sin = (g.axes(g.op("Gather", rows, asked), 1) for rows in tables)
        return cos, sin


def start(g: Graph, c: TransformerConfig, outputs: str, mask: str) -> None:
    """Add the initial decoder state as graph outputs: keys and values of the encoder's output, and
    an empty past."""
    layers, heads = c.decoder_layers or c.layers, c.kv_heads or c.heads
    both: tuple[list[str], list[str]] = ([], [])
    for i in range(layers):
        name = f"decoder.layers.{i}.cross_attention.kv"
        parts = g.ops("Split", 2, g.linear(name, outputs), axis=2, num_outputs=2)
        for part, stacked in zip(parts, both, strict=True):
            stacked.append(g.axes(in_heads(g, c, part, heads), 0))
    g.output("source_keys", g.op("Concat", *both[0], axis=0))
    g.output("source_values", g.op("Concat", *both[1], axis=0))
    g.output("source_mask", mask, "bool")
    rows = g.size(mask, 0)
    for name in ("past_keys", "past_values"):
        sizes = g.ints(layers), rows, g.ints(heads), g.ints(0), g.ints(c.head_size)
        g.output(name, g.zeros(*sizes))


def step(stack: OnnxStack, x: str, mask: str) -> str:
    """Compute outputs for the newest tokens; the keys and values of all tokens become outputs of
    the graph."""
    g, c = stack.g, stack.c
    heads = c.kv_heads or c.heads
    shape = (stack.layers, BATCH, heads, PAST, c.head_size)
    past = g.input("past_keys", "float32", shape), g.input("past_values", "float32", shape)
    source = None
    if stack.cross:
        shape = (stack.layers, BATCH, heads, SOURCE, c.head_size)
        source = (
            g.input("source_keys", "float32", shape), g.input("source_values", "float32", shape),
            g.input("source_mask", "bool", (BATCH, SOURCE)),
        )  # fmt: skip
    outputs, states = stack.run(x, mask, past, source)
    keys, values = zip(*states, strict=True)
    g.output("new_keys", g.op("Concat", *(g.axes(part, 0) for part in keys), axis=0))
    g.output("new_values", g.op("Concat", *(g.axes(part, 0) for part in values), axis=0))
    return outputs


# ---- layers ----


def norm(g: Graph, c: TransformerConfig, name: str, x: str) -> str:
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
    else:  # batch norm uses the statistics from training
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
    """The input of a sub-layer: x, normalised in pre-norm models."""
    return norm(g, c, f"{name}.norm", x) if c.placement == "pre" else x


def leave(g: Graph, c: TransformerConfig, name: str, x: str, branch: str) -> str:
    """The residual sum of a sub-layer's input x and its output, normalised in post-norm models."""
    total = g.op("Add", g.point(f"{name}.skip", x), g.point(f"{name}.branch", branch))
    total = g.point(f"{name}.sum", total)
    return norm(g, c, f"{name}.norm", total) if c.placement == "post" else total


def in_heads(g: Graph, c: TransformerConfig, x: str, heads: int) -> str:
    """Split (batch, positions, heads * d_head) into heads: (batch, heads, positions, d_head)."""
    apart = g.op("Reshape", x, g.ints(0, 0, heads, c.head_size))
    return g.op("Transpose", apart, perm=[0, 2, 1, 3])


def self_attention(
    g: Graph, c: TransformerConfig, name: str, x: str, layout: OnnxLayout,
    past: tuple[str, str] | None,
) -> tuple[str, tuple[str, str]]:  # fmt: skip
    """Self-attention; returns outputs, and the keys and values of all positions so far."""
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
    """Attention to the source. source: the keys and values of the source. mask: (batch, keys)."""
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
    """Repeat each head of (batch, kv_heads, keys, d_head) `groups` times."""
    many = g.op("Concat", *[g.axes(x, 2)] * groups, axis=2)
    return g.op("Reshape", many, g.shape(g.size(x, 0), g.ints(c.heads), g.size(x, 2), g.size(x, 3)))


def _head_norm(g: Graph, c: TransformerConfig, name: str, x: str) -> str:
    rms = _rms(g, x, c.norm_eps or EPSILON["rms"])
    return g.op("Mul", g.op("Div", x, rms), g.weight(f"{name}.gain"))


def _turned(g: Graph, c: TransformerConfig, x: str, turns: tuple[str, str]) -> str:
    """Rotate pairs of dimensions (rotary positions)."""
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
