"""Which graphs a network becomes: one for what it labels, two for what it writes."""

from collections.abc import Mapping
from typing import Any

from translucid.core.errors import InputError
from translucid.interop.export.onnx import recurrent, transformer
from translucid.interop.export.onnx.graph import Graph
from translucid.interop.export.onnx.heads import head
from translucid.models.base import DecoderModel, EncoderDecoderModel, EncoderModel
from translucid.models.mlp import MLP
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.model_folder import Bundle

MODEL, ENCODER, STEP = "model", "encoder", "decoder_step"  # names of files
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
TABLES = ("sinusoidal", "rotary", "relative")  # that are computed here, and tables there


def graphs_of(held: Bundle, *, traced: bool, length: int) -> dict[str, Any]:
    """By the names of their files. length: rows of tables of what is computed here."""
    network = held.network
    weights = {name: value.detach().float().cpu() for name, value in network.state_dict().items()}
    if isinstance(network, MLP):
        return {MODEL: _mlp(network, Graph(weights, traced=traced), held.statistics)}
    if not isinstance(network, EncoderModel | DecoderModel | EncoderDecoderModel):
        raise InputError(
            f"a {type(network).__name__} has no ONNX graph; export one network of kind "
            "transformer, recurrent or mlp (an ensemble: train with model.ensemble_size = 1)"
        )
    c = network.config
    if isinstance(c, TransformerConfig) and c.positions not in POSITIONS:
        raise InputError(
            f"positions = {c.positions!r} of your own have no ONNX graph; train with "
            f"model.positions = {', '.join(POSITIONS[:-1])} or none"
        )
    if c.head != "language":
        return {MODEL: _labels(c, Graph(weights, traced=traced), length)}
    graphs = {STEP: _step(c, Graph(weights, traced=traced), length)}
    if c.shape == "encoder-decoder":
        graphs = {ENCODER: _encoder(c, Graph(weights, traced=traced), length), **graphs}
    return graphs


def _labels(c: SequenceConfig, g: Graph, length: int) -> Any:
    """A model that reads a text whole."""
    ids = g.input("ids", "int64", ("batch", "keys"))
    mask = g.input("mask", "bool", ("batch", "keys"))
    state = None
    if isinstance(c, RecurrentConfig):
        read = recurrent.encoder if c.shape == "encoder" else recurrent.whole_decoder
        outputs, state = read(g, c, ids, mask)
    else:
        assert isinstance(c, TransformerConfig)
        stack = transformer.encoder if c.shape == "encoder" else transformer.whole_decoder
        outputs = stack(g, c, ids, mask, length)
    g.output(*head(g, c, outputs, mask, ids, state))
    return g.model(MODEL)


def _encoder(c: SequenceConfig, g: Graph, length: int) -> Any:
    """What reads the source, and what the decoder begins with."""
    ids = g.input("ids", "int64", ("batch", "keys"))
    mask = g.input("mask", "bool", ("batch", "keys"))
    if isinstance(c, RecurrentConfig):
        outputs, state = recurrent.encoder(g, c, ids, mask)
        recurrent.start(g, c, outputs, mask, state)
    else:
        assert isinstance(c, TransformerConfig)
        outputs = transformer.encoder(g, c, ids, mask, length)
        transformer.start(g, c, outputs, mask)
    return g.model(ENCODER)


def _step(c: SequenceConfig, g: Graph, length: int) -> Any:
    """What writes: the newest tokens, after those before them."""
    ids = g.input("ids", "int64", ("batch", "queries"))
    mask = g.input("mask", "bool", ("batch", "keys"))
    if isinstance(c, RecurrentConfig):
        outputs = recurrent.step(g, c, ids, mask)
    else:
        assert isinstance(c, TransformerConfig)
        outputs = transformer.step(g, c, ids, mask, length)
    g.output(*head(g, c, outputs, mask, ids, None))
    return g.model(STEP)


def _mlp(network: MLP, g: Graph, statistics: Mapping[str, Any]) -> Any:
    """Reads and gives values in the units of the data."""
    c = network.config
    x = g.input("x", "float32", ("batch", c.inputs))
    if scale := statistics.get("inputs"):
        x = g.op("Sub", x, g.constant([float(mean) for mean in scale["mean"]]))
        x = g.op("Div", x, g.constant([float(value) for value in scale["deviation"]]))
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
