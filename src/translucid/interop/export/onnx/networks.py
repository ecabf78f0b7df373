"""Build the ONNX graphs of a network: one graph if it labels texts, two (encoder and decoder step)
if it generates them. Embeddings and heads are the same for all stacks.

Shapes: ids, mask (batch, length); x (batch, length, d_model).
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from translucid.core.errors import InputError
from translucid.data.features import number_scale
from translucid.interop.export.onnx import recurrent, transformer
from translucid.interop.export.onnx.graph import BATCH, KEYS, QUERIES, Graph
from translucid.interop.export.onnx.recurrent import OnnxState
from translucid.interop.export.onnx.transformer import norm
from translucid.models.base import DecoderModel, EncoderDecoderModel, EncoderModel
from translucid.models.mlp import MLP
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.positions import POSITIONS
from translucid.tasks.model_folder import Bundle

SequenceNetwork = EncoderModel | DecoderModel | EncoderDecoderModel
MODEL, ENCODER, STEP = "model", "encoder", "decoder_step"  # file names of the graphs
AS_THEY_ARE = ("learned", "alibi", "none")  # other positions become tables of a fixed length
WIDTH = 3  # characters per filter, as in parts.characters


def graphs_of(held: Bundle, *, traced: bool, length: int) -> dict[str, Any]:
    """The graphs by file name. length: rows of the tables that replace computed positions."""
    network = held.network
    weights = {name: value.detach().float().cpu() for name, value in network.state_dict().items()}
    if isinstance(network, MLP):
        return {MODEL: _mlp(network, Graph(weights, traced=traced), held.statistics)}
    if not isinstance(network, SequenceNetwork):
        raise InputError(
            f"{type(network).__name__} cannot be exported to ONNX; supported: single networks of "
            "kind transformer, recurrent or mlp (for an ensemble, train with "
            "model.ensemble_size = 1)"
        )
    c = network.config
    if isinstance(c, TransformerConfig) and POSITIONS.source(c.positions) is not None:
        *others, last = (name for name in POSITIONS.names() if POSITIONS.source(name) is None)
        raise InputError(
            f"your own positions = {c.positions!r} cannot be exported to ONNX; train with "
            f"model.positions = {', '.join(others)} or {last}"
        )
    if c.head != "language":
        return {MODEL: _labels(network, Graph(weights, traced=traced), length)}
    graphs = {STEP: _step(network, Graph(weights, traced=traced), length)}
    if c.shape == "encoder-decoder":
        graphs = {ENCODER: _encoder(network, Graph(weights, traced=traced), length), **graphs}
    return graphs


def _labels(network: SequenceNetwork, g: Graph, length: int) -> Any:
    """The graph of a model that reads a whole text at once and does not generate."""
    c, side = network.config, "encoder" if network.config.shape == "encoder" else "decoder"
    outputs, ids, mask, state = _read(network, g, side, length)
    g.output(*head(g, c, outputs, mask, ids, state))
    return g.model(MODEL)


def _encoder(network: SequenceNetwork, g: Graph, length: int) -> Any:
    """The encoder's graph: it reads the source and outputs the initial state of the decoder."""
    c = network.config
    outputs, _, mask, state = _read(network, g, "encoder", length)
    if isinstance(c, RecurrentConfig):
        assert state is not None
        recurrent.start(g, c, outputs, mask, state)
    else:
        assert isinstance(c, TransformerConfig)
        transformer.start(g, c, outputs, mask)
    return g.model(ENCODER)


def _read(
    network: SequenceNetwork, g: Graph, side: str, length: int
) -> tuple[str, str, str, OnnxState | None]:
    """Add nodes that read a whole text. Returns outputs, ids, mask, and the final state of a
    recurrent network."""
    c = network.config
    ids = g.input("ids", "int64", (BATCH, KEYS))
    mask = g.input("mask", "bool", (BATCH, KEYS))
    x = looked_up(g, c, side, ids)
    if isinstance(c, RecurrentConfig):
        outputs, state = recurrent.read(g, c, side, x, mask)
        return outputs, ids, mask, state
    outputs, _ = _stack(network, g, side, length).run(x, mask)
    return outputs, ids, mask, None


