"""Build ONNX graphs of a recurrent network: an encoder, and a decoder that takes and returns its
state.

Layers become ONNX's RNN, LSTM and GRU nodes, which support texts of different lengths. With tracing
they become a loop over the formulas of the cell, so that every gate is an output.

Shapes: x (batch, length, inputs); mask (batch, length); states (layers * directions, batch,
hidden). The decoder's mask is (batch, past + queries), but only its part for the newest tokens is
used.
"""

from dataclasses import dataclass

import numpy as np
import torch

from translucid.interop.export.onnx.graph import BATCH, SOURCE, Graph, Scanned
from translucid.models.recurrent import RecurrentConfig
from translucid.parts.recurrent_cells import CellName

# The order of the gates in ONNX's weights, as indices into torch's order.
BLOCKS: dict[CellName, tuple[int, ...]] = {
    "lstm": (0, 3, 1, 2),
    "gru": (1, 0, 2),
    "rnn": (0,),
    "rnn_relu": (0,),
}
NODES: dict[CellName, str] = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN", "rnn_relu": "RNN"}


@dataclass(frozen=True)
class OnnxState:
    """Hidden state, and for an LSTM the cell state: (layers * directions, batch, hidden)."""

    hidden: str
    cell: str | None = None

    @property
    def parts(self) -> list[str]:
        return [self.hidden] if self.cell is None else [self.hidden, self.cell]

    def row(self, g: Graph, number: int) -> list[str]:
        """The state of one layer and direction: (batch, hidden) each."""
        return [g.op("Gather", part, g.index(number), axis=0) for part in self.parts]

    @classmethod
    def stacked(cls, g: Graph, rows: list[list[str]]) -> "OnnxState":
        parts = zip(*rows, strict=True)
        return cls(*(g.op("Concat", *(g.axes(row, 0) for row in part), axis=0) for part in parts))


