"""Options that several commands share: models, generation, device and precision."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import our_value

if TYPE_CHECKING:
    from translucid.model import Model

SAMPLE = 16  # texts that int8 is compared on


def fetch(context: typer.Context, models: "Path | list[Path] | None") -> "Path | list[Path] | None":
    """The folders of the models that were named: those on the hub (hf:org/name) are downloaded, and
    those of the package (demo:translate) looked up."""
    from translucid.interop.hub import fetched

    if models is None or context.resilient_parsing:  # completion looks at half a command
        return models
    return [fetched(m) for m in models] if isinstance(models, list) else fetched(models)


def name_of_model(folder: Path) -> str:
    """The name of a model as it can be typed again; the inverse of `fetch`."""
    from translucid.data import shipped_models
    from translucid.interop.hub import BEGIN, repository_of

    on_hub = repository_of(folder)
    return f"{BEGIN}{on_hub}" if on_hub else shipped_models.name_of(folder) or str(folder)


Folder = Annotated[
    Path,
    typer.Argument(
        help="A run or model folder, a model of another tool, demo:NAME, or hf:ORG/NAME on the "
        "hub.",
        callback=fetch,
    ),
]
File = Annotated[str, typer.Argument(help="One text per line; - is standard input.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Out = Annotated[
    Path | None, typer.Option(help="Output file; if stopped, run the command again to continue.")
]
Device = Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu, cuda.")]
InPrecision = Annotated[
    str,
    typer.Option(
        help="auto (bfloat16 on a GPU, else float32), float32, bfloat16, int8 (on a CPU)."
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        help="A further model whose probabilities are averaged in; may be repeated.",
        callback=fetch,
    ),
]

BeamSize = Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy search.")]
Alpha = Annotated[
    float | None,
    typer.Option(min=0.0, help="Length penalty: compare by log-probability / length^alpha."),
]
NBest = Annotated[int, typer.Option(min=1, help="Hypotheses for each line, best first.")]
MinLength = Annotated[
    int | None, typer.Option(min=0, help="Minimum number of tokens, without the end.")
]
MaxLength = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of tokens, with the end.")
]
BeamGroups = Annotated[
    int | None, typer.Option(min=1, help="Groups of beams that avoid each other's tokens.")
]
DiversityPenalty = Annotated[
    float | None,
    typer.Option(min=0.0, help="Penalty for a token that an earlier group has chosen."),
]
Prefix = Annotated[str, typer.Option(help="Target prefix: the beginning of every translation.")]
Forbid = Annotated[
    list[str] | None, typer.Option(help="A word that must not be generated; may be repeated.")
]
Force = Annotated[
    list[str] | None,
    typer.Option(help="POSITION=WORD, in tokens from 0, such as 0=Der; may be repeated."),
]
NoRepeatNgram = Annotated[
    int | None, typer.Option(min=0, help="Never generate an n-gram of this many tokens twice.")
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(min=0.01, help="Penalty for tokens generated before; 1: none."),
]

Temperature = Annotated[
    float | None,
    typer.Option(min=0.0, help="Sampling temperature; below 1 sharper, 0: greedy."),
]
TopK = Annotated[int | None, typer.Option(min=1, help="Sample among the k most probable tokens.")]
TopP = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="Sample among the fewest tokens whose probabilities reach this sum."
    ),
]
MinP = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Sample among tokens with at least this fraction of the best token's probability.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same text.")]


def typed(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def words(names: Any) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def check_device(device: str) -> str:
    if device not in ("auto", "cpu", "cuda") and not device.startswith("cuda:"):
        raise ConfigError(f"--device {device}: no such device; choose auto, cpu, cuda or cuda:1")
    return device


def tell(line: str) -> None:
    """Print a note to standard error, apart from the output of a command."""
    typer.echo(line, err=True)


def load_models(folder: Path, ensemble: list[Path] | None, device: str) -> "list[Model]":
    """Load the model and the other models of its ensemble."""
    from translucid.model import load

    check_device(device)
    return [load(path, device, say=tell) for path in (folder, *(ensemble or ()))]


def in_precision(models: "list[Model]", precision: str) -> "list[Model]":
    """The models, optimized for generation in this precision."""
    from translucid.fast.precision import Precision

    allowed: tuple[Precision, ...] = get_args(Precision)
    precision = our_value("--precision", precision)
    chosen = next((name for name in allowed if name == precision), None)
    if chosen is None:
        raise ConfigError(
            f"--precision {precision}: no such precision; choose {', '.join(allowed)}"
        )
    return [model.optimized(chosen) for model in models]


def tell_difference(
    plain: "Model", prepared: "Model", texts: list[str], sources: list[str] | None = None
) -> None:
    """Print how far int8 is from float32 on the text that was just generated."""
    difference = plain.logprob_difference(
        prepared, texts[:SAMPLE], None if sources is None else sources[:SAMPLE]
    )
    count = min(len(texts), SAMPLE)
    typer.echo(f"int8 beside float32, on {count} text{'s'[: count - 1]}: {difference}", err=True)


def places(force: list[str] | None) -> dict[int, str]:
    """0=Der 3=Hund -> {0: "Der", 3: "Hund"}"""
    forced: dict[int, str] = {}
    for text in force or ():
        place, equals, word = text.partition("=")
        if not (equals and word and place.strip().isdigit()):
            raise InputError(
                f"--force {text!r}: write POSITION=WORD with the token's position, such as 0=Der"
            )
        forced[int(place)] = word
    return forced
