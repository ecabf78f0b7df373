"""`translucid work ...`: worked solutions, from numbers on the command line or in a file."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from translucid.cli import work_cells as cells
from translucid.cli.work_options import (
    WK,
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
    numbers,
    show,
)

app = typer.Typer(
    help="Solve an exercise step by step, with your numbers.",
    epilog='Example: translucid work attention --x "1 0; 0 1; 1 1" --identity',
    no_args_is_help=True,
    rich_markup_mode=None,
)


class _TakesNegative(TyperCommand):
    """`softmax "-2 1 0"`: a word that begins like a negative number is no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for i, word in enumerate(args):
            begins = word[:1] == "-" and word[1:2] in set("0123456789.")
            if begins and not (i and args[i - 1].startswith("--")):
                args = [*args[:i], *args[i + 1 :], "--", word]
                break
        return super().parse_args(ctx, args)


@app.command(cls=_TakesNegative)
def softmax(
    x: Annotated[str | None, typer.Argument(metavar='"NUMBERS"', help="One row.")] = None,
    target: Annotated[
        str | None, numbers("--target", metavar="N", help="The right entry, counted from 0.")
    ] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> None:
    """Softmax of one row, its loss and its gradient.

    With --target, the cross-entropy loss and the gradient follow.

    Example: translucid work softmax "2 1 0" --target 0
    """
    show("softmax", {"x": x, "target": target}, file, format, digits)


@app.command()
def attention(
    q: Annotated[str | None, numbers("--q", help="Queries, one row each.")] = None,
    k: Annotated[str | None, numbers("--k", help="Keys, one row each.")] = None,
    v: Annotated[str | None, numbers("--v", help="Values, one row for each key.")] = None,
    x: X = None,
    wq: WQ = None,
    wk: WK = None,
    wv: WV = None,
    identity: Identity = False,
    causal: Causal = False,
    unscaled: Unscaled = False,
    heads: Heads = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> None:
    """Attention by one head.

    From Q, K and V, or from X and its projections. With --heads it is `work multihead`.

    Example: translucid work attention --x "1 0; 0 1; 1 1" --identity
    """
    flags = {"identity": identity, "causal": causal, "unscaled": unscaled}
    weights = {"x": x, "wq": wq, "wk": wk, "wv": wv}
    if heads is not None and not (q or k or v):
        given = {**weights, "wo": None, "heads": heads}
        show("multihead", given, file, format, digits, flags=flags)
        return
    if heads is not None:
        raise typer.BadParameter(
            "several heads need --x: they are cut from its projections", param_hint="--heads"
        )
    show("attention", {"q": q, "k": k, "v": v, **weights}, file, format, digits, flags=flags)


@app.command()
def multihead(
    x: X = None,
    heads: Heads = None,
    wq: WQ = None,
    wk: WK = None,
    wv: WV = None,
    wo: Annotated[str | None, numbers("--wo", "--W_O", help="W_O, which mixes the heads.")] = None,
    identity: Identity = False,
    causal: Causal = False,
    unscaled: Unscaled = False,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> None:
    """Attention by several heads.

    Each head with its own numbers, then all joined and mixed.

    Example: translucid work multihead --x "1 0 1 0; 0 1 0 1; 1 1 0 0" --heads 2 --identity
    """
    given = {"x": x, "heads": heads, "wq": wq, "wk": wk, "wv": wv, "wo": wo}
    flags = {"identity": identity, "causal": causal, "unscaled": unscaled}
    show("multihead", given, file, format, digits, flags=flags)


@app.command()
def positions(
    d: Annotated[str | None, numbers("--d", metavar="N", help="How many numbers each.")] = None,
    positions: Annotated[str | None, numbers("--positions", help='Which: "0 1 2".')] = None,
    count: Annotated[
        str | None, numbers("--count", metavar="N", help="How many, from 0 on.")
    ] = None,
    base: Annotated[str | None, numbers("--base", metavar="NUMBER", help="10000")] = None,
    rotary: Annotated[bool, typer.Option("--rotary", help="Turn q and k instead.")] = False,
    q: Annotated[str | None, numbers("--q", help="The query to turn.")] = None,
    k: Annotated[str | None, numbers("--k", help="The key to turn.")] = None,
    pairs: Annotated[
        str | None, numbers("--pairs", help='Query and key positions: "5 2; 105 102".')
    ] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> None:
    """Sinusoidal or rotary positions.

    Angles, sines and cosines, periods, dot products; or, turned by position, a query and a key.

    Example: translucid work positions --d 4 --count 3

    Example: translucid work positions --rotary --q "1 2" --k "3 4" --pairs "5 2; 105 102"
    """
    given = {"d": d, "positions": positions, "count": count, "base": base}
    given |= {"q": q, "k": k, "pairs": pairs}
    show("positions", given, file, format, digits, flags={"rotary": rotary})


@app.command()
def mlp(
    x: Annotated[str | None, numbers("--x", help="The input.")] = None,
    w: Annotated[str | None, numbers("--w", "--W", help="W, one row for each unit.")] = None,
    b: Annotated[str | None, numbers("--b", help="b, one number for each unit (0).")] = None,
    v: Annotated[str | None, numbers("--v", "--V", help="v, from the units to the output.")] = None,
    c: Annotated[str | None, numbers("--c", help="c, the bias of the output (0).")] = None,
    y: Annotated[str | None, numbers("--y", help="The right answer: loss and gradients.")] = None,
    rate: Rate = None,
    activation: Annotated[
        str | None, typer.Option("--activation", help="relu, tanh, sigmoid, identity, gelu, silu.")
    ] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> None:
    """A network with one hidden layer.

    Forward, loss, backward, one SGD step, forward again.

    Example: translucid work mlp --x "1 0 2" --w "1 -1 0; 0 2 1" --b "0 1" --v "2 -1" --y 3
    --rate 0.02
    """
    given = {"x": x, "w": w, "b": b, "v": v, "c": c, "y": y, "rate": rate}
    show("mlp", given, file, format, digits, words={"activation": activation})


for _cell in (cells.rnn, cells.lstm, cells.gru):
    app.command()(_cell)


@app.command()
def beam(
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="Where to begin (the table's first row).")
    ] = None,
    beams: Annotated[str | None, numbers("--beams", metavar="N", help="How many to keep.")] = None,
    steps: Annotated[str | None, numbers("--steps", metavar="N", help="At most so many.")] = None,
    alpha: Annotated[
        str | None, numbers("--alpha", metavar="NUMBER", help="Rank by score / length^alpha.")
    ] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> None:
    """Greedy and beam search, round by round.

    The file has a [table] of next-word probabilities, one row for each prefix:
    "I am" = { fine = 0.5, here = 0.5 }.

    Example: translucid work beam --beams 2
    """
    given = {"beams": beams, "steps": steps, "alpha": alpha, "table": None}
    show("beam", given, file, format, digits, words={"prefix": prefix})


@app.command()
def params(
    d_model: Annotated[str | None, numbers("--d-model", metavar="N")] = None,
    heads: Heads = None,
    layers: Annotated[str | None, numbers("--layers", metavar="N")] = None,
    d_ff: Annotated[
        str | None, numbers("--d-ff", metavar="N", help="Four times d_model unless given.")
    ] = None,
    vocab: Annotated[str | None, numbers("--vocab", metavar="N")] = None,
    kv_heads: Annotated[
        str | None, numbers("--kv-heads", metavar="N", help="Key and value heads, if fewer.")
    ] = None,
    max_length: Annotated[
        str | None, numbers("--max-length", metavar="N", help="Rows of learned positions.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option("--shape", help="decoder, encoder or encoder-decoder.")
    ] = None,
    activation: Annotated[
        str | None, typer.Option("--activation", help="relu, gelu, swiglu, ...")
    ] = None,
    norm: Annotated[str | None, typer.Option("--norm", help="layer, rms, batch, none.")] = None,
    positions: Annotated[
        str | None, typer.Option("--positions", help="sinusoidal, learned, rotary, alibi, none.")
    ] = None,
    no_bias: Annotated[bool, typer.Option("--no-bias", help="Matrices without biases.")] = False,
    untied: Annotated[bool, typer.Option("--untied", help="The head has its own matrix.")] = False,
    file: File = None,
    format: Format = "text",
) -> None:
    """The parameters of a Transformer, part by part.

    Each count as a formula, and as the number that the real model has.

    Example: translucid work params --d-model 768 --heads 12
    """
    given = {"d_model": d_model, "heads": heads, "layers": layers, "d_ff": d_ff, "vocab": vocab}
    given |= {"kv_heads": kv_heads, "max_length": max_length}
    words = {"shape": shape, "activation": activation, "norm": norm, "positions": positions}
    flags = {"no_bias": no_bias, "untied": untied}
    show("params", given, file, format, None, words=words, flags=flags)