@dataclass(frozen=True)
class OnnxRecurrent:
    """A stack of recurrent layers. name: the name of its part in the network."""

    name: str
    cell: CellName
    hidden: int
    layers: int
    bidirectional: bool = False

    @property
    def ways(self) -> tuple[str, ...]:
        return ("forward", "backward") if self.bidirectional else ("forward",)

    def zero_state(self, g: Graph, rows: str) -> OnnxState:
        sizes = g.ints(self.layers * len(self.ways)), rows, g.ints(self.hidden)
        zeros = g.zeros(*sizes)
        return OnnxState(zeros, zeros if self.cell == "lstm" else None)

    def run(self, g: Graph, x: str, mask: str, state: OnnxState) -> tuple[str, OnnxState]:
        """Run the layers over a text; returns outputs, and the state after the last token."""
        if g.traced:
            outputs, after = self._by_position(g, x, mask, state)
        else:
            outputs, after = self._fused(g, x, mask, state)
        return g.point(f"{self.name}.output", outputs, rank=3), after

    # ---- ONNX's own nodes ----

    def _fused(self, g: Graph, x: str, mask: str, state: OnnxState) -> tuple[str, OnnxState]:
        """Run ONNX's own nodes. They expect padding on the right, so tokens are moved to the left,
        and the outputs back afterwards."""
        real = g.cast(mask, "int64")
        count = g.op("ReduceSum", real, g.ints(1), keepdims=1)  # (batch, 1)
        tokens = g.op("Sub", g.op("CumSum", real, g.index(1)), g.ints(1))
        padding = g.op("CumSum", g.op("Sub", g.ints(1), real), g.index(1))
        padding = g.op("Add", g.op("Sub", padding, g.ints(1)), count)
        place = g.axes(g.op("Where", mask, tokens, padding), 2)  # the new position of each token
        lengths = g.op("Max", g.op("Squeeze", count, g.ints(1)), g.ints(1))
        lengths = g.cast(lengths, "int32")
        index = g.ranked(g.op("Expand", place, g.op("Shape", x)), 3, "int64")
        x = g.op("ScatterElements", x, index, x, axis=1)
        ends: list[list[str]] = []
        ways = len(self.ways)
        for layer in range(self.layers):
            rows = g.ints(layer * ways), g.ints((layer + 1) * ways)
            parts = [g.slice(part, *rows, 0) for part in state.parts]
            weights = self._weights(g, layer)
            across = g.op("Transpose", x, perm=[1, 0, 2])
            y, *after = g.ops(
                NODES[self.cell], 1 + len(parts), across, *weights, lengths, *parts,
                **self._options(),
            )  # fmt: skip
            y = g.op("Transpose", y, perm=[2, 0, 1, 3])  # (batch, length, ways, hidden)
            x = g.op("Reshape", y, g.ints(0, 0, ways * self.hidden))
            ends.append(after)
        index = g.ranked(g.op("Expand", place, g.op("Shape", x)), 3, "int64")
        x = g.op("GatherElements", x, index, axis=1)
        x = g.op("Mul", x, g.axes(g.cast(mask, "float32"), 2))
        # An empty text was processed as one token: restore its state.
        some = g.op("Greater", g.axes(count, 0), g.ints(0))
        stacked = (g.op("Concat", *layers, axis=0) for layers in zip(*ends, strict=True))
        kept = (g.op("Where", some, *both) for both in zip(stacked, state.parts, strict=True))
        return x, OnnxState(*kept)

    def _options(self) -> dict[str, object]:
        direction = "bidirectional" if self.bidirectional else "forward"
        options: dict[str, object] = {"hidden_size": self.hidden, "direction": direction}
        if self.cell == "gru":
            options["linear_before_reset"] = 1  # multiply by U first, then by the reset gate
        if self.cell == "rnn_relu":
            options["activations"] = ["Relu"] * len(self.ways)
        return options

    def _names(self, layer: int, way: str) -> list[str]:
        suffix = f"l{layer}" + ("_reverse" if way == "backward" else "")
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [f"{self.name}.fused.{kind}_{suffix}" for kind in kinds]

    def _weights(self, g: Graph, layer: int) -> list[str]:
        """The weights W, the weights U and both biases of a layer, as three constants. Each stacks
        the directions, with the gates in ONNX's order."""
        stacked: list[list[torch.Tensor]] = [[], [], []]
        for way in self.ways:
            w, u, b, b_hidden = (self._blocks(g.weights[n]) for n in self._names(layer, way))
            for part, value in zip(stacked, (w, u, torch.cat([b, b_hidden])), strict=True):
                part.append(value)
        kinds = ("input", "recurrent", "biases")
        return [
            g.constant(torch.stack(part), f"{self.name}.layers.{layer}.{kind}")
            for part, kind in zip(stacked, kinds, strict=True)
        ]

    def _blocks(self, weight: torch.Tensor) -> torch.Tensor:
        blocks = weight.detach().float().chunk(len(BLOCKS[self.cell]))
        return torch.cat([blocks[number] for number in BLOCKS[self.cell]])

    # ---- the formulas of the cells, position by position ----

    def _by_position(self, g: Graph, x: str, mask: str, state: OnnxState) -> tuple[str, OnnxState]:
        ends: list[list[str]] = []
        for layer in range(self.layers):
            shown = []
            for way in self.ways:
                after, outputs = self._scan(g, x, mask, state.row(g, len(ends)), layer, way)
                shown += outputs
                ends.append(after)
            x = g.op("Concat", *shown, axis=2)
        return x, OnnxState.stacked(g, ends)

    def _scan(
        self, g: Graph, x: str, mask: str, now: list[str], layer: int, way: str
    ) -> tuple[list[str], list[str]]:
        """Run one layer in one direction; returns the state after the text, and the outputs."""

        def body(inner: Graph, states: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
            token, real = inputs
            output, kept = self._masked_step(inner, token, real, states, layer, way)
            return kept, [output]

        states: list[Scanned] = [(part, "float32", 2) for part in now]
        inputs: list[Scanned] = [(x, "float32", 2), (mask, "bool", 1)]
        return g.scan(states, inputs, body, backward=way == "backward")

    def one_step(self, g: Graph, x: str, mask: str, state: OnnxState) -> tuple[str, OnnxState]:
        """Run all layers for one position: x (batch, inputs), mask (batch,)."""
        ends = []
        for layer in range(self.layers):
            x, kept = self._masked_step(g, x, mask, state.row(g, layer), layer, "forward")
            ends.append(kept)
        return g.point(f"{self.name}.output", x), OnnxState.stacked(g, ends)

    def _masked_step(
        self, g: Graph, x: str, mask: str, now: list[str], layer: int, way: str
    ) -> tuple[str, list[str]]:
        """Run one layer for one position; at padding, it outputs zero and keeps its state."""
        real = g.axes(mask, 1)  # (batch, 1)
        after = self._step(g, x, now, layer, way)
        kept = [g.op("Where", real, *both) for both in zip(after, now, strict=True)]
        return g.op("Mul", after[0], g.cast(real, "float32")), kept

    def _step(self, g: Graph, x: str, now: list[str], layer: int, way: str) -> list[str]:
        """The new state of one layer after one position: hidden, and for an LSTM the cell."""
        w, u, b, b_hidden = self._names(layer, way)
        between = f"layers.{layer}." + (f"{way}." if self.bidirectional else "")
        at = f"{self.name}.{between}" + ("rnn" if self.cell == "rnn_relu" else self.cell)
        matmuls = (
            g.op("Add", g.op("MatMul", value, g.weight(weight, transposed=True)), g.weight(bias))
            for value, weight, bias in ((x, w, b), (now[0], u, b_hidden))
        )
        from_x, from_h = matmuls
        match self.cell:
            case "lstm":
                return _lstm(g, at, g.op("Add", from_x, from_h), now[1])
            case "gru":
                return [_gru(g, at, from_x, from_h, now[0])]
        total = g.point(f"{at}.preactivation", g.op("Add", from_x, from_h))
        act = "Tanh" if self.cell == "rnn" else "Relu"
        return [g.point(f"{at}.hidden", g.op(act, total))]


def _lstm(g: Graph, at: str, total: str, cell: str) -> list[str]:
    sums = g.ops("Split", 4, total, axis=1, num_outputs=4)
    names = ("input", "forget", "candidate", "output")
    values = {}
    for name, value in zip(names, sums, strict=True):
        g.point(f"{at}.{name}_sum", value)
        gate = name if name == "candidate" else f"{name}_gate"
        act = "Tanh" if name == "candidate" else "Sigmoid"
        values[name] = g.point(f"{at}.{gate}", g.op(act, value))
    kept = g.op("Mul", values["forget"], cell)
    cell = g.op("Add", kept, g.op("Mul", values["input"], values["candidate"]))
    g.point(f"{at}.cell", cell)
    hidden = g.op("Mul", values["output"], g.op("Tanh", cell))
    return [g.point(f"{at}.hidden", hidden), cell]


def _gru(g: Graph, at: str, from_x: str, from_h: str, hidden: str) -> str:
    x_reset, x_update, x_candidate = g.ops("Split", 3, from_x, axis=1, num_outputs=3)
    h_reset, h_update, h_candidate = g.ops("Split", 3, from_h, axis=1, num_outputs=3)
    reset = g.point(f"{at}.reset_sum", g.op("Add", x_reset, h_reset))
    reset = g.point(f"{at}.reset_gate", g.op("Sigmoid", reset))
    update = g.point(f"{at}.update_sum", g.op("Add", x_update, h_update))
    update = g.point(f"{at}.update_gate", g.op("Sigmoid", update))
    candidate = g.op("Add", x_candidate, g.op("Mul", reset, h_candidate))
    candidate = g.op("Tanh", g.point(f"{at}.candidate_sum", candidate))
    g.point(f"{at}.candidate", candidate)
    new = g.op("Mul", g.op("Sub", g.constant(np.float32(1)), update), candidate)
    return g.point(f"{at}.hidden", g.op("Add", new, g.op("Mul", update, hidden)))


# ---- encoder and decoder ----

Projected = tuple[str, str, str]  # keys, values and mask of the source
PARTS = ("hidden", "cell")  # parts of a state; only an LSTM has a cell


def stack_of(c: RecurrentConfig, side: str) -> OnnxRecurrent:
    """The layers of the encoder or decoder."""
    if side == "decoder":
        return OnnxRecurrent("decoder.recurrent", c.cell, c.hidden, c.layers)
    hidden = c.encoder_hidden or c.hidden
    return OnnxRecurrent("encoder.recurrent", c.cell, hidden, c.layers, c.bidirectional)


def read(g: Graph, c: RecurrentConfig, side: str, x: str, mask: str) -> tuple[str, OnnxState]:
    """Read a whole text; returns outputs, and the state after it."""
    stack = stack_of(c, side)
    return stack.run(g, x, mask, stack.zero_state(g, g.size(x, 0)))


def start(g: Graph, c: RecurrentConfig, outputs: str, mask: str, state: OnnxState) -> None:
    """Add the initial state of a decoder as graph outputs: the projected encoder outputs, and the
    encoder's last state."""
    if c.attention != "none":
        keys = g.linear("decoder.alignment.key", outputs)
        g.output("source_keys", keys)
        g.output("source_values", outputs)
        g.output("source_mask", mask, "bool")
    rows = g.size(mask, 0)
    if c.bridge == "zero":
        first = stack_of(c, "decoder").zero_state(g, rows).parts
    else:
        first = [_bridged(g, c, *part) for part in zip(PARTS, state.parts, strict=False)]
    for part, value in zip(PARTS, first, strict=False):
        g.output(f"past_{part}", value)
    if c.input_feeding:
        g.output("past_fed", g.zeros(rows, g.ints(c.hidden)))


def _bridged(g: Graph, c: RecurrentConfig, part: str, states: str) -> str:
    """Convert encoder states (layers * directions, batch, hidden) into decoder states (layers,
    batch, hidden of the decoder)."""
    ways = 2 if c.bidirectional else 1
    layers = [
        g.op("Concat", *(
            g.op("Gather", states, g.index(layer * ways + way), axis=0) for way in range(ways)
        ), axis=1)
        for layer in range(c.layers)
    ]  # fmt: skip
    if c.bridge == "project":
        top = g.linear(f"decoder.bridge.{part}", layers[-1])
        top = g.op("Tanh", top) if part == "hidden" else top
        layers = [g.point(f"decoder.bridge.{part}", top)] * c.layers
    elif c.bridge == "last":
        layers = [layers[-1]] * c.layers
    if c.bridge != "project":
        rows_first = g.op("Concat", *(g.axes(layer, 1) for layer in layers), axis=1)
        g.point(f"decoder.bridge.copied_{part}", rows_first)
    return g.op("Concat", *(g.axes(layer, 0) for layer in layers), axis=0)


def step(g: Graph, c: RecurrentConfig, x: str, mask: str) -> str:
    """Compute outputs for the newest tokens; the state after them becomes a graph output."""
    shape = (c.layers, BATCH, c.hidden)
    parts = PARTS if c.cell == "lstm" else PARTS[:1]
    state = OnnxState(*(g.input(f"past_{part}", "float32", shape) for part in parts))
    fed = g.input("past_fed", "float32", (BATCH, c.hidden)) if c.input_feeding else None
    source = None
    if c.shape == "encoder-decoder" and c.attention != "none":
        source = (
            g.input("source_keys", "float32", (BATCH, SOURCE, c.hidden)),
            g.input("source_values", "float32", (BATCH, SOURCE, c.d_encoder)),
            g.input("source_mask", "bool", (BATCH, SOURCE)),
        )
    total = g.size(mask, 1)
    newest = g.slice(mask, g.op("Sub", total, g.size(x, 1)), total, 1)
    if fed is not None:
        assert source is not None, "the config was validated"
        outputs, after, fed = _fed(g, c, x, newest, state, fed, source)
    else:
        outputs, after = stack_of(c, "decoder").run(g, x, newest, state)
        if source is not None:
            outputs = aligned(g, c, outputs, source)
    for part, value in zip(parts, after.parts, strict=True):
        g.output(f"new_{part}", value)
    if fed is not None:
        g.output("new_fed", fed)
    return outputs


def aligned(
    g: Graph, c: RecurrentConfig, hidden: str, source: Projected, *, in_loop: bool = False
) -> str:
    """Attention outputs for the decoder's states (batch, queries, hidden). in_loop: do not trace
    the keys, which are the same at all positions."""
    at, (keys, values, mask) = "decoder.alignment", source
    if not in_loop:
        g.point(f"{at}.key", keys)
    if c.attention == "dot":
        query = g.point(f"{at}.query", hidden, rank=3)
        scores = g.op("MatMul", query, g.op("Transpose", keys, perm=[0, 2, 1]))
    else:
        query = g.point(f"{at}.query", g.linear(f"{at}.query", hidden), rank=3)
        energy = g.op("Tanh", g.op("Add", g.axes(query, 2), g.axes(keys, 1)))
        scores = g.op("Squeeze", g.linear(f"{at}.energy", energy), g.ints(3))
    g.point(f"{at}.scores", scores, rank=3)
    seen = g.axes(mask, 1)
    if g.traced:
        seen = g.op("Expand", seen, g.op("Shape", scores))
    pattern = g.point(f"{at}.pattern", g.softmax(scores, seen, at), rank=3)
    context = g.point(f"{at}.context", g.op("MatMul", pattern, values), rank=3)
    joined = g.op("Concat", context, hidden, axis=2)
    return g.point(f"{at}.output", g.op("Tanh", g.linear(f"{at}.output", joined)), rank=3)


def _fed(
    g: Graph, c: RecurrentConfig, x: str, mask: str, state: OnnxState, fed: str, source: Projected
) -> tuple[str, OnnxState, str]:
    """Decode with input feeding: each position reads the previous output, and the first position
    reads `fed`. Returns outputs, the state after them, and the last output."""
    g.point("decoder.alignment.key", source[0])
    stack = stack_of(c, "decoder")

    def body(inner: Graph, states: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
        token, real = inputs
        fed, *now = states
        joined = inner.op("Concat", token, fed, axis=1)
        inner.point("decoder.input_feeding.input", joined)
        output, after = stack.one_step(inner, joined, real, OnnxState(*now))
        output = aligned(inner, c, inner.axes(output, 1), source, in_loop=True)
        output = inner.op("Squeeze", output, inner.ints(1))
        fed = inner.op("Where", inner.axes(real, 1), output, fed)
        return [fed, *after.parts], [output]

    states: list[Scanned] = [(fed, "float32", 2), *((part, "float32", 3) for part in state.parts)]
    (last, *after), (outputs,) = g.scan(states, [(x, "float32", 2), (mask, "bool", 1)], body)
    return outputs, OnnxState(*after), last
