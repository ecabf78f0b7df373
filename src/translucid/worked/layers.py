"""Exercises: an encoder layer, a decoder layer, and the feed-forward network in them."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.core.trace import Trace
from translucid.models.transformer import Layer, TransformerConfig
from translucid.parts.activations import ActivationName
from translucid.parts.attention import Layout
from translucid.parts.feedforward import FeedForward
from translucid.worked import plain as in_numpy
from translucid.worked.board import SHIFTED, STABLE, Board, run_softmax
from translucid.worked.heads import (
    CAUSAL,
    IDENTITY,
    mask_note,
    read_layout,
    read_weight,
    state_weights,
)
from translucid.worked.layer_shapes import layer_shapes
from translucid.worked.layer_steps import LayerWriter, write_feedforward
from translucid.worked.plain import Program
from translucid.worked.solution.numbers import (
    Completed,
    Number,
    Numbers,
    complete,
    many,
    matrix,
    scalar,
    shape,
    vector,
    whole,
)
from translucid.worked.solution.solution import Solution

ATTENTION = ("wq", "wk", "wv", "wo")
EXAMPLE: dict[str, Any] = {
    "x": "1 0 1 0; 0 1 0 1; 1 1 0 0",
    "h": "1 0 0 1; 0 2 1 0",
    "w1": "1 0; 0 1; -1 0; 0 -1",
    "b1": "0 0.5",
    "w2": "1 0 1 0; 0 1 0 1",
    "b2": None,
    **dict.fromkeys((*ATTENTION, *(f"cross_{name}" for name in ATTENTION)), IDENTITY),
}
FEEDFORWARD_EXAMPLE = {
    "x": "1 0; 0 1; 1 1", "w1": "1 0 0 0; 0 1 0 0", "b1": None, "w2": "1 0; 0 1; 0 0; 0 0",
    "b2": None,
}  # fmt: skip


def feedforward(
    x: Numbers | None = None,
    *,
    w1: Numbers | None = None,
    b1: Numbers | None = None,
    w2: Numbers | None = None,
    b2: Numbers | None = None,
    activation: Literal["relu", "tanh", "sigmoid", "identity", "gelu", "silu"] | None = None,
    digits: int = 3,
) -> Solution:
    """The feed-forward network of a Transformer.

    Computes act(X W_1 + b_1) W_2 + b_2, for each row of X separately.

    x: Inputs, one row for each position.
    w1: W_1, one row for each column of X.
    b1: b_1, one number for each column of W_1 [default: 0].
    w2: W_2, one row for each column of W_1.
    b2: b_2, one number for each column of W_2 [default: 0].

    Example: translucid work feedforward --x "1 -1; -2 0.5; 1 1"
    """
    given = {"x": x, "w1": w1, "b1": b1, "w2": w2, "b2": b2}
    numbers = complete(given, FEEDFORWARD_EXAMPLE, ("x", "w1", "w2"))
    act = _activation(activation)
    rows = matrix(numbers["x"], "x")
    board = Board(digits)
    with numbers.fitting():
        weights = _feedforward_weights(numbers, rows.shape[1])
    part, trace = FeedForward(rows.shape[1], len(weights["W_2"]), act).double(), Trace()
    _set_feedforward(part, weights)
    board.state("X", rows)
    _state_feedforward(board, weights)
    part(rows[None], trace.at("feedforward"))
    write_feedforward(board, trace, rows, weights, act)
    return board.solution(
        title=f"Feed-forward network on {many(len(rows), 'row')}",
        closing="Every row is computed alone: swapping two rows of $X$ swaps the same rows of $F$.",
        next="translucid work encoder-layer"
        if activation
        else "translucid work feedforward --activation gelu",
        more="" if activation else "--activation gelu",
        program=Program(in_numpy.feedforward, {"X": rows, **_with_biases(weights)})
        if act == "relu"
        else None,
        example=numbers.example,
        asked=numbers.asked or activation is not None,
    )


def encoder_layer(
    x: Numbers | None = None,
    *,
    wq: Numbers | None = None,
    wk: Numbers | None = None,
    wv: Numbers | None = None,
    wo: Numbers | None = None,
    w1: Numbers | None = None,
    b1: Numbers | None = None,
    w2: Numbers | None = None,
    b2: Numbers | None = None,
    heads: int | str | None = None,
    mask: Numbers | None = None,
    placement: Literal["post", "pre"] | None = None,
    activation: Literal["relu", "gelu", "silu"] | None = None,
    eps: Number | None = None,
    d_model: int | str | None = None,
    length: int | str | None = None,
    d_ff: int | str | None = None,
    digits: int = 3,
) -> Solution:
    """An encoder layer with Add & Norm.

    Self-attention and a feed-forward network, each with a residual connection and layer norm. Given
    only sizes, it shows the shape of every value and counts the parameters.

    x: Inputs, one row for each position.
    wq: W_Q of the self-attention, as in Q = X W_Q [default: the identity].
    wk: W_K of the self-attention, as in K = X W_K [default: the identity].
    wv: W_V of the self-attention, as in V = X W_V [default: the identity].
    wo: W_O of the self-attention, which combines the heads [default: the identity].
    w1: W_1 of the feed-forward network, one row for each column of X.
    b1: b_1, one number for each column of W_1 [default: 0].
    w2: W_2, one row for each column of W_1.
    b2: b_2, one number for each column of W_2 [default: 0].
    heads: Number of heads [default: 1].
    mask: Visible keys: 1, or 0 for padding, such as "1 1 0".
    placement: post: norm(x + f(x)), the original order; pre: x + f(norm(x)) [default: post].
    eps: Added to the variance in layer norm [default: 0.00001].
    d_model: Dimension of every row, to show shapes instead of numbers.
    length: Number of positions, for the shapes [default: 6].
    d_ff: Dimension of the hidden layer, for the shapes [default: 4 d_model].

    Example: translucid work encoder-layer --placement pre

    Example: translucid work encoder-layer --d-model 512 --length 6
    """
    given = {"x": x, "wq": wq, "wk": wk, "wv": wv, "wo": wo}
    given |= {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    options = {"mask": mask, "placement": placement, "activation": activation, "eps": eps}
    sizes = {"d_model": d_model, "length": length, "d_ff": d_ff}
    if any(size is not None for size in sizes.values()):
        return layer_shapes(sizes, heads, given | options, cross=False)
    return _solve(given, options, heads, digits, cross=False)


def decoder_layer(
    x: Numbers | None = None,
    *,
    h: Numbers | None = None,
    wq: Numbers | None = None,
    wk: Numbers | None = None,
    wv: Numbers | None = None,
    wo: Numbers | None = None,
    cross_wq: Numbers | None = None,
    cross_wk: Numbers | None = None,
    cross_wv: Numbers | None = None,
    cross_wo: Numbers | None = None,
    w1: Numbers | None = None,
    b1: Numbers | None = None,
    w2: Numbers | None = None,
    b2: Numbers | None = None,
    heads: int | str | None = None,
    mask: Numbers | None = None,
    placement: Literal["post", "pre"] | None = None,
    activation: Literal["relu", "gelu", "silu"] | None = None,
    eps: Number | None = None,
    d_model: int | str | None = None,
    length: int | str | None = None,
    d_ff: int | str | None = None,
    digits: int = 3,
) -> Solution:
    """A decoder layer with cross-attention.

    Masked self-attention, cross-attention and a feed-forward network, each with Add & Norm. Given
    only sizes, it shows the shape of every value and counts the parameters.

    x: Inputs, one row for each position of the target.
    h: Output of the encoder, one row for each position of the source.
    wq: W_Q of the self-attention, as in Q = X W_Q [default: the identity].
    wk: W_K of the self-attention, as in K = X W_K [default: the identity].
    wv: W_V of the self-attention, as in V = X W_V [default: the identity].
    wo: W_O of the self-attention, which combines the heads [default: the identity].
    cross_wq: W_Q of the cross-attention [default: the identity].
    cross_wk: W_K of the cross-attention [default: the identity].
    cross_wv: W_V of the cross-attention [default: the identity].
    cross_wo: W_O of the cross-attention [default: the identity].
    w1: W_1 of the feed-forward network, one row for each column of X.
    b1: b_1, one number for each column of W_1 [default: 0].
    w2: W_2, one row for each column of W_1.
    b2: b_2, one number for each column of W_2 [default: 0].
    heads: Number of heads [default: 1].
    mask: Visible rows of h: 1, or 0 for padding, such as "1 0".
    placement: post: norm(x + f(x)), the original order; pre: x + f(norm(x)) [default: post].
    eps: Added to the variance in layer norm [default: 0.00001].
    d_model: Dimension of every row, to show shapes instead of numbers.
    length: Number of positions, for the shapes [default: 6].
    d_ff: Dimension of the hidden layer, for the shapes [default: 4 d_model].

    Example: translucid work decoder-layer --mask "1 0"
    """
    given = {"x": x, "h": h, "wq": wq, "wk": wk, "wv": wv, "wo": wo}
    given |= {"cross_wq": cross_wq, "cross_wk": cross_wk, "cross_wv": cross_wv}
    given |= {"cross_wo": cross_wo, "w1": w1, "b1": b1, "w2": w2, "b2": b2}
    options = {"mask": mask, "placement": placement, "activation": activation, "eps": eps}
    sizes = {"d_model": d_model, "length": length, "d_ff": d_ff}
    if any(size is not None for size in sizes.values()):
        return layer_shapes(sizes, heads, given | options, cross=True)
    return _solve(given, options, heads, digits, cross=True)


def _solve(
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    heads: int | str | None,
    digits: int,
    *,
    cross: bool,
) -> Solution:
    numbers = complete(given, EXAMPLE, [name for name in given if not name.startswith("b")])
    x = matrix(numbers["x"], "x")
    h = matrix(numbers["h"], "h") if cross else None
    placement, mask = options["placement"] or "post", options["mask"]
    if placement not in ("post", "pre"):
        raise InputError(f"placement = {placement}: must be post or pre")
    act = _activation(options["activation"])
    eps = scalar(1e-5 if options["eps"] is None else options["eps"], "eps").item()
    if eps < 0:
        raise InputError(f"eps = {eps:g}: must be 0 or more, such as 0.00001")
    count = 1 if heads is None else whole(heads, "heads")
    board = Board(digits)
    with numbers.fitting():
        if h is not None and h.shape[1] != x.shape[1]:
            raise InputError(f"x is {shape(x)} and h is {shape(h)}: both need as many columns")
        weights = _weights(numbers, x.shape[1])
        keys = len(x) if h is None else len(h)
        layout = read_layout(False, mask, len(x), keys)
    config = _config(x.shape[1], count, len(weights["feedforward"]["W_2"]), placement, act)
    layer = _build(config, weights, eps)

    @torch.no_grad()
    def run(trace: Trace) -> None:
        pair = None
        if layer.cross_attention is not None and h is not None:
            pair = layer.cross_attention.project(h[None])
        own, other = (layout, Layout()) if pair is None else (Layout(causal=True), layout)
        layer(x[None], own, encoder_output=pair, cross_layout=other, trace=trace)

    trace, textbook = run_softmax(run)
    shown = _state(board, x, h, numbers, weights, count, eps)
    hidden = "" if mask is None else mask_note(False, mask)
    notes = {"self_attention": CAUSAL, "cross_attention": hidden}
    writer = LayerWriter(
        board, layer, trace, shown, notes if cross else {"self_attention": hidden}, act, textbook
    )
    writer.write(x, h)
    kind = "decoder" if cross else "encoder"
    return board.solution(
        title=f"{'A decoder' if cross else 'An encoder'} layer ({placement}-norm)",
        notes=(
            STABLE if textbook else SHIFTED,
            "the gain of each norm is 1 and its shift 0, as before training.",
        ),
        closing=f"${writer.now}$ is the output of the layer, and the input of the next one.",
        next=(
            "translucid work params --shape encoder-decoder"
            if cross
            else "translucid work decoder-layer"
        )
        if options["placement"]
        else f"translucid work {kind}-layer --placement pre",
        more="" if options["placement"] else "--placement pre",
        program=_program(x, h, weights, eps)
        if count == 1 and mask is None and placement == "post" and act == "relu"
        else None,
        example=numbers.example,
        asked=numbers.asked or heads is not None or any(o is not None for o in options.values()),
    )


def _config(
    d_model: int, heads: int, d_ff: int, placement: Any, activation: ActivationName
) -> TransformerConfig:
    try:
        return TransformerConfig(
            shape="encoder", head="fill", vocab=1, d_model=d_model, heads=heads, d_ff=d_ff,
            placement=placement, activation=activation, qkv_bias=False,
            attention_output_bias=False, dropout=0.0,
        )  # fmt: skip
    except ConfigError:
        raise InputError(
            f"heads = {heads}: x has {d_model} columns, which {heads} heads cannot share equally"
        ) from None


def _activation(name: str | None) -> ActivationName:
    names: tuple[ActivationName, ...] = ("relu", "tanh", "sigmoid", "identity", "gelu", "silu")
    if name is None:
        return "relu"
    if name not in names:
        raise InputError(f"activation = {name}: expected one of {', '.join(names)}")
    return names[names.index(name)]


def _weights(numbers: Completed, d_model: int) -> dict[str, dict[str, Tensor]]:
    """The weights by sub-layer and symbol."""
    weights: dict[str, dict[str, Tensor]] = {}
    for sublayer, start in (("self_attention", ""), ("cross_attention", "cross_")):
        if f"{start}wq" in numbers.numbers:
            weights[sublayer] = {
                f"W_{name[1].upper()}": read_weight(
                    numbers[start + name], start + name, d_model, square=True
                )
                for name in ATTENTION
            }
    return weights | {"feedforward": _feedforward_weights(numbers, d_model)}


def _feedforward_weights(numbers: Completed, d_model: int) -> dict[str, Tensor]:
    """W_1, b_1, W_2 and b_2, without biases that were not given."""
    w1, w2 = (matrix(numbers[name], name) for name in ("w1", "w2"))
    if w1.shape[0] != d_model:
        raise InputError(
            f"x has {many(d_model, 'column')} and w1 is {shape(w1)}: w1 needs one row for each "
            "column of x"
        )
    if w2.shape != (w1.shape[1], d_model):
        raise InputError(
            f"w1 is {shape(w1)} and w2 is {shape(w2)}: w2 must be {w1.shape[1]} x {d_model}"
        )
    weights = {"W_1": w1}
    for name, weight in (("b1", w1), ("b2", w2)):
        if numbers[name] is not None:
            bias = vector(numbers[name], name)
            if len(bias) != weight.shape[1]:
                raise InputError(
                    f"{name} has {many(len(bias))}, but needs one for each of the "
                    f"{weight.shape[1]} columns of w{name[1]}"
                )
            weights[f"b_{name[1]}"] = bias
        if name == "b1":
            weights["W_2"] = w2
    return weights


def _with_biases(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """W_1, b_1, W_2 and b_2; a bias that was not given is 0."""
    zeros = {f"b_{i}": torch.zeros_like(weights[f"W_{i}"][0]) for i in "12"}
    return {name: (zeros | dict(weights))[name] for name in ("W_1", "b_1", "W_2", "b_2")}


def _program(
    x: Tensor, h: Tensor | None, weights: Mapping[str, Mapping[str, Tensor]], eps: float
) -> Program:
    after = {**_with_biases(weights["feedforward"]), "eps": eps}
    own = weights["self_attention"]
    if h is None:
        return Program(in_numpy.encoder_layer, {"X": x, **own, **after})
    pair = {"own": torch.stack(list(own.values()))}
    pair["cross"] = torch.stack(list(weights["cross_attention"].values()))
    return Program(in_numpy.decoder_layer, {"X": x, "H": h, **pair, **after})


@torch.no_grad()
def _set_feedforward(part: FeedForward, weights: Mapping[str, Tensor]) -> None:
    for linear, index in ((part.expand, "1"), (part.output, "2")):
        linear.weight.copy_(weights[f"W_{index}"].T)
        linear.bias.zero_()
        if f"b_{index}" in weights:
            linear.bias.copy_(weights[f"b_{index}"])


@torch.no_grad()
def _build(
    config: TransformerConfig, weights: Mapping[str, Mapping[str, Tensor]], eps: float
) -> Layer:
    """Build the layer with these weights."""
    layer = Layer(config, cross="cross_attention" in weights).double()
    for frame in layer.frames().values():
        frame.norm.eps = eps
    q, k, v, o = (weights["self_attention"][f"W_{letter}"].T for letter in "QKVO")
    layer.self_attention.qkv.weight.copy_(torch.cat([q, k, v]))
    layer.self_attention.output.weight.copy_(o)
    if layer.cross_attention is not None:
        q, k, v, o = (weights["cross_attention"][f"W_{letter}"].T for letter in "QKVO")
        layer.cross_attention.query.weight.copy_(q)
        layer.cross_attention.kv.weight.copy_(torch.cat([k, v]))
        layer.cross_attention.output.weight.copy_(o)
    assert isinstance(layer.feedforward, FeedForward)
    _set_feedforward(layer.feedforward, weights["feedforward"])
    return layer


def _state_feedforward(board: Board, weights: Mapping[str, Tensor]) -> None:
    for name, weight in weights.items():
        board.state(name, weight[None] if name.startswith("b") else weight)  # biases as rows


def _state(
    board: Board,
    x: Tensor,
    h: Tensor | None,
    numbers: Completed,
    weights: Mapping[str, Mapping[str, Tensor]],
    heads: int,
    eps: float,
) -> dict[str, dict[str, Tensor | str]]:
    """Write the given values; return the weights by sub-layer, as they appear in formulas."""
    board.state("X", x)
    if h is not None:
        board.state("H", h)
    shown: dict[str, dict[str, Tensor | str]] = {}
    for sublayer, start in (("self_attention", ""), ("cross_attention", "cross_")):
        if sublayer in weights:
            tables = {name: numbers[start + name] for name in ATTENTION}
            superscript = r"^{\mathrm{cross}}" if start else ""
            shown[sublayer] = state_weights(board, weights[sublayer], tables, superscript)
    _state_feedforward(board, weights["feedforward"])
    shown["feedforward"] = dict(weights["feedforward"])
    if heads > 1:
        board.state("h", str(heads), name="heads")
    board.state(r"\epsilon", torch.tensor(eps, dtype=torch.float64), name="eps")
    return shown
