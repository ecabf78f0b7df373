"""Recurrent layers as nodes: RNN, LSTM and GRU of ONNX, with the length of each text; or, where
every gate is to be seen, a loop over the cell's own formulas.

Shapes: x (batch, length, inputs); states (layers * directions, batch, hidden).
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from translucid.interop.export.onnx.graph import Graph
from translucid.parts.recurrent import CellName

# Blocks of rows as ONNX has them, by their numbers as torch has them.
BLOCKS: dict[CellName, tuple[int, ...]] = {
    "lstm": (0, 3, 1, 2),
    "gru": (1, 0, 2),
    "rnn": (0,),
    "rnn_relu": (0,),
}
NODES: dict[CellName, str] = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN", "rnn_relu": "RNN"}


@dataclass(frozen=True)
class OnnxState:
    """Values of the graph: (layers * directions, batch, hidden); fed: (batch, hidden)."""

    hidden: str
    cell: str | None = None
    fed: str | None = None


@dataclass(frozen=True)
class OnnxRecurrent:
    """A stack of recurrent layers; name: of the part."""

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
        """Outputs, and the state after the last token; mask: (batch, length)."""
        if g.traced:
            outputs, after = self._in_the_open(g, x, mask, state)
        else:
            outputs, after = self._fused(g, x, mask, state)
        return g.point(f"{self.name}.output", outputs, rank=3), after

    # ---- ONNX's own nodes ----

    def _fused(self, g: Graph, x: str, mask: str, state: OnnxState) -> tuple[str, OnnxState]:
        """The nodes want the tokens of each text first: they are put there, and back afterwards."""
        real = g.cast(mask, "int64")
        count = g.op("ReduceSum", real, g.ints(1), keepdims=1)  # (batch, 1)
        tokens = g.op("Sub", g.op("CumSum", real, g.index(1)), g.ints(1))
        padding = g.op("CumSum", g.op("Sub", g.ints(1), real), g.index(1))
        padding = g.op("Add", g.op("Sub", padding, g.ints(1)), count)
        place = g.axes(g.op("Where", mask, tokens, padding), 2)  # where a token goes
        lengths = g.op("Max", g.op("Squeeze", count, g.ints(1)), g.ints(1))
        lengths = g.cast(lengths, "int32")
        index = g.ranked(g.op("Expand", place, g.op("Shape", x)), 3, "int64")
        x = g.op("ScatterElements", x, index, x, axis=1)
        hiddens, cells = [], []
        ways = len(self.ways)
        for layer in range(self.layers):
            parts = [self._rows(g, state.hidden, layer)]
            if state.cell is not None:
                parts.append(self._rows(g, state.cell, layer))
            weights = self._weights(g, layer)
            across = g.op("Transpose", x, perm=[1, 0, 2])
            y, *ends = g.ops(
                NODES[self.cell], 1 + len(parts), across, *weights, lengths, *parts,
                **self._options(),
            )  # fmt: skip
            y = g.op("Transpose", y, perm=[2, 0, 1, 3])  # (batch, length, ways, hidden)
            x = g.op("Reshape", y, g.ints(0, 0, ways * self.hidden))
            hiddens.append(ends[0])
            cells += ends[1:]
        index = g.ranked(g.op("Expand", place, g.op("Shape", x)), 3, "int64")
        x = g.op("GatherElements", x, index, axis=1)
        x = g.op("Mul", x, g.axes(g.cast(mask, "float32"), 2))
        # A text without a token was run for one: its state stays.
        some = g.op("Greater", g.axes(count, 0), g.ints(0))
        hidden = g.op("Where", some, g.op("Concat", *hiddens, axis=0), state.hidden)
        if state.cell is None:
            return x, OnnxState(hidden)
        cell = g.op("Where", some, g.op("Concat", *cells, axis=0), state.cell)
        return x, OnnxState(hidden, cell)

    def _options(self) -> dict[str, object]:
        direction = "bidirectional" if self.bidirectional else "forward"
        options: dict[str, object] = {"hidden_size": self.hidden, "direction": direction}
        if self.cell == "gru":
            options["linear_before_reset"] = 1  # the reset gate acts after the recurrent product
        if self.cell == "rnn_relu":
            options["activations"] = ["Relu"] * len(self.ways)
        return options

    def _rows(self, g: Graph, states: str, layer: int) -> str:
        ways = len(self.ways)
        return g.slice(states, g.ints(layer * ways), g.ints((layer + 1) * ways), 0)

    def _names(self, layer: int, way: str) -> list[str]:
        suffix = f"l{layer}" + ("_reverse" if way == "backward" else "")
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [f"{self.name}.fused.{kind}_{suffix}" for kind in kinds]

    def _weights(self, g: Graph, layer: int) -> list[str]:
        """W, U and both biases, both directions stacked, gates in ONNX's order."""
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

    # ---- in the open: one step at a time ----

    def _in_the_open(self, g: Graph, x: str, mask: str, state: OnnxState) -> tuple[str, OnnxState]:
        hiddens: list[str] = []
        cells: list[str] = []
        for layer in range(self.layers):
            shown = []
            for way in self.ways:
                row = g.index(len(hiddens))
                now = [g.op("Gather", state.hidden, row, axis=0)]
                if state.cell is not None:
                    now.append(g.op("Gather", state.cell, row, axis=0))
                after, outputs = self._loop(g, x, mask, now, layer, way)
                shown += outputs
                hiddens.append(g.axes(after[0], 0))
                cells += [g.axes(cell, 0) for cell in after[1:]]
            x = g.op("Concat", *shown, axis=2)
        cell = g.op("Concat", *cells, axis=0) if cells else None
        return x, OnnxState(g.op("Concat", *hiddens, axis=0), cell)

    def _loop(
        self, g: Graph, x: str, mask: str, now: list[str], layer: int, way: str
    ) -> tuple[list[str], list[str]]:
        def body(inner: Graph, states: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
            real = inner.axes(inputs[1], 1)  # (batch, 1)
            after = self.step(inner, inputs[0], states, layer, way)
            shown = inner.op("Mul", after[0], inner.cast(real, "float32"))
            kept = [inner.op("Where", real, *both) for both in zip(after, states, strict=True)]
            return kept, [shown]

        return g.scan(
            [(part, "float32", 2) for part in now],
            [(x, "float32", 2), (mask, "bool", 1)],
            body,
            backward=way == "backward",
        )

    def step(self, g: Graph, x: str, now: list[str], layer: int, way: str) -> list[str]:
        """One position of one layer: hidden, and for an LSTM the cell."""
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

    def one_step(self, g: Graph, x: str, mask: str, state: OnnxState) -> tuple[str, OnnxState]:
        """All layers for one position: x (batch, inputs), mask (batch,)."""
        real = g.axes(mask, 1)
        hiddens, cells = [], []
        for layer in range(self.layers):
            now = [g.op("Gather", state.hidden, g.index(layer), axis=0)]
            if state.cell is not None:
                now.append(g.op("Gather", state.cell, g.index(layer), axis=0))
            after = self.step(g, x, now, layer, "forward")
            x = g.op("Mul", after[0], g.cast(real, "float32"))
            kept = [g.op("Where", real, *both) for both in zip(after, now, strict=True)]
            hiddens.append(g.axes(kept[0], 0))
            cells += [g.axes(cell, 0) for cell in kept[1:]]
        g.point(f"{self.name}.output", x)
        cell = g.op("Concat", *cells, axis=0) if cells else None
        return x, replace(state, hidden=g.op("Concat", *hiddens, axis=0), cell=cell)


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
