"""Exercise: count a Transformer's parameters, part by part, on the real model."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from torch import nn

from translucid.core.catalogue import fill
from translucid.core.errors import ConfigError, InputError
from translucid.models.base import Network
from translucid.models.build import build_shapes
from translucid.models.transformer import Layer, Stack, TransformerConfig
from translucid.parts.attention import MultiHead
from translucid.parts.feedforward import GATES
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import Step
from translucid.worked.solution.notation import count
from translucid.worked.solution.numbers import whole
from translucid.worked.solution.solution import Solution

# Symbols for sizes and counts, by their names in templates.
_SYMBOLS = {
    "d": r"d_{\mathrm{model}}", "d_ff": r"d_{\mathrm{ff}}", "h": "h", "N": "N", "V": "|V|",
    "kv": r"h_{\mathrm{kv}}", "dk": "d_k", "Q": "P_Q", "QKV": "P_{QKV}", "O": "P_O", "b": "P_b",
    "E": "E", "P": "P", "buckets": r"n_{\mathrm{buckets}}", "max": r"n_{\max}",
}  # fmt: skip
_DEFAULTS = {
    "shape": "decoder", "activation": "relu", "norm": "layer", "positions": "sinusoidal",
}  # fmt: skip


def params(
    d_model: int | str | None = None,
    heads: int | str | None = None,
    layers: int | str | None = None,
    *,
    d_ff: int | str | None = None,
    vocab: int | str | None = None,
    kv_heads: int | str | None = None,
    max_length: int | str | None = None,
    shape: Literal["decoder", "encoder", "encoder-decoder"] | None = None,
    activation: Literal[
        "relu",
        "tanh",
        "sigmoid",
        "identity",
        "gelu",
        "gelu_tanh",
        "quick_gelu",
        "relu_squared",
        "silu",
        "swiglu",
        "geglu",
        "geglu_tanh",
    ]
    | None = None,
    norm: Literal["layer", "rms", "batch", "none"] | None = None,
    positions: Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]
    | None = None,
    no_bias: bool = False,
    untied: bool = False,
) -> Solution:
    """Count the parameters of a Transformer, part by part.

    Shows each count as a formula. The numbers are counted in a real model of this size, not
    computed from the formulas.

    d_model: Model dimension: values per position [default: 768].
    heads: Number of attention heads [default: 12].
    layers: Number of layers in each stack [default: 12].
    d_ff: Hidden units of the feed-forward network [default: 4 * d_model].
    vocab: Vocabulary size [default: 50257].
    kv_heads: Number of key and value heads [default: same as heads].
    max_length: Number of learned positions [default: 512].
    no_bias: Omit the biases of all matrices.
    untied: Give the output head its own matrix instead of the embedding matrix.

    Example: translucid work params --d-model 768 --heads 12
    """
    sizes = {"d_model": d_model, "heads": heads, "layers": layers, "d_ff": d_ff, "vocab": vocab}
    example = any(size is None for name, size in sizes.items() if name != "d_ff")
    defaults = {"d_model": 768, "heads": 12, "layers": 12, "d_ff": None, "vocab": 50257}
    chosen: dict[str, Any] = {
        name: defaults[name] if size is None else whole(size, name) for name, size in sizes.items()
    }
    chosen["kv_heads"] = None if kv_heads is None else whole(kv_heads, "kv_heads")
    words = {"shape": shape, "activation": activation, "norm": norm, "positions": positions}
    options = (*sizes.values(), *words.values(), kv_heads, max_length)
    asked = no_bias or untied or any(option is not None for option in options)
    chosen |= {name: _DEFAULTS[name] if word is None else word for name, word in words.items()}
    chosen["max_length"] = 512 if max_length is None else whole(max_length, "max_length")
    if max_length is not None and chosen["positions"] != "learned":
        raise InputError(
            f"max_length = {max_length}: only learned positions have a row for each position; "
            "choose positions learned, or omit max_length"
        )
    chosen |= {"head": "language", "bias": not no_bias, "tied": not untied}
    if chosen["shape"] == "encoder":  # an encoder cannot generate text: use the smallest head
        chosen |= {"head": "tag", "outputs": 2}
    try:
        config = TransformerConfig(**chosen)
    except ConfigError as error:
        raise ConfigError(*(_own_words(mistake) for mistake in error.mistakes)) from None
    unchanged = all(word is None for word in (*words.values(), kv_heads, max_length))
    ordinary = unchanged and not no_bias and not untied
    return _solution(config, build_shapes(config), example, asked, ordinary)


def _own_words(mistake: str) -> str:
    """Remove pydantic's prefix from an error message."""
    return re.sub("value error, ", "", mistake, flags=re.IGNORECASE)