def _step(network: SequenceNetwork, g: Graph, length: int) -> Any:
    """The decoder's graph: it reads the newest tokens and predicts the next one."""
    c = network.config
    ids = g.input("ids", "int64", (BATCH, QUERIES))
    mask = g.input("mask", "bool", (BATCH, KEYS))
    x = looked_up(g, c, "decoder", ids)
    if isinstance(c, RecurrentConfig):
        outputs = recurrent.step(g, c, x, mask)
    else:
        outputs = transformer.step(_stack(network, g, "decoder", length), x, mask)
    g.output(*head(g, c, outputs, mask, ids, None))
    return g.model(STEP)


def _stack(network: SequenceNetwork, g: Graph, side: str, length: int) -> transformer.OnnxStack:
    stack = getattr(network, side)
    assert isinstance(network.config, TransformerConfig)
    return transformer.OnnxStack(g, network.config, side, stack.positions, length)


def _mlp(network: MLP, g: Graph, statistics: Mapping[str, Any]) -> Any:
    """The graph of an MLP, with inputs and outputs in the units of the data."""
    c = network.config
    x = g.input("x", "float32", (BATCH, c.inputs))
    if scale := number_scale(statistics):
        x = g.op("Sub", x, g.constant([mean for mean, _ in scale]))
        x = g.op("Div", x, g.constant([deviation for _, deviation in scale]))
    if c.standardise:
        centred = g.op("Sub", x, g.weight("standardise.mean"))
        x = g.op("Div", centred, g.weight("standardise.deviation"))
        g.point("standardise.output", x)
    sizes = (c.inputs, *c.hidden)
    for i, hidden in enumerate(c.hidden):
        at = f"layers.{i}.dense"
        z = g.point(f"{at}.preactivation", g.linear(f"layers.{i}.linear", x))
        h = g.point(f"{at}.activation", g.activation(c.activation, z))
        if c.residual and sizes[i] == hidden:
            h = g.point(f"{at}.sum", g.op("Add", g.point(f"{at}.skip", x), h))
        x = h
    y = g.point("output.dense.preactivation", g.linear("output.linear", x))
    y = g.point("output.dense.activation", y)
    if scale := statistics.get("targets"):
        y = g.op("Mul", y, g.constant([float(value) for value in scale["deviation"]]))
        y = g.op("Add", y, g.constant([float(mean) for mean in scale["mean"]]))
    g.output("prediction", y)
    return g.model(MODEL)


# ---- embeddings ----


def looked_up(g: Graph, c: SequenceConfig, side: str, ids: str) -> str:
    """The embedding vector of each token: (batch, length, d_model)."""
    name = f"{side}.embedding"
    x = g.point(f"{name}.lookup", g.op("Gather", g.weight(f"{name}.table.weight"), ids))
    if isinstance(c, TransformerConfig) and c.embedding_scale:
        x = g.point(f"{name}.scaled", g.op("Mul", x, g.number(math.sqrt(c.d_model))))
    if side == "encoder" and c.characters:
        x = g.point("encoder.characters.sum", g.op("Add", x, _characters(g)))
    if side == "encoder" and isinstance(c, TransformerConfig) and c.segments:
        first = g.constant(g.weights["encoder.segments.table.weight"][0])  # one text per row
        rows = g.point("encoder.segments.lookup", g.op("Expand", first, g.op("Shape", x)))
        x = g.point("encoder.segments.sum", g.op("Add", x, rows))
    return x


def _characters(g: Graph) -> str:
    """A vector for each word, computed from its characters: (batch, length, d_model)."""
    at = "encoder.characters"
    ids = g.input("characters", "int64", (BATCH, KEYS, "characters"))
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
    """The characters at each place of all windows, with one tensor for each place: the first
    character of every window, then the second, and so on. Each tensor is (batch, length, windows,
    ...)."""
    many = g.op("Add", g.size(x, 2), g.ints(WIDTH - 1))
    return [g.slice(around, g.ints(i), g.op("Add", many, g.ints(i)), 2) for i in range(WIDTH)]


# ---- heads ----


