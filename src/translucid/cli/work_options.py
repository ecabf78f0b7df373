"""The options that the commands of `translucid work` share, and how they reach a solution."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

FormatName = Literal["text", "markdown", "latex", "json"]
Format = Annotated[FormatName, typer.Option("--format", help="How to write the solution.")]
Digits = Annotated[int | None, typer.Option("--digits", help="Decimals to show, 1 to 12.")]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        help="TOML or JSON with the same names, - for standard input; the command line wins.",
    ),
]
Rate = Annotated[
    str | None,
    typer.Option("--rate", metavar="NUMBER", help="Make one SGD step, so large (no step)."),
]
Causal = Annotated[bool, typer.Option("--causal", help="A query sees no later key.")]
Unscaled = Annotated[bool, typer.Option("--unscaled", help="Leave out the division by √d_k.")]
Identity = Annotated[bool, typer.Option("--identity", help="Every weight matrix is the identity.")]


# Names that options take, for help and completion; tests compare them with what the parts know.
ACTIVATIONS = ("relu", "tanh", "sigmoid", "identity", "gelu", "silu")
GATED = (*ACTIVATIONS, "swiglu", "geglu")
SHAPES = ("decoder", "encoder", "encoder-decoder")
NORMS = ("layer", "rms", "batch", "none")
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")


def numbers(*names: str, help: str = "", metavar: str = "NUMBERS") -> Any:
    return typer.Option(*names, metavar=metavar, help=help)


def word(name: str, choices: tuple[str, ...], help: str = "") -> Any:
    """An option that takes one of a few names, the first unless given."""
    listed = f"{', '.join(choices[:-1])} or {choices[-1]} ({choices[0]})."
    return typer.Option(
        name, metavar="NAME", help=f"{help}{listed}", autocompletion=_complete(choices)
    )


def _complete(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


X = Annotated[str | None, numbers("--x", help='Inputs, rows by ";": "1 0; 0 1; 1 1".')]
WQ = Annotated[str | None, numbers("--wq", "--W_Q", help="W_Q, as in Q = X W_Q.")]
WK = Annotated[str | None, numbers("--wk", "--W_K", help="W_K, as in K = X W_K.")]
WV = Annotated[str | None, numbers("--wv", "--W_V", help="W_V, as in V = X W_V.")]
WO = Annotated[str | None, numbers("--wo", "--W_O", help="W_O, which mixes several heads.")]
Heads = Annotated[str | None, numbers("--heads", metavar="N", help="How many heads.")]
Sequence = Annotated[str | None, numbers("--x", help='One row for each step: "1; -0.5; 2".')]
H0 = Annotated[str | None, numbers("--h0", help="The state before the first step (0).")]
Target = Annotated[
    str | None,
    numbers(
        "--target",
        help="What the last state should be, one number for each unit: loss and gradients (none).",
    ),
]


_LETTERS = {
    "W": "from the input, one row for each unit",
    "U": "from the state before, one row for each unit",
    "b": "one number for each unit (0)",
}


def weight(name: str, gate: str = "") -> Any:
    """A weight of a recurrent cell, by the names of the catalogue."""
    of = f" of the {gate}" if gate else ""
    help = f"{name}{of}: {_LETTERS[name[0]]}."
    return typer.Option(
        f"--{name}", f"--{name.lower().replace('_', '')}", metavar="NUMBERS", help=help
    )


def collect(
    values: Mapping[str, object],
    file: Path | None,
    *,
    words: Mapping[str, str | None] | None = None,
    flags: Mapping[str, bool] | None = None,
) -> dict[str, Any]:
    """The command line, joined with the file: whatever was given, by its name."""
    from translucid.worked.solution.numbers import read_file

    words, flags = words or {}, flags or {}
    kinds = dict.fromkeys(values, "numbers") | dict.fromkeys(words, "word")
    kinds |= dict.fromkeys(flags, "flag")
    given: dict[str, Any] = read_file(file, kinds) if file is not None else {}
    given |= {key: value for key, value in {**values, **words}.items() if value is not None}
    return given | {key: True for key, value in flags.items() if value}


def solve(name: str, given: Mapping[str, Any], weights: Collection[str] = ()) -> Any:
    """The solution; `weights` are handed over together."""
    from translucid import worked

    own = {key: value for key, value in given.items() if key not in weights}
    if weights:
        own["weights"] = {key: given[key] for key in weights if key in given}
    return getattr(worked, name)(**own)
