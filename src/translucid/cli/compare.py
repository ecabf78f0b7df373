"""`translucid compare`: score models on the same data, with intervals and a paired test."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.arguments import files_and_keys
from translucid.core.errors import InputError

BEGINNINGS = ("demo:", "hf:")
ENDINGS = (".gguf", ".bin")  # other tools' models that are one file


def compare(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL MODEL... [FILE]... [SECTION.KEY=VALUE]...",
            help="Two or more models, compared with the first; then data in the training format "
            "[default: the test data of the runs]; settings such as decoding.beam_size=1.",
        ),
    ],
    data: o.DataFiles = None,
    samples: Annotated[
        int,
        o.in_output(
            min=1,
            metavar="N",
            help="Number of samples for the bootstrap and the significance test.",
        ),
    ] = 1000,
    seed: Annotated[int, o.in_output(min=0, metavar="N", help="Random seed.")] = 12345,
    as_json: o.Json = False,
    device: o.Device = "auto",
) -> None:
    """Score models on the same data and test the differences.

    Prints a 95 % bootstrap interval for each score, and the p-value of each difference from the
    first model (approximate randomization test).

    Example: translucid compare runs/a runs/b test.en test.de
    """
    from translucid.core.device import pick_device
    from translucid.model import compare as compared

    words, keys = files_and_keys(words, ("data", "decoding"))
    models, files = split(words)
    if len(models) < 2:
        raise InputError(
            f"{shlex.join(words)}: got {len(models)} model; pass two or more: translucid compare "
            "RUN_A RUN_B FILE; to score one: translucid evaluate RUN FILE"
        )
    result = compared(
        models, *files, *(data or ()), samples=samples, seed=seed,
        device=str(pick_device(o.check_device(device))), say=o.print_note, **keys,
    )  # fmt: skip
    typer.echo(json.dumps(result.as_dict()) if as_json else result.table())


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into models and files."""
    models = [word for word in words if named_like_a_model(word) or Path(word).is_dir()]
    files = [word for word in words if word not in models]
    for file in files:
        if not Path(file).exists():
            raise InputError(f"{file}: no such model or file")
    return models, files


def is_model(word: str) -> bool:
    """Whether an argument is a model rather than data."""
    from translucid.interop import kinds

    return named_like_a_model(word) or (Path(word).is_dir() and kinds.is_model(Path(word)))


def named_like_a_model(word: str) -> bool:
    return word.startswith(BEGINNINGS) or word.endswith(ENDINGS)
