"""A Transformer as ONNX graphs: an encoder, and a decoder that takes and gives keys and values.

A decoder reads a whole prompt and a step alike: `mask` covers past and new tokens, and without a
past the keys and values that it takes have length 0.
Shapes: ids (batch, queries); mask (batch, past + queries); past_keys, past_values (layers, batch,
kv_heads, past, d_head).
"""

import torch

from translucid.interop.export.onnx.attention import (
    OnnxLayout,
    cross_attention,
    enter,
    feedforward,
    in_heads,
    leave,
    norm,
    self_attention,
)
from translucid.interop.export.onnx.graph import Graph
from translucid.interop.export.onnx.inputs import looked_up
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.positions import Alibi, Rotary, Sinusoidal
from translucid.parts.relative import RelativeBias

BATCH, QUERIES, KEYS, PAST, SOURCE = "batch", "queries", "keys", "past", "source_length"


class OnnxStack:
    """One stack, written into a graph. length: rows of tables of what is computed here."""

    def __init__(self, graph: Graph, config: TransformerConfig, side: str, length: int) -> None:
        self.g, self.c, self.side, self.length = graph, config, side, length
        self.causal = side == "decoder"
        self.cross = self.causal and config.shape == "encoder-decoder"
        self.layers = config.layers
        if self.cross:
            self.layers = config.decoder_layers or config.layers

    def run(
        self, ids: str, mask: str, past: tuple[str, str] | None = None,
        source: tuple[str, str, str] | None = None,
    ) -> tuple[str, list[tuple[str, str]]]:  # fmt: skip
        """Outputs, and the keys and values of each layer. past, source: keys and values of all
        layers; source also its mask."""
        g, c = self.g, self.c
        total = g.size(mask, 1)
        first = g.op("Sub", total, g.size(ids, 1))
        places = g.op("CumSum", g.cast(mask, "int64"), g.index(1))
        places = g.op("Max", g.op("Sub", places, g.ints(1)), g.ints(0))  # (batch, keys)
        asked = g.slice(places, first, total, 1)  # (batch, queries)
        x = self._placed(looked_up(g, c, self.side, ids), asked)
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

    # ---- where tokens stand, and whom they see ----

    def _placed(self, x: str, places: str) -> str:
        g, c, side = self.g, self.c, self.side
        rows = None
        if c.positions == "sinusoidal":
            scheme = Sinusoidal(c.d_model, layout=c.sinusoid_layout, first=c.first_position)
            rows = g.constant(scheme.encode(torch.arange(self.length)))
        elif c.positions == "learned":
            rows = g.constant(g.weights[f"{side}.positions.table"][c.first_position :])
        if rows is not None:
            encoding = g.point(f"{side}.positions.encoding", g.op("Gather", rows, places))
            x = g.point(f"{side}.positions.output", g.op("Add", x, encoding))
        return norm(g, c, f"{side}.embedding_norm", x) if c.embedding_norm else x

    def _mask(self, mask: str, places: str, asked: str, queries: str, keys: str) -> str:
        """(batch, 1, queries or 1, keys)"""
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
        """How far each key stands behind each query: (batch, queries, keys)."""
        return self.g.op("Sub", self.g.axes(places, 1), self.g.axes(asked, 2))

    def _bias(self, places: str, asked: str) -> str | None:
        g, c = self.g, self.c
        name = f"{self.side}.positions.bias"
        if c.positions == "alibi":
            distance = g.axes(g.cast(g.op("Abs", self._offset(places, asked)), "float32"), 1)
            slopes = g.constant(-Alibi(c.heads).slopes[None, :, None, None])
            return g.point(name, g.op("Mul", distance, slopes))
        if c.positions != "relative":
            return None
        scheme = RelativeBias(
            c.heads, c.relative_buckets, c.relative_distance, both_ways=not self.causal
        )
        offsets = torch.arange(-self.length, self.length + 1)
        trained = g.weights[f"{self.side}.positions.table.weight"]
        rows = g.constant(trained[scheme.bucket(offsets)])
        row = g.op("Add", self._offset(places, asked), g.ints(self.length))
        bias = g.op("Gather", rows, row)  # (batch, queries, keys, heads)
        return g.point(name, g.op("Transpose", bias, perm=[0, 3, 1, 2]))

    def _turns(self, asked: str) -> tuple[str, str] | None:
        """Cosines and sines of rotary positions: (batch, 1, queries, pairs)."""
        g, c = self.g, self.c
        if c.positions != "rotary":
            return None
        scheme = Rotary(c.head_size, c.rotary_base, c.rotary, c.rotary_fraction)
        angles = scheme.angles(torch.arange(self.length)[None])[0]
        if g.traced:
            g.point(f"{self.side}.positions.angles", g.op("Gather", g.constant(angles), asked))
        tables = g.constant(angles.cos()), g.constant(angles.sin())
        cos, sin = (g.axes(g.op("Gather", rows, asked), 1) for rows in tables)
        return cos, sin


def encoder(g: Graph, c: TransformerConfig, ids: str, mask: str, length: int) -> str:
    return OnnxStack(g, c, "encoder", length).run(ids, mask)[0]


def whole_decoder(g: Graph, c: TransformerConfig, ids: str, mask: str, length: int) -> str:
    """Of a model that labels what it reads from left to right."""
    return OnnxStack(g, c, "decoder", length).run(ids, mask)[0]


def start(g: Graph, c: TransformerConfig, outputs: str, mask: str) -> None:
    """What a decoder begins with: keys and values of the encoder's output, projected once, and an
    empty past."""
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


def step(g: Graph, c: TransformerConfig, ids: str, mask: str, length: int) -> str:
    """Outputs for the newest tokens; keys and values of all become outputs of the graph."""
    stack = OnnxStack(g, c, "decoder", length)
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
    outputs, states = stack.run(ids, mask, past, source)
    keys, values = zip(*states, strict=True)
    g.output("new_keys", g.op("Concat", *(g.axes(part, 0) for part in keys), axis=0))
    g.output("new_values", g.op("Concat", *(g.axes(part, 0) for part in values), axis=0))
    return outputs
