"""How many parameters a Transformer has, part by part, counted on the real model."""

import re
from typing import Any, Literal

from torch import nn

from translucid.core.errors import ConfigError, InputError
from translucid.models.base import Network
from translucid.models.transformer import Layer, Stack, TransformerConfig
from translucid.models.undrawn import build_shapes
from translucid.parts.attention import MultiHead
from translucid.parts.feedforward import GATES
from translucid.worked.board import Board
from translucid.worked.solution.content import Step
from translucid.worked.solution.notation import count as written
from translucid.worked.solution.numbers import whole
from translucid.worked.solution.solution import Solution

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
    """The parameters of a Transformer, part by part.

    Each count as a formula, and as the number that the real model has.

    d_model: Model dimension: values for each position (768).
    heads: Heads (12).
    layers: Layers of each stack (12).
    d_ff: Width inside the feed-forward part (4 d_model).
    vocab: Vocabulary size (50257).
    kv_heads: Key and value heads (as many as heads).
    max_length: Rows of learned positions (512).
    no_bias: Matrices without biases (with).
    untied: The head has its own matrix (else tied embeddings).

    Example: translucid work params --d-model 768 --heads 12
    """
    sizes = {"d_model": d_model, "heads": heads, "layers": layers, "d_ff": d_ff, "vocab": vocab}
    example = all(size is None for size in sizes.values())
    defaults = {"d_model": 768, "heads": 12, "layers": 12, "d_ff": None, "vocab": 50257}
    chosen: dict[str, Any] = {
        name: defaults[name] if size is None else whole(size, name) for name, size in sizes.items()
    }
    chosen["kv_heads"] = None if kv_heads is None else whole(kv_heads, "kv_heads")
    words = {"shape": shape, "activation": activation, "norm": norm, "positions": positions}
    asked = no_bias or untied or any(w is not None for w in (*words.values(), kv_heads, max_length))
    chosen |= {name: _DEFAULTS[name] if word is None else word for name, word in words.items()}
    chosen["max_length"] = 512 if max_length is None else whole(max_length, "max_length")
    if max_length is not None and chosen["positions"] != "learned":
        raise InputError(
            f"max_length = {max_length}: only learned positions have a row for each; "
            f"choose positions learned, or leave max_length out"
        )
    chosen |= {"head": "language", "bias": not no_bias, "tied": not untied}
    if chosen["shape"] == "encoder":  # it cannot write words; the smallest head there is
        chosen |= {"head": "tag", "outputs": 2}
    try:
        config = TransformerConfig(**chosen)
    except ConfigError as error:
        raise ConfigError(*(_own_words(mistake) for mistake in error.mistakes)) from None
    return _solution(config, build_shapes(config), example, asked)


def _own_words(mistake: str) -> str:
    """A message without what pydantic puts before the words of a validator."""
    return re.sub("value error, ", "", mistake, flags=re.IGNORECASE)