def head(
    g: Graph, c: SequenceConfig, x: str, mask: str, ids: str, state: OnnxState | None
) -> tuple[str, str]:
    """Name and value of the model's output. state: the final state of a recurrent stack."""
    match c.head:
        case "language":
            if c.logit_scale != 1:
                x = g.op("Mul", x, g.number(c.logit_scale))
            return "logits", g.point("head.logits", g.linear("head.linear", x))
        case "tag":
            return "logits", g.point("head.logits", g.linear("head.linear", x))
        case "none":
            return "hidden", g.point("head.hidden", x)
        case "fill":
            assert isinstance(c, TransformerConfig), "the config was validated"
            x = g.activation(c.head_dense or "gelu", g.linear("head.dense.linear", x))
            x = norm(g, c, "head.norm", g.point("head.transformed", x))
            return "logits", g.point("head.logits", g.linear("head.linear", x))
    vector = _pooled(g, c, x, mask, state)
    if g.has("head.dense.linear.weight"):
        vector = g.activation(c.head_dense or "identity", g.linear("head.dense.linear", vector))
        g.point("head.dense", vector)
    if c.head == "embed":
        if c.normalise:
            length = g.op("ReduceL2", vector, g.ints(-1), keepdims=1)
            vector = g.op("Div", vector, g.op("Max", length, g.number(1e-12)))
        return "embedding", g.point("head.embedding", vector)
    logits = g.point("head.class_logits", g.linear("head.linear", vector))
    return "logits", _with_ngrams(g, c, logits, mask, ids) if c.ngram_features else logits


def _pooled(g: Graph, c: SequenceConfig, x: str, mask: str, state: OnnxState | None) -> str:
    """One vector for the whole text: (batch, d_model)."""
    if c.pooling == "last" and state is not None:
        ways = 2 if getattr(c, "bidirectional", False) else 1
        rows = (g.op("Gather", state.hidden, g.index(-1 - way), axis=0) for way in range(ways))
        return g.point("head.pooled", g.op("Concat", *[*rows][::-1], axis=1))
    real = g.cast(mask, "float32")
    match c.pooling:
        case "mean":
            count = g.op("ReduceSum", real, g.ints(1), keepdims=1)
            weight = g.op("Div", real, g.op("Max", count, g.number(1.0)))
        case "attention":
            scores = g.op("Squeeze", g.linear("head.query", x), g.ints(2))
            weight = g.softmax(g.point("head.pool_scores", scores), mask)
        case "first" | "last":
            place = g.op("CumSum", g.cast(mask, "int64"), g.index(1))
            wanted = g.ints(1)
            if c.pooling == "last":
                wanted = g.op("ReduceMax", place, g.ints(1), keepdims=1)
            weight = g.cast(g.op("And", g.op("Equal", place, wanted), mask), "float32")
    g.point("head.pool_pattern", weight)
    pooled = g.op("Squeeze", g.op("MatMul", g.axes(weight, 1), x), g.ints(1))
    return g.point("head.pooled", pooled)


def _with_ngrams(g: Graph, c: SequenceConfig, logits: str, mask: str, ids: str) -> str:
    """Add to the logits the n-gram features of every token and of every pair of neighbouring
    tokens."""
    words = g.point("ngrams.words", g.op("Gather", g.weight("ngrams.words.weight"), ids))
    places = g.range(g.ints(0), g.size(ids, 1))
    none = g.constant(np.array(-1, dtype=np.int64))
    marked = g.axes(g.op("Where", mask, g.axes(places, 0), none), 1)  # (batch, 1, length)
    earlier = g.op("Less", g.axes(places, 0), g.axes(places, 1))  # (length, length)
    last = g.op("ReduceMax", g.op("Where", g.axes(earlier, 0), marked, none), g.ints(2), keepdims=0)
    before = g.op("GatherElements", ids, g.op("Max", last, g.ints(0)), axis=1)
    before = g.op("Where", g.op("Less", last, g.ints(0)), g.ints(0), before)
    row = g.op("Add", g.op("Mul", before, g.ints(1000003)), g.op("Mul", ids, g.ints(7919)))
    row = g.op("Mod", row, g.ints(c.ngram_features))
    pairs = g.point("ngrams.pairs", g.op("Gather", g.weight("ngrams.pairs.weight"), row))
    counted = g.op("Mul", g.op("Add", words, pairs), g.axes(g.cast(mask, "float32"), 2))
    total = g.op("ReduceSum", counted, g.ints(1), keepdims=0)
    return g.point("ngrams.sum", g.op("Add", logits, total))