class _Counter:
    """Writes one step per count: the formula, the formula with numbers, the result."""

    def __init__(self, board: Board, sizes: Mapping[str, int]) -> None:
        self.board, self.values = board, dict(sizes)

    def step(
        self, name: str, title: str, template: str, counted: int, *, numbers: str | None = None
    ) -> None:
        """Write one count. name: used in later templates to refer to this count. numbers: a
        different template for the line with numbers."""
        written = {key: count(value) for key, value in self.values.items()}
        self.board.steps.append(
            Step(
                title=title, section=self.board.section, name=_symbol(name), symbol=_symbol(name),
                formula=fill(template, "", {key: _symbol(key) for key in self.values}),
                numbers=fill(template if numbers is None else numbers, "", written),
                result=count(counted), value=counted,
            )
        )  # fmt: skip
        self.values[name] = counted


def _symbol(name: str) -> str:
    return _SYMBOLS.get(name, rf"P_{{\mathrm{{{name}}}}}")


def _program(config: TransformerConfig) -> Program:
    sizes = {"d_model": config.d_model, "heads": config.heads, "layers": config.layers}
    sizes |= {"d_ff": config.d_ff or 4 * config.d_model, "vocab": config.vocab}
    return Program(in_numpy.params, sizes)


def _solution(
    config: TransformerConfig, model: Network, example: bool, asked: bool, ordinary: bool
) -> Solution:
    """Count the parameters. ordinary: whether the plain program supports the options."""
    board = Board(1)  # all numbers are whole
    sizes = {"d": config.d_model, "h": config.heads, "N": config.layers}
    sizes |= {"d_ff": config.d_ff or 4 * config.d_model, "V": config.vocab}
    for name, value in sizes.items():
        board.state(_symbol(name), count(value))
    counter = _Counter(board, sizes)
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    for stack in stacks:
        which = "Decoder" if stack.causal else "Encoder"
        _layer(counter, config, stack, which if len(stacks) > 1 else "")
    board.section = "The whole model"
    _whole(counter, config, model, stacks)
    more = _more(config)
    return board.solution(
        title="Counting the parameters of a Transformer",
        notes=("every result is counted on the real model, not computed from the formula.",),
        closing=f"{model.parameters_count:,} parameters in all.",
        next=f"translucid work params {more}" if more else "translucid work attention",
        more=more,
        program=_program(config) if ordinary else None,
        example=example,
        asked=asked,
    )


def _more(config: TransformerConfig) -> str:
    """Options to suggest next: the other shape, then a modern variant."""
    if config.shape != "encoder-decoder":
        return "--shape encoder-decoder"
    if config.activation == "swiglu" and config.norm == "rms":
        return ""
    fewer = "" if config.heads % 2 else f"--kv-heads {config.heads // 2} "
    return f"{fewer}--activation swiglu --norm rms"


def _size(*modules: nn.Module | None) -> int:
    return sum(p.numel() for module in modules if module is not None for p in module.parameters())


def _layer(counter: _Counter, config: TransformerConfig, stack: Stack, which: str) -> None:
    layer = stack.layers[0]
    assert isinstance(layer, Layer)
    of = f"One {which.lower()} layer" if which else "One layer"
    counter.board.section = of
    _attention(counter, layer.self_attention)
    terms = "<att> + <ff> + <norm>"
    if layer.cross_attention is not None:
        terms = "<att> + <cross> + <ff> + <norm>"
        title = "Cross-attention: the same matrices again; keys and values come from the encoder"
        counter.step("cross", title, "", _size(layer.cross_attention))
    _feedforward(counter, config, layer.feedforward)
    frames = [m for n, m in layer.named_children() if n.endswith("_residual")]
    per_column = {"layer": 2, "rms": 1, "batch": 2, "none": 0}[config.norm]
    parameters = "1 parameter" if per_column == 1 else f"{per_column} parameters"
    title = f"Norms: {len(frames)} norms, each with {parameters} per dimension"
    template = rf"{len(frames)} \cdot {per_column} \cdot <d>"
    counter.step("norm", title, template, _size(*frames))
    counter.step("layer", f"{of}: the sum of its parts", terms, _size(layer))


