"""`translucid work ...`: worked solutions, from numbers on the command line or in a file."""

from typing import Annotated, Any

import typer

from translucid.cli import work_cells as cells
from translucid.cli.work_command import WorkCommand
from translucid.cli.work_options import (
    ACTIVATIONS,
    GATED,
    NORMS,
    POSITIONS,
    SHAPES,
    WK,
    WO,
    WQ,
    WV,
    Causal,
    Digits,
    File,
    Format,
    Heads,
    Identity,
    Rate,
    Unscaled,
    X,
    collect,
    numbers,
    solve,
    word,
)

app = typer.Typer(
    help="Solve an exercise step by step, with your numbers.",
    epilog='Example: translucid work attention --x "1 0; 0 1; 1 1" --identity',
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=WorkCommand)
def softmax(
    x: Annotated[str | None, typer.Argument(metavar='"NUMBERS"', help="One row.")] = None,
    row: Annotated[str | None, numbers("--x", help="The same row, as an option.")] = None,
    target: Annotated[
        str | None,
        numbers(
            "--target",
            metavar="N",
            help="The right entry, counted from 0 as programs do (none); the solution counts "
            "entries from 1.",
        ),
    ] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """Softmax of one row, its loss and its gradient.

    With --target, the cross-entropy loss and the gradient follow.

    Example: translucid work softmax "2 1 0" --target 0
    """
    if x is not None and row is not None:
        raise typer.BadParameter("the row is given twice", param_hint="--x")
    x = row if x is None else x
    return solve("softmax", collect({"x": x, "target": target, "digits": digits}, file))


@app.command(cls=WorkCommand)
def attention(
    q: Annotated[str | None, numbers("--q", help="Queries, one row each.")] = None,
    k: Annotated[str | None, numbers("--k", help="Keys, one row each.")] = None,
    v: Annotated[str | None, numbers("--v", help="Values, one row for each key.")] = None,
    x: X = None,
    wq: WQ = None,
    wk: WK = None,
    wv: WV = None,
    wo: WO = None,
    identity: Identity = False,
    causal: Causal = False,
    unscaled: Unscaled = False,
    heads: Annotated[
        str | None, numbers("--heads", metavar="N", help="Several heads, as `work multihead`.")
    ] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """Attention by one head.

    From Q, K and V, or from X and its projections. With --heads it is `work multihead`.

    Example: translucid work attention --x "1 0; 0 1; 1 1" --identity
    """
    flags = {"identity": identity, "causal": causal, "unscaled": unscaled}
    values = {"q": q, "k": k, "v": v, "x": x, "wq": wq, "wk": wk, "wv": wv, "wo": wo}
    given = collect({**values, "heads": heads, "digits": digits}, file, flags=flags)
    if "heads" not in given and "wo" not in given:
        return solve("attention", given)
    if "heads" not in given:
        raise typer.BadParameter("W_O joins several heads; add --heads", param_hint="--wo")
    if {"q", "k", "v"} & set(given):
        raise typer.BadParameter(
            "several heads need --x: they are cut from its projections", param_hint="--heads"
        )
    return solve("multihead", given)


@app.command(cls=WorkCommand)
def multihead(
    x: X = None,
    heads: Heads = None,
    wq: WQ = None,
    wk: WK = None,
    wv: WV = None,
    wo: WO = None,
    identity: Identity = False,
    causal: Causal = False,
    unscaled: Unscaled = False,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """Attention by several heads.

    Each head with its own numbers, then all joined and mixed.

    Example: translucid work multihead --x "1 0 1 0; 0 1 0 1; 1 1 0 0" --heads 2 --identity
    """
    values = {"x": x, "heads": heads, "wq": wq, "wk": wk, "wv": wv, "wo": wo, "digits": digits}
    flags = {"identity": identity, "causal": causal, "unscaled": unscaled}
    return solve("multihead", collect(values, file, flags=flags))


@app.command(cls=WorkCommand)
def positions(
    d: Annotated[str | None, numbers("--d", metavar="N", help="Dimensions of each (4).")] = None,
    positions: Annotated[str | None, numbers("--positions", help='Which: "0 1 2".')] = None,
    count: Annotated[
        str | None, numbers("--count", metavar="N", help="How many, from 0 on (3).")
    ] = None,
    base: Annotated[
        str | None,
        numbers(
            "--base",
            metavar="NUMBER",
            help="The slowest pair turns about so many times slower (10000).",
        ),
    ] = None,
    rotary: Annotated[bool, typer.Option("--rotary", help="Turn q and k instead.")] = False,
    q: Annotated[str | None, numbers("--q", help="The query to turn.")] = None,
    k: Annotated[str | None, numbers("--k", help="The key to turn.")] = None,
    pairs: Annotated[
        str | None, numbers("--pairs", help='Query and key positions: "5 2; 105 102".')
    ] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """Sinusoidal or rotary positions.

    Angles, sines and cosines, periods, dot products; or, turned by position, a query and a key.

    Example: translucid work positions --d 4 --count 3

    Example: translucid work positions --rotary --q "1 2" --k "3 4" --pairs "5 2; 105 102"
    """
    values = {"d": d, "positions": positions, "count": count, "base": base}
    values |= {"q": q, "k": k, "pairs": pairs}
    flags = {"rotary": rotary}
    return solve("positions", collect({**values, "digits": digits}, file, flags=flags))


@app.command(cls=WorkCommand)
def mlp(
    x: Annotated[str | None, numbers("--x", help="The input.")] = None,
    w: Annotated[str | None, numbers("--w", "--W", help="W, one row for each unit.")] = None,
    b: Annotated[str | None, numbers("--b", help="b, one number for each unit (0).")] = None,
    v: Annotated[str | None, numbers("--v", "--V", help="v, from the units to the output.")] = None,
    c: Annotated[str | None, numbers("--c", help="c, the bias of the output (0).")] = None,
    y: Annotated[str | None, numbers("--y", help="The right answer: loss and gradients.")] = None,
    rate: Rate = None,
    activation: Annotated[str | None, word("--activation", ACTIVATIONS)] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """A network with one hidden layer.

    Forward, loss, backward, one SGD step, forward again.

    Example: translucid work mlp --x "1 0 2" --w "1 -1 0; 0 2 1" --b "0 1" --v "2 -1" --y 3
    --rate 0.02
    """
    values = {"x": x, "w": w, "b": b, "v": v, "c": c, "y": y, "rate": rate}
    words = {"activation": activation}
    return solve("mlp", collect({**values, "digits": digits}, file, words=words))


for _cell in (cells.rnn, cells.lstm, cells.gru):
    app.command(cls=WorkCommand)(_cell)


@app.command(cls=WorkCommand)
def beam(
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="Where to begin (the table's first row).")
    ] = None,
    beam_size: Annotated[
        str | None, numbers("--beam-size", metavar="N", help="Beam size: prefixes to keep (2).")
    ] = None,
    steps: Annotated[
        str | None, numbers("--steps", metavar="N", help="At most so many (20).")
    ] = None,
    alpha: Annotated[
        str | None, numbers("--alpha", metavar="NUMBER", help="Rank by score / length^alpha (0).")
    ] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """Greedy and beam search, round by round.

    The file has a [table] of next-word probabilities, one row for each prefix:
    "I am" = { fine = 0.5, here = 0.5 }.

    Example: translucid work beam --beam-size 2
    """
    values = {"beam_size": beam_size, "steps": steps, "alpha": alpha, "table": None}
    words = {"prefix": prefix}
    return solve("beam", collect({**values, "digits": digits}, file, words=words))


@app.command(cls=WorkCommand)
def params(
    d_model: Annotated[
        str | None,
        numbers("--d-model", metavar="N", help="Model dimension: values for each position (768)."),
    ] = None,
    heads: Annotated[str | None, numbers("--heads", metavar="N", help="Heads (12).")] = None,
    layers: Annotated[
        str | None, numbers("--layers", metavar="N", help="Layers of each stack (12).")
    ] = None,
    d_ff: Annotated[
        str | None,
        numbers("--d-ff", metavar="N", help="Width inside the feed-forward part (4 d_model)."),
    ] = None,
    vocab: Annotated[
        str | None, numbers("--vocab", metavar="N", help="Vocabulary size (50257).")
    ] = None,
    kv_heads: Annotated[
        str | None,
        numbers("--kv-heads", metavar="N", help="Key and value heads (as many as heads)."),
    ] = None,
    max_length: Annotated[
        str | None, numbers("--max-length", metavar="N", help="Rows of learned positions (512).")
    ] = None,
    shape: Annotated[str | None, word("--shape", SHAPES)] = None,
    activation: Annotated[str | None, word("--activation", GATED)] = None,
    norm: Annotated[str | None, word("--norm", NORMS)] = None,
    positions: Annotated[str | None, word("--positions", POSITIONS)] = None,
    no_bias: Annotated[
        bool, typer.Option("--no-bias", help="Matrices without biases (with).")
    ] = False,
    untied: Annotated[
        bool,
        typer.Option("--untied", help="The head has its own matrix (else tied embeddings)."),
    ] = False,
    file: File = None,
    format: Format = "text",
) -> Any:
    """The parameters of a Transformer, part by part.

    Each count as a formula, and as the number that the real model has.

    Example: translucid work params --d-model 768 --heads 12
    """
    values = {"d_model": d_model, "heads": heads, "layers": layers, "d_ff": d_ff, "vocab": vocab}
    values |= {"kv_heads": kv_heads, "max_length": max_length}
    words = {"shape": shape, "activation": activation, "norm": norm, "positions": positions}
    flags = {"no_bias": no_bias, "untied": untied}
    return solve("params", collect(values, file, words=words, flags=flags))
