"""The options of all commands that generate, once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from translucid.core.errors import ConfigError, InputError
from translucid.core.renamed import value_today

if TYPE_CHECKING:
    from translucid.model import Model

SAMPLE = 16  # texts that int8 is compared on


def fetch(context: typer.Context, models: "Path | list[Path] | None") -> "Path | list[Path] | None":
    """Where models lie that were named: those on the hub (hf:org/name) are downloaded, and
    those of the package (demo:translate) looked up."""
    from translucid.interop.hub import fetched

    if models is None or context.resilient_parsing:  # completion looks at half a command
        return models
    return [fetched(m) for m in models] if isinstance(models, list) else fetched(models)


def name_of_model(folder: Path) -> str:
    """As it can be typed again: `fetch`, the other way round."""
    from translucid import shipped_models
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
File = Annotated[str, typer.Argument(help="One text a line; - is standard input.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Out = Annotated[Path | None, typer.Option(help="Write here; stopped and run again, it goes on.")]
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

BeamSize = Annotated[
    int | None, typer.Option(min=1, help="Beam size: prefixes followed side by side; 1 is greedy.")
]
Alpha = Annotated[
    float | None,
    typer.Option(min=0.0, help="Length penalty: compare by log-probability / length^alpha."),
]
NBest = Annotated[int, typer.Option(min=1, help="Hypotheses for each line, best first.")]
MinLength = Annotated[int | None, typer.Option(min=0, help="Fewest tokens, without the end.")]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Most tokens, with the end.")]
BeamGroups = Annotated[
    int | None, typer.Option(min=1, help="Groups of beams that avoid each other's tokens.")
]
DiversityPenalty = Annotated[
    float | None, typer.Option(min=0.0, help="What a token costs that an earlier group took.")
]
Prefix = Annotated[str, typer.Option(help="Target prefix: how every translation begins.")]
Forbid = Annotated[
    list[str] | None, typer.Option(help="A word that is not generated; may be repeated.")
]
Force = Annotated[
    list[str] | None,
    typer.Option(help="POSITION=WORD, in tokens from 0, such as 0=Der; may be repeated."),
]
NoRepeatNgram = Annotated[
    int | None, typer.Option(min=0, help="No n-gram of this many tokens comes twice.")
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(min=0.01, help="Repetition penalty of tokens written before; 1: none."),
]

Temperature = Annotated[
    float | None,
    typer.Option(min=0.0, help="Sampling temperature: below 1 the likely is likelier; 0: greedy."),
]
TopK = Annotated[int | None, typer.Option(min=1, help="Sample among the k likeliest tokens.")]
TopP = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Sample among the fewest tokens that reach this sum."),
]
MinP = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="Sample among tokens at least this fraction as likely as the best."
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, help="Of the random generator: the same seed, the same text.")
]


def typed(**options: Any) -> dict[str, Any]:
    """The options that were typed."""
    return {name: value for name, value in options.items() if value is not None}


def words(names: Any) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def check_device(device: str) -> str:
    if device not in ("auto", "cpu", "cuda") and not device.startswith("cuda:"):
        raise ConfigError(f"--device {device}: no such device; choose auto, cpu, cuda or cuda:1")
    return device


def tell(line: str) -> None:
    """For people, beside what a command writes."""
    typer.echo(line, err=True)


def load_models(folder: Path, ensemble: list[Path] | None, device: str) -> "list[Model]":
    """The model and those of its ensemble."""
    from translucid.model import load

    check_device(device)
    return [load(path, device, say=tell) for path in (folder, *(ensemble or ()))]


def in_precision(models: "list[Model]", precision: str) -> "list[Model]":
    """The models made ready to write with these numbers."""
    from translucid.fast.precision import Precision

    allowed: tuple[Precision, ...] = get_args(Precision)
    precision = value_today("--precision", precision)
    chosen = next((name for name in allowed if name == precision), None)
    if chosen is None:
        raise ConfigError(
            f"--precision {precision}: no such precision; choose {', '.join(allowed)}"
        )
    return [model.prepared(chosen) for model in models]


def tell_difference(
    plain: "Model", prepared: "Model", texts: list[str], sources: list[str] | None = None
) -> None:
    """How far int8 is from float32, on what was just written."""
    difference = plain.apart(
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
