"""Options and arguments that several commands share, grouped by the panel of `--help`."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import our_value

if TYPE_CHECKING:
    from translucid.model import Model
    from translucid.see.pictures import Picture

SAMPLE = 16  # texts on which int8 is compared with float32

in_search = partial(typer.Option, rich_help_panel="Search")
in_constraints = partial(typer.Option, rich_help_panel="Constraints")
in_sampling = partial(typer.Option, rich_help_panel="Sampling")
in_output = partial(typer.Option, rich_help_panel="Output")
in_model = partial(typer.Option, rich_help_panel="Model")
in_data = partial(typer.Option, rich_help_panel="Data")
in_run = partial(typer.Option, rich_help_panel="Run")


def fetch(context: typer.Context, models: "Path | list[Path] | None") -> "Path | list[Path] | None":
    """The folders of the named models: hf:org/name is downloaded, demo:translate looked up."""
    from translucid.interop.hub import fetched

    if models is None or context.resilient_parsing:  # completion parses incomplete commands
        return models
    return [fetched(m) for m in models] if isinstance(models, list) else fetched(models)


def name_of_model(folder: Path) -> str:
    """The name of a model as a user types it; the inverse of `fetch`."""
    from translucid.data import shipped_models
    from translucid.interop.hub import BEGIN, repository_of

    on_hub = repository_of(folder)
    return f"{BEGIN}{on_hub}" if on_hub else shipped_models.name_of(folder) or str(folder)


Folder = Annotated[
    Path,
    typer.Argument(
        help="Run or model folder, another tool's model, demo:NAME or hf:ORG/NAME.",
        callback=fetch,
    ),
]
FileOrTexts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE|TEXT...] [data.encoding=NAME]",
        help="File with one text per line, or texts in quotes [default: standard input].",
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="SECTION.KEY=VALUE", help="Settings of the recipe.")
]
Json = Annotated[bool, in_output("--json", help="Print JSON.")]
JsonLines = Annotated[bool, in_output("--json", help="Print one JSON object per line.")]
Out = Annotated[
    Path | None,
    in_output(metavar="FILE", help="Output file; run the same command again to resume."),
]
Ray = Annotated[
    bool, in_output("--ray", help="Distribute the lines of FILE over a Ray cluster; needs --out.")
]
Quiet = Annotated[bool, in_output("--quiet", help="Print only warnings and errors.")]
Device = Annotated[
    str, in_model(metavar="NAME", help="auto (a GPU if available), cpu, cuda or cuda:1.")
]
InPrecision = Annotated[
    str,
    in_model(
        metavar="NAME",
        help="auto (bfloat16 on a GPU, else float32), float32, bfloat16 or int8 (CPU).",
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    in_model(
        metavar="MODEL",
        help="Average probabilities with this model; may be repeated.",
        callback=fetch,
    ),
]
DataFiles = Annotated[
    list[str] | None, in_data("--data", metavar="FILE", help="Another way to pass FILE.")
]
KeepEmpty = Annotated[
    bool | None,
    in_data(
        "--keep-empty/--no-keep-empty",
        show_default="as in training",
        help="Treat each empty line as a separate text.",
    ),
]
Port = Annotated[
    int | None,
    in_run(min=0, max=65535, metavar="N", help="Port of the page; 0 for any [default: 8642]."),
]

BeamSize = Annotated[
    int | None, in_search(min=1, metavar="N", help="Beam size; 1 for greedy search.")
]
Alpha = Annotated[
    float | None,
    in_search(min=0.0, metavar="X", help="Length penalty: score is log-probability / length^X."),
]
NBest = Annotated[int, in_search(min=1, metavar="N", help="Translations per line, best first.")]
MinLength = Annotated[
    int | None,
    in_constraints(min=0, metavar="N", help="Minimum number of tokens, without the end token."),
]
MaxLength = Annotated[
    int | None,
    in_constraints(min=1, metavar="N", help="Maximum number of tokens, including the end token."),
]
BeamGroups = Annotated[
    int | None, in_search(min=1, metavar="N", help="Diverse beam search with N groups.")
]
DiversityPenalty = Annotated[
    float | None,
    in_search(min=0.0, metavar="X", help="Penalty for tokens chosen by an earlier group."),
]
Prefix = Annotated[
    str, in_constraints(metavar="TEXT", help="Start every translation with this text.")
]
Forbid = Annotated[
    list[str] | None,
    in_constraints(metavar="WORD", help="Never generate this word; may be repeated."),
]
Force = Annotated[
    list[str] | None,
    in_constraints(
        metavar="POSITION=WORD",
        help="Force a word at a token position, from 0; may be repeated.",
    ),
]
NoRepeatNgram = Annotated[
    int | None, in_constraints(min=0, metavar="N", help="Never repeat an n-gram of N tokens.")
]
RepetitionPenalty = Annotated[
    float | None,
    in_constraints(min=0.01, metavar="X", help="Penalty for tokens generated before; 1 for none."),
]

Temperature = Annotated[
    float | None,
    in_sampling(min=0.0, metavar="X", help="Temperature: below 1 favors likely tokens; 0: greedy."),
]
TopK = Annotated[
    int | None, in_sampling(min=1, metavar="K", help="Sample from the K most probable tokens.")
]
TopP = Annotated[
    float | None,
    in_sampling(
        min=0.0,
        max=1.0,
        metavar="P",
        help="Sample from the smallest set of tokens with total probability at least P.",
    ),
]
MinP = Annotated[
    float | None,
    in_sampling(
        min=0.0,
        max=1.0,
        metavar="P",
        help="Sample from tokens at least P times as probable as the best one.",
    ),
]
Seed = Annotated[int, in_sampling(min=0, metavar="N", help="Random seed.")]


def typed(**options: Any) -> dict[str, Any]:
    """The options that the user has set, which are those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def words(names: Any) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def check_device(device: str) -> str:
    if device not in ("auto", "cpu", "cuda") and not device.startswith("cuda:"):
        raise ConfigError(f"--device {device}: no such device; choose auto, cpu, cuda or cuda:1")
    return device


