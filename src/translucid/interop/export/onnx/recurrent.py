"""A recurrent network as ONNX graphs: an encoder, and a decoder that takes and gives its state.

Shapes: ids (batch, queries); mask (batch, past + queries), of which the newest count; past_hidden,
past_cell (layers, batch, hidden); past_fed (batch, hidden).
"""

from dataclasses import replace

from translucid.interop.export.onnx.cells import OnnxRecurrent, OnnxState
from translucid.interop.export.onnx.graph import Graph, Scanned
from translucid.interop.export.onnx.inputs import looked_up
from translucid.models.recurrent import RecurrentConfig

BATCH, SOURCE = "batch", "source_length"
Projected = tuple[str, str, str]  # keys, values and mask of the source


def encoder(g: Graph, c: RecurrentConfig, ids: str, mask: str) -> tuple[str, OnnxState]:
    stack = OnnxRecurrent(
        "encoder.recurrent", c.cell, c.encoder_hidden or c.hidden, c.layers, c.bidirectional
    )
    x = looked_up(g, c, "encoder", ids)
    return stack.run(g, x, mask, stack.zero_state(g, g.size(ids, 0)))


def decoder_stack(c: RecurrentConfig) -> OnnxRecurrent:
    return OnnxRecurrent("decoder.recurrent", c.cell, c.hidden, c.layers)


def whole_decoder(g: Graph, c: RecurrentConfig, ids: str, mask: str) -> tuple[str, OnnxState]:
    """Of a model that labels what it reads from left to right."""
    stack = decoder_stack(c)
    x = looked_up(g, c, "decoder", ids)
    return stack.run(g, x, mask, stack.zero_state(g, g.size(ids, 0)))


def start(g: Graph, c: RecurrentConfig, outputs: str, mask: str, state: OnnxState) -> None:
    """What a decoder begins with: the encoder's output, projected once, and its first state."""
    if c.attention != "none":
        keys = g.linear("decoder.alignment.key", outputs)
        g.output("source_keys", keys)
        g.output("source_values", outputs)
        g.output("source_mask", mask, "bool")
    rows = g.size(mask, 0)
    first = decoder_stack(c).zero_state(g, rows)
    if c.bridge != "zero":
        cell = None if state.cell is None else _bridged(g, c, "cell", state.cell)
        first = OnnxState(_bridged(g, c, "hidden", state.hidden), cell)
    g.output("past_hidden", first.hidden)
    if first.cell is not None:
        g.output("past_cell", first.cell)
    if c.input_feeding:
        g.output("past_fed", g.zeros(rows, g.ints(c.hidden)))


def _bridged(g: Graph, c: RecurrentConfig, part: str, states: str) -> str:
    """From (layers * directions, batch, hidden) to (layers, batch, hidden of the decoder)."""
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


def step(g: Graph, c: RecurrentConfig, ids: str, mask: str) -> str:
    """Outputs for the newest tokens; the state after them becomes an output of the graph."""
    shape = (c.layers, BATCH, c.hidden)
    state = OnnxState(g.input("past_hidden", "float32", shape))
    if c.cell == "lstm":
        state = replace(state, cell=g.input("past_cell", "float32", shape))
    if c.input_feeding:
        state = replace(state, fed=g.input("past_fed", "float32", (BATCH, c.hidden)))
    source = None
    if c.shape == "encoder-decoder" and c.attention != "none":
        source = (
            g.input("source_keys", "float32", (BATCH, SOURCE, c.hidden)),
            g.input("source_values", "float32", (BATCH, SOURCE, c.d_encoder)),
            g.input("source_mask", "bool", (BATCH, SOURCE)),
        )
    total = g.size(mask, 1)
    newest = g.slice(mask, g.op("Sub", total, g.size(ids, 1)), total, 1)
    x = looked_up(g, c, "decoder", ids)
    if state.fed is not None:
        assert source is not None, "the config was validated"
        outputs, after = _fed(g, c, x, newest, state, source)
    else:
        outputs, after = decoder_stack(c).run(g, x, newest, state)
        if source is not None:
            outputs = aligned(g, c, outputs, source)
    for name, value in (("hidden", after.hidden), ("cell", after.cell), ("fed", after.fed)):
        if value is not None:
            g.output(f"new_{name}", value)
    return outputs


def aligned(
    g: Graph, c: RecurrentConfig, hidden: str, source: Projected, *, in_loop: bool = False
) -> str:
    """What attention makes of the decoder's states (batch, queries, hidden). in_loop: the keys,
    the same at all positions, are no point of this one."""
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
    g: Graph, c: RecurrentConfig, x: str, mask: str, state: OnnxState, source: Projected
) -> tuple[str, OnnxState]:
    """Position after position, each with the output of the one before."""
    g.point("decoder.alignment.key", source[0])
    stack = decoder_stack(c)

    def body(inner: Graph, states: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
        token, real = inputs
        fed, hidden, *cell = states
        joined = inner.op("Concat", token, fed, axis=1)
        inner.point("decoder.input_feeding.input", joined)
        now = OnnxState(hidden, cell[0] if cell else None)
        output, after = stack.one_step(inner, joined, real, now)
        output = aligned(inner, c, inner.axes(output, 1), source, in_loop=True)
        output = inner.op("Squeeze", output, inner.ints(1))
        fed = inner.op("Where", inner.axes(real, 1), output, fed)
        kept = [after.hidden] if after.cell is None else [after.hidden, after.cell]
        return [fed, *kept], [output]

    assert state.fed is not None
    states: list[Scanned] = [(state.fed, "float32", 2), (state.hidden, "float32", 3)]
    if state.cell is not None:
        states.append((state.cell, "float32", 3))
    (fed, hidden, *cell), (outputs,) = g.scan(states, [(x, "float32", 2), (mask, "bool", 1)], body)
    return outputs, OnnxState(hidden, cell[0] if cell else None, fed)