class _Counter:
    """Writes one step for each count, and checks the formula against the model."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def step(self, title: str, symbol: str, formula: str, numbers: str, counted: int) -> None:
        self.board.steps.append(
            Step(
                title=title, section=self.board.section, name=symbol, symbol=symbol,
                formula=formula, numbers=numbers, result=written(counted), value=counted,
            )
        )  # fmt: skip


def _solution(config: TransformerConfig, model: Network, example: bool, asked: bool) -> Solution:
    board = Board(1)  # all numbers are whole
    d, h, d_ff = config.d_model, config.heads, config.d_ff or 4 * config.d_model
    names = {r"d_{\mathrm{model}}": d, "h": h, "N": config.layers}
    names |= {r"d_{\mathrm{ff}}": d_ff, "|V|": config.vocab}
    for symbol, value in names.items():
        board.state(symbol, written(value))
    counter = _Counter(board)
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    for stack in stacks:
        which = "Decoder" if stack.causal else "Encoder"
        _layer(counter, config, stack, which if len(stacks) > 1 else "")
    board.section = "The whole model"
    _whole(counter, config, model, stacks)
    more = _more(config)
    return board.solution(
        title="Counting the parameters of a Transformer",
        notes=("every result is counted on the model that would be trained, not on the formula.",),
        closing=f"{model.parameters_count:,} parameters in all.",
        next=f"translucid work params {more}" if more else "translucid work attention",
        more=more,
        example=example,
        asked=asked,
    )


def _more(config: TransformerConfig) -> str:
    """The other shape first, then what is usual today."""
    if config.shape != "encoder-decoder":
        return "--shape encoder-decoder"
    if config.activation == "swiglu" and config.norm == "rms":
        return ""
    fewer = "" if config.heads % 2 else f"--kv-heads {config.heads // 2} "
    return f"{fewer}--activation swiglu --norm rms"


def _size(*modules: nn.Module | None) -> int:
    return sum(p.numel() for module in modules if module is not None for p in module.parameters())


def _layer(counter: _Counter, config: TransformerConfig, stack: Stack, which: str) -> None:
    board, layer = counter.board, stack.layers[0]
    assert isinstance(layer, Layer)
    of = f"One {which.lower()} layer" if which else "One layer"
    board.section = of
    _attention(counter, config, layer.self_attention)
    cross = layer.cross_attention
    if cross is not None:
        counter.step(
            "Cross-attention: the same matrices again, keys and values from the encoder",
            r"P_{\mathrm{cross}}", "", "", _size(cross),
        )  # fmt: skip
    _feedforward(counter, config, layer.feedforward)
    frames = [m for n, m in layer.named_children() if n.endswith("_residual")]
    norms = _size(*frames)
    d = written(config.d_model)
    per_column = {"layer": 2, "rms": 1, "batch": 2, "none": 0}[config.norm]
    many = "1 number" if per_column == 1 else f"{per_column} numbers"
    counter.step(
        f"Norms: {many} for each column, in each of {len(frames)} places",
        r"P_{\mathrm{norm}}",
        rf"{len(frames)} \cdot {per_column} \cdot d_{{\mathrm{{model}}}}",
        rf"{len(frames)} \cdot {per_column} \cdot {d}",
        norms,
    )
    terms = [_size(layer.self_attention), _size(layer.feedforward), norms]
    symbols = [r"P_{\mathrm{att}}", r"P_{\mathrm{ff}}", r"P_{\mathrm{norm}}"]
    if cross is not None:
        terms.insert(1, _size(cross))
        symbols.insert(1, r"P_{\mathrm{cross}}")
    counter.step(
        f"{of}: all of these",
        r"P_{\mathrm{layer}}",
        " + ".join(symbols),
        " + ".join(written(term) for term in terms),
        _size(layer),
    )


def _attention(counter: _Counter, config: TransformerConfig, part: Any) -> None:
    assert isinstance(part, MultiHead)
    d, h = config.d_model, config.heads
    d_model, size = r"d_{\mathrm{model}}", written(config.d_model)
    counter.step(
        "Width of a head: the columns are shared out",
        "d_k", rf"{d_model} / h", f"{size} / {h}", part.d_head,
    )  # fmt: skip
    qkv = part.get_submodule("qkv")
    assert isinstance(qkv, nn.Linear)
    per_matrix = qkv.weight.numel() // (part.heads + 2 * part.kv_heads) * part.heads
    counter.step(
        "One projection: a square matrix, all heads side by side",
        "P_Q", rf"{d_model} \cdot {d_model}", rf"{size} \cdot {size}", per_matrix,
    )  # fmt: skip
    kv = part.kv_heads * part.d_head
    if part.kv_heads == h:
        counter.step(
            "Queries, keys and values: three of them",
            "P_{QKV}", rf"3 \cdot {d_model}^2", rf"3 \cdot {written(per_matrix)}",
            qkv.weight.numel(),
        )  # fmt: skip
    else:
        counter.step(
            f"Queries, keys and values: {h} query heads share {part.kv_heads} key and value heads",
            "P_{QKV}",
            rf"{d_model} \cdot ({d_model} + 2 \cdot h_{{\mathrm{{kv}}}} \cdot d_k)",
            rf"{size} \cdot ({size} + 2 \cdot {part.kv_heads} \cdot {part.d_head})",
            qkv.weight.numel(),
        )
    counter.step(
        "Output projection: mixes the heads",
        "P_O", rf"{d_model} \cdot {d_model}", rf"{size} \cdot {size}", part.output.weight.numel(),
    )  # fmt: skip
    biases = _size(part) - qkv.weight.numel() - part.output.weight.numel()
    if biases:
        counter.step(
            "Biases: one for each output of these matrices",
            "P_b",
            rf"2 \cdot {d_model} + 2 \cdot h_{{\mathrm{{kv}}}} \cdot d_k"
            if part.kv_heads != h
            else rf"4 \cdot {d_model}",
            rf"2 \cdot {size} + 2 \cdot {kv}" if part.kv_heads != h else rf"4 \cdot {size}",
            biases,
        )
    counter.step(
        f"Self-attention: projections{', output and biases' if biases else ' and output'}",
        r"P_{\mathrm{att}}",
        "P_{QKV} + P_O" + (" + P_b" if biases else ""),
        f"{written(qkv.weight.numel())} + {written(d * d)}"
        + (f" + {written(biases)}" if biases else ""),
        _size(part),
    )


def _feedforward(counter: _Counter, config: TransformerConfig, part: nn.Module) -> None:
    d, wide = config.d_model, config.d_ff or 4 * config.d_model
    gated = config.activation in GATES
    into = 2 if gated else 1
    formula = rf"{into + 1} \cdot d_{{\mathrm{{model}}}} \cdot d_{{\mathrm{{ff}}}}"
    numbers = rf"{into + 1} \cdot {written(d)} \cdot {written(wide)}"
    if config.bias:
        twice = "" if into == 1 else r"2 \cdot "
        formula += rf" + {twice}d_{{\mathrm{{ff}}}} + d_{{\mathrm{{model}}}}"
        numbers += f" + {twice}{written(wide)} + {written(d)}"
    what = "in twice (one half is the gate), out once" if gated else "in and out"
    counter.step(
        f"Feed-forward: {what}{', with biases' if config.bias else ''}",
        r"P_{\mathrm{ff}}",
        formula,
        numbers,
        _size(part),
    )


def _whole(
    counter: _Counter, config: TransformerConfig, model: Network, stacks: list[Stack]
) -> None:
    d, vocab = config.d_model, config.vocab
    embedding = _size(stacks[0].embedding)
    shared = " (source and target share them)" if len(stacks) > 1 else ""
    counter.step(
        f"Embeddings: one row for each word{shared}",
        "E", r"|V| \cdot d_{\mathrm{model}}", rf"{written(vocab)} \cdot {written(d)}", embedding,
    )  # fmt: skip
    terms = [embedding]
    tables = _size(*(stack.positions for stack in stacks))
    if tables:
        many = f"{len(stacks)} \\cdot " if len(stacks) > 1 else ""
        if config.positions == "relative":
            title = "Positions: one trained number for each range of distances and each head"
            formula, sizes = (
                r"n_{\mathrm{buckets}} \cdot h",
                (config.relative_buckets, config.heads),
            )
        else:
            title = "Positions: one trained row for each"
            formula, sizes = r"n_{\max} \cdot d_{\mathrm{model}}", (config.max_length, d)
        numbers = rf"{many}{written(sizes[0])} \cdot {written(sizes[1])}"
        counter.step(title, r"P_{\mathrm{pos}}", many + formula, numbers, tables)
        terms.append(tables)
    layers = sum(_size(*stack.layers) for stack in stacks)
    counts = [(len(stack.layers), _size(stack.layers[0])) for stack in stacks]
    counter.step(
        "Layers: all of them",
        r"P_{\mathrm{layers}}",
        r"N \cdot P_{\mathrm{layer}}" if len(stacks) == 1 else "",
        " + ".join(rf"{n} \cdot {written(size)}" for n, size in counts),
        layers,
    )
    terms.append(layers)
    last = _size(*(stack.final_norm for stack in stacks))
    rest = model.parameters_count - sum(terms) - last
    if last:
        two = len(stacks) > 1
        per_column = rf"{len(stacks)} \cdot {last // d // 2}" if two else str(last // d)
        counter.step(
            "Final norms: two, after the last layer of the encoder and of the decoder"
            if two
            else "Final norm: after the last layer",
            r"P_{\mathrm{final}}",
            rf"{per_column} \cdot d_{{\mathrm{{model}}}}",
            rf"{per_column} \cdot {written(d)}",
            last,
        )
        terms.append(last)
    _head(counter, config, rest)
    terms.append(rest)
    counter.step(
        "Total",
        "P",
        "",
        " + ".join(written(term) for term in terms if term),
        model.parameters_count,
    )


def _head(counter: _Counter, config: TransformerConfig, counted: int) -> None:
    d, symbol = written(config.d_model), r"P_{\mathrm{head}}"
    if not counted:
        counter.step("Head: tied, the embedding table again, so nothing new", symbol, "", "", 0)
    elif config.head == "language":
        counter.step(
            "Head: a matrix of its own",
            symbol, r"|V| \cdot d_{\mathrm{model}}", rf"{written(config.vocab)} \cdot {d}", counted,
        )  # fmt: skip
    else:
        counter.step(
            f"Head: {config.outputs} tags, with biases",
            symbol,
            rf"{config.outputs} \cdot d_{{\mathrm{{model}}}} + {config.outputs}",
            rf"{config.outputs} \cdot {d} + {config.outputs}",
            counted,
        )