def print_note(line: str) -> None:
    """Print a line to standard error, so that it does not mix with the output of a command."""
    typer.echo(line, err=True)


def read_lines(file: str) -> list[str]:
    """The lines of a text file, empty ones included."""
    from translucid.data.readers.read import read_text

    return [record.text for record in read_text(file, keep_empty=True)]


def check_figure(figure: Path | None) -> None:
    """Raise an error before the work starts if a figure could not be saved."""
    from translucid.see.pictures import picture_file

    if figure is not None:
        picture_file(figure)


def save_pictures(pictures: "Sequence[Picture]", figure: Path, second: str) -> None:
    """Save the first picture as this file, and the next as FIGURE-SECOND."""
    from translucid.core.atomic_files import saving

    paths = [figure, figure.with_stem(f"{figure.stem}-{second}")]
    for picture, path in zip(pictures, paths, strict=False):
        with saving(path):
            picture.save(path)
        print_note(f"{path}: {picture.title[0].lower()}{picture.title[1:]}")


def check_unused(out: Path | None) -> None:
    """Refuse an output file that exists."""
    if out is not None and out.exists():
        raise InputError(f"{out} already exists; remove it, or choose another name with --out")


def load_models(folder: Path, ensemble: list[Path] | None, device: str) -> "list[Model]":
    """Load the model and the other models of its ensemble."""
    from translucid.model import load

    check_device(device)
    return [load(path, device, say=print_note) for path in (folder, *(ensemble or ()))]


def one_of(option: str, value: str, choices: Any) -> Any:
    """Return the value of an option; raise an error if it is not in the Literal `choices`."""
    if value not in get_args(choices):
        raise ConfigError(
            f"{option} {value}: unknown; choose one of {', '.join(get_args(choices))}"
        )
    return value


def in_precision(models: "list[Model]", precision: str) -> "list[Model]":
    """The models, optimized for generation in this precision."""
    from translucid.fast.precision import Precision

    precision = our_value("--precision", precision)
    chosen = one_of("--precision", precision, Precision)
    return [model.optimized(chosen) for model in models]


def print_difference(
    plain: "Model", optimized: "Model", texts: list[str], sources: list[str] | None = None
) -> None:
    """Print how far int8 is from float32 on the text that was just generated."""
    difference = plain.logprob_difference(
        optimized, texts[:SAMPLE], None if sources is None else sources[:SAMPLE]
    )
    count = min(len(texts), SAMPLE)
    print_note(f"int8 compared with float32 on {count} text{'s'[: count - 1]}: {difference}")


def forced_words(force: list[str] | None) -> dict[int, str]:
    """Parse the values of --force: 0=Der 3=Hund -> {0: "Der", 3: "Hund"}"""
    forced: dict[int, str] = {}
    for text in force or ():
        place, equals, word = text.partition("=")
        if re.search(r"\s\d+=", word):
            raise InputError(f"--force {text!r}: repeat --force for each position")
        if not (equals and word and place.strip().isdigit()):
            raise InputError(
                f"--force {text!r}: write POSITION=WORD with the token's position, such as 0=Der"
            )
        forced[int(place)] = word
    return forced
