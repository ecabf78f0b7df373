"""`translucid compare`: models on the same examples, with intervals and a paired test."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared.generation_options import Device, check_device, tell
from translucid.core.errors import InputError

BEGINNINGS = ("demo:", "hf:")
ENDINGS = (".gguf", ".bin")  # of other tools' models that are one file


def compare(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL MODEL... [FILE]... [SECTION.KEY=VALUE]...",
            help="Two or more models (runs, model folders, demo:NAME), compared with the first; "
            "then a file in the format of the training data, two for translation (default: the "
            "test data of the runs, if equal). Keys (decoding.beam_size=1) apply to all models.",
        ),
    ],
    data: Annotated[list[str] | None, typer.Option("--data", help="The same as FILE.")] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Samples of the bootstrap and of the test.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of these samples.")] = 12345,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Score models on the same data, and test whether one is better than the first.

    Each score has a 95 % bootstrap interval over the examples. Each difference to the first model
    has the p-value of an approximate randomization test.

    Example: translucid compare runs/a runs/b test.en test.de
    """
    from translucid.cli.predict import files_and_keys
    from translucid.core.device import pick_device
    from translucid.model import compare as compared

    words, keys = files_and_keys(words, ("data", "decoding"))
    models, files = split(words)
    if len(models) < 2:
        raise InputError(
            f"{shlex.join(words)}: {len(models)} model; give two or more: translucid compare "
            "RUN_A RUN_B FILE; one is scored by: translucid evaluate RUN FILE"
        )
    result = compared(
        models, *files, *(data or ()), samples=samples, seed=seed,
        device=str(pick_device(check_device(device))), say=tell, **keys,
    )  # fmt: skip
    typer.echo(json.dumps(result.as_dict()) if as_json else result.table())


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Models, and files behind them."""
    models = [word for word in words if named_like_a_model(word) or Path(word).is_dir()]
    files = [word for word in words if word not in models]
    for file in files:
        if not Path(file).exists():
            raise InputError(f"{file}: no such model or file")
    return models, files


def is_model(word: str) -> bool:
    """Whether something that was typed is a model, not data."""
    from translucid.interop import kinds

    return named_like_a_model(word) or (Path(word).is_dir() and kinds.is_model(Path(word)))


def named_like_a_model(word: str) -> bool:
    return word.startswith(BEGINNINGS) or word.endswith(ENDINGS)
