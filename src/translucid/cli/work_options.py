"""The options that the commands of `translucid work` share, and what all of them do at the end."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

FormatName = Literal["text", "markdown", "latex", "json"]
Format = Annotated[FormatName, typer.Option("--format", help="How to write the solution.")]
Digits = Annotated[int | None, typer.Option("--digits", min=0, max=12, help="Decimals to show.")]
File = Annotated[
    Path | None,
    typer.Option("--file", help="TOML or JSON with the same names; the command line wins over it."),
]
Rate = Annotated[str | None, typer.Option("--rate", metavar="NUMBER", help="Make one SGD step.")]
Causal = Annotated[bool, typer.Option("--causal", help="A query sees no later key.")]
Unscaled = Annotated[bool, typer.Option("--unscaled", help="Leave out the division by √d_k.")]
Identity = Annotated[bool, typer.Option("--identity", help="Every weight matrix is the identity.")]


def numbers(*names: str, help: str = "", metavar: str = "NUMBERS") -> Any:
    return typer.Option(*names, metavar=metavar, help=help)


X = Annotated[str | None, numbers("--x", help='Inputs, rows by ";": "1 0; 0 1; 1 1".')]
WQ = Annotated[str | None, numbers("--wq", "--W_Q", help="W_Q, as in Q = X W_Q.")]
WK = Annotated[str | None, numbers("--wk", "--W_K", help="W_K, as in K = X W_K.")]
WV = Annotated[str | None, numbers("--wv", "--W_V", help="W_V, as in V = X W_V.")]
Heads = Annotated[str | None, numbers("--heads", metavar="N", help="How many heads.")]
Sequence = Annotated[str | None, numbers("--x", help='One row for each step: "1; -0.5; 2".')]
H0 = Annotated[str | None, numbers("--h0", help="The state before the first step (0).")]
Target = Annotated[str | None, numbers("--target", help="What the last state should be.")]


def weight(name: str) -> Any:
    return typer.Option(f"--{name}", f"--{name.lower().replace('_', '')}", metavar="NUMBERS")


def show(
    name: str,
    values: Mapping[str, str | None],
    file: Path | None,
    format: FormatName,
    digits: int | None,
    *,
    words: Mapping[str, str | None] | None = None,
    flags: Mapping[str, bool] | None = None,
    weights: Mapping[str, str | None] | None = None,
) -> None:
    """Join the command line with the file, solve, print."""
    from translucid.glass import worked
    from translucid.glass.numbers import read_file

    words, flags, weights = words or {}, flags or {}, weights or {}
    kinds = dict.fromkeys([*values, *weights, *(["digits"] if name != "params" else [])], "numbers")
    kinds |= dict.fromkeys(words, "word") | dict.fromkeys(flags, "flag")
    given: dict[str, Any] = read_file(file, kinds) if file is not None else {}
    typed = {**values, **words, **weights, "digits": digits}
    given |= {key: value for key, value in typed.items() if value is not None}
    given |= {key: True for key, value in flags.items() if value}
    if weights:
        given["weights"] = {key: given.pop(key) for key in weights if key in given}
    _print(getattr(worked, name)(**given), format)


def _print(solution: Any, format: FormatName) -> None:
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    if not terminal and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # matrices need more than a legacy code page has
    text = {
        "text": lambda: solution.text(width, color=color),
        "markdown": solution.markdown,
        "latex": solution.latex,
        "json": lambda: solution.json() + "\n",
    }[format]()
    sys.stdout.write(text)
