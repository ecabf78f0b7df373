"""The shapes of all values of an encoder or decoder layer, and its parameters."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from translucid.core.catalogue import describe
from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.models.transformer import SUBLAYERS, Layer, TransformerConfig
from translucid.parts.attention import Layout
from translucid.worked.board import Board
from translucid.worked.solution.content import SolutionTable, Value
from translucid.worked.solution.notation import count
from translucid.worked.solution.numbers import whole
from translucid.worked.solution.solution import Solution

_POINTS = (
    "query", "key", "value", "scores", "pattern", "mixed", "output", "sum", "hidden", "activated",
)  # fmt: skip


def layer_shapes(
    sizes: Mapping[str, Any], heads: Any, others: Mapping[str, Any], *, cross: bool
) -> Solution:
    """Show the shapes in a layer of these sizes; raise an error if any of `others` is given."""
    stray = [name for name, value in others.items() if value is not None]
    if stray:
        size = next(name for name, value in sizes.items() if value is not None)
        raise InputError(
            f"{stray[0]} does not work with {size}, which shows shapes; pass sizes or numbers"
        )
    if sizes["d_model"] is None:
        raise Missing("d_model is missing; the shapes need it", ("d_model",))
    d_model = whole(sizes["d_model"], "d_model")
    length = 6 if sizes["length"] is None else whole(sizes["length"], "length")
    d_ff = 4 * d_model if sizes["d_ff"] is None else whole(sizes["d_ff"], "d_ff")
    number = 1 if heads is None else whole(heads, "heads")
    try:
        config = TransformerConfig(
            shape="encoder", head="fill", vocab=1, d_model=d_model, heads=number, d_ff=d_ff,
            placement="post", positions="none",
        )  # fmt: skip
    except ConfigError:
        raise InputError(
            f"heads = {number}: {number} heads cannot share {d_model} dimensions equally"
        ) from None
    layer = Layer(config, cross=cross).eval()
    board = Board(1)
    for symbol, value in (("n", length), (r"d_{\mathrm{model}}", d_model), ("h", number)):
        board.state(symbol, count(value))
    board.state(r"d_{\mathrm{ff}}", count(d_ff))
    board.state("d_k", f"{d_model} / {number} = {d_model // number}")
    _write_shapes(board, layer, length, d_model)
    total = _write_parameters(board, layer)
    return board.solution(
        title=f"The shapes in {'a decoder' if cross else 'an encoder'} layer",
        closing=f"The output is {length} x {d_model} like the input, so layers can be stacked; "
        f"each has {total:,} parameters.",
        next=f"translucid work params --d-model {d_model} --heads {number}",
    )


@torch.no_grad()
def _write_shapes(board: Board, layer: Layer, length: int, d_model: int) -> None:
    """Write the shape of every value, from a run of the layer."""
    x, trace, pair = torch.zeros(1, length, d_model), Trace(budget_bytes=None), None
    if layer.cross_attention is not None:
        pair = layer.cross_attention.project(x)
    layer(x, Layout(causal=pair is not None), encoder_output=pair, trace=trace)
    rows: list[tuple[str, ...]] = []
    shapes: dict[str, Value] = {}
    for name in trace.names("*"):
        part, _, point = name.rpartition(".")
        if point in _POINTS or name.endswith("norm.output"):
            size = [*trace[name].shape[1:]]
            if len(size) == 3 and size[0] == 1:  # one head
                size = size[1:]
            shapes[name] = list(size)
            where = SUBLAYERS[part.partition(".")[0].removesuffix("_residual")]
            called = "output of the norm" if part.endswith("norm") else point
            called = f"${describe(name).symbol}$" if point == "sum" else called
            rows.append((where, called, " x ".join(str(n) for n in size)))
    board.table(
        "Shapes: rows x columns, with several heads one matrix for each head",
        SolutionTable(("sub-layer", "value", "shape"), tuple(rows)),
        name="shapes",
        value=shapes,
    )


def _write_parameters(board: Board, layer: Layer) -> int:
    """Write the number of parameters of each sub-layer; return their sum."""
    rows: list[tuple[str, ...]] = []
    counts: dict[str, Value] = {}
    parts: dict[str, list[nn.Module]] = {
        SUBLAYERS[n]: [layer.get_submodule(n)] for n in layer.frames()
    }
    parts["norms"] = [*layer.frames().values()]
    parts["layer"] = [layer]
    for name, modules in parts.items():
        tensors = [p for module in modules for p in module.parameters()]
        weights = sum(p.numel() for p in tensors if p.dim() > 1)
        total = sum(p.numel() for p in tensors)
        rows.append((name, f"{weights:,}", f"{total - weights:,}", f"{total:,}"))
        counts[name] = {"weights": weights, "vectors": total - weights, "total": total}
    board.table(
        "Parameters: weight matrices, and vectors (biases, gains and shifts)",
        SolutionTable(("part", "matrices", "vectors", "total"), tuple(rows)),
        name="parameters",
        value=counts,
        note="Counted on the real layer.",
    )
    return sum(p.numel() for p in layer.parameters())