def _attention(counter: _Counter, part: Any) -> None:
    assert isinstance(part, MultiHead)
    title = "Head dimension: the model dimension, divided among the heads"
    counter.step("dk", title, "<d> / <h>", part.d_head)
    qkv = part.get_submodule("qkv")
    assert isinstance(qkv, nn.Linear)
    per_matrix = qkv.weight.numel() // (part.heads + 2 * part.kv_heads) * part.heads
    square = r"<d> \cdot <d>"
    title = "One projection: a square matrix, all heads side by side"
    counter.step("Q", title, square, per_matrix)
    counter.values["kv"] = part.kv_heads
    shared = part.kv_heads != part.heads
    if shared:
        title = f"{part.heads} query heads share {part.kv_heads} key and value heads"
        template, numbers = r"<d> \cdot (<d> + 2 \cdot <kv> \cdot <dk>)", None
    else:
        title, template, numbers = "three of them", r"3 \cdot <d>^2", r"3 \cdot <Q>"
    title = f"Queries, keys and values: {title}"
    counter.step("QKV", title, template, qkv.weight.numel(), numbers=numbers)
    counter.step("O", "Output projection: combines the heads", square, part.output.weight.numel())
    biases = _size(part) - qkv.weight.numel() - part.output.weight.numel()
    if biases:
        title = "Biases: one for each output of these matrices"
        template, numbers = r"4 \cdot <d>", None
        if shared:
            template = r"2 \cdot <d> + 2 \cdot <kv> \cdot <dk>"
            numbers = rf"2 \cdot <d> + 2 \cdot {part.kv_heads * part.d_head}"
        counter.step("b", title, template, biases, numbers=numbers)
    title = f"Self-attention: projections{', output and biases' if biases else ' and output'}"
    counter.step("att", title, f"<QKV> + <O>{' + <b>' if biases else ''}", _size(part))


def _feedforward(counter: _Counter, config: TransformerConfig, part: nn.Module) -> None:
    gated = config.activation in GATES
    template = rf"{3 if gated else 2} \cdot <d> \cdot <d_ff>"
    if config.bias:
        template += r" + 2 \cdot <d_ff> + <d>" if gated else " + <d_ff> + <d>"
    what = "in twice (one half is the gate), out once" if gated else "in and out"
    title = f"Feed-forward: {what}{', with biases' if config.bias else ''}"
    counter.step("ff", title, template, _size(part))


def _whole(
    counter: _Counter, config: TransformerConfig, model: Network, stacks: list[Stack]
) -> None:
    two, d = len(stacks) > 1, config.d_model
    shared = " (source and target share them)" if two else ""
    title = f"Embeddings: one row for each word{shared}"
    counter.step("E", title, r"<V> \cdot <d>", _size(stacks[0].embedding))
    total = ["E"]
    if tables := _size(*(stack.positions for stack in stacks)):
        counter.values |= {"buckets": config.relative_buckets, "max": config.max_length}
        title, template = "Positions: one trained row for each", r"<max> \cdot <d>"
        if config.positions == "relative":
            title = "Positions: one trained number for each range of distances and each head"
            template = r"<buckets> \cdot <h>"
        counter.step("pos", title, (rf"{len(stacks)} \cdot " if two else "") + template, tables)
        total.append("pos")
    counts = [rf"{len(stack.layers)} \cdot {count(_size(stack.layers[0]))}" for stack in stacks]
    layers = sum(_size(*stack.layers) for stack in stacks)
    template = "" if two else r"<N> \cdot <layer>"
    counter.step("layers", "Layers: all of them", template, layers, numbers=" + ".join(counts))
    total.append("layers")
    if last := _size(*(stack.final_norm for stack in stacks)):
        title = "Final norm: after the last layer"
        per_column = str(last // d)
        if two:
            title = "Final norms: two, after the last layer of the encoder and of the decoder"
            per_column = rf"{len(stacks)} \cdot {last // d // 2}"
        counter.step("final", title, rf"{per_column} \cdot <d>", last)
        total.append("final")
    rest = model.parameters_count - sum(counter.values[name] for name in total)
    _head(counter, config, rest)
    terms = " + ".join(f"<{name}>" for name in (*total, "head") if counter.values[name])
    counter.step("P", "Total", "", model.parameters_count, numbers=terms)


def _head(counter: _Counter, config: TransformerConfig, counted: int) -> None:
    if not counted:
        title, template = "Head: tied to the embedding table, so no new parameters", ""
    elif config.head == "language":
        title, template = "Head: its own matrix", r"<V> \cdot <d>"
    else:
        title = f"Head: {config.outputs} tags, with biases"
        template = rf"{config.outputs} \cdot <d> + {config.outputs}"
    counter.step("head", title, template, counted)
