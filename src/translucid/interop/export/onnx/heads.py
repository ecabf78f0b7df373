"""What stands on top of a stack, as nodes: logits over the vocabulary, labels, vectors.

Shapes: x (batch, length, d_model); mask (batch, length).
"""

import numpy as np

from translucid.interop.export.onnx.attention import norm
from translucid.interop.export.onnx.cells import OnnxState
from translucid.interop.export.onnx.graph import Graph
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig


def head(
    g: Graph, c: SequenceConfig, x: str, mask: str, ids: str, state: OnnxState | None
) -> tuple[str, str]:
    """What the output of the model is called, and its value. state: of a recurrent stack."""
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
    """One vector made of all tokens: (batch, d_model)."""
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
    """Logits, and what each token and each pair of neighbours adds to them."""
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
