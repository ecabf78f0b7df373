"""`translucid ablate`: what a model loses without each of its parts."""

import json
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from translucid.cli.shared.generation_options import (
    Device,
    Folder,
    check_device,
    name_of_model,
    tell,
)
from translucid.core.errors import InputError
from translucid.core.progress import Progress

if TYPE_CHECKING:
    from translucid.see.ablation import Ablation

EVERY = 5.0  # seconds between two lines where there is no terminal


def ablate(
    model: Folder,
    data: Annotated[
        list[str],
        typer.Option(help="A file in the format of the training data; for translation, two."),
    ],
    of: Annotated[
        str | None,
        typer.Option(
            help="Only these kinds, with commas: heads, layers, attention, feedforward, patterns, "
            "positions, masks, scale, norms, gates, alignment, bridge, characters, segments, "
            "ngrams."
        ),
    ] = None,
    metric: Annotated[
        bool | None,
        typer.Option(
            help="Also the task's metric, such as accuracy; by default for all but translators, "
            "which would translate everything once for each part."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first examples.")] = None,
    keep_empty: Annotated[
        bool | None,
        typer.Option(
            "--keep-empty/--no-keep-empty",
            show_default="as in training",
            help="Count empty lines of a text as documents.",
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw it to this .svg, .png or .pdf file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Switch off each part of a model in turn, and measure how much the loss rises.

    Prints a row for each head, layer, gate and so on: the loss per target on a file, and how much
    it rises without that part. If it hardly rises, other parts compensate.

    Example: translucid ablate runs/toy --data test.en test.de --of heads,layers --figure heads.svg
    """
    from translucid.model import load
    from translucid.see.ablation import ablate as study
    from translucid.see.part_switches import choose, switches
    from translucid.see.pictures import ENDINGS

    if figure is not None and figure.suffix not in ENDINGS:
        raise InputError(f"--figure {figure}: a figure ends in {', '.join(ENDINGS)}")
    held = load(model, check_device(device), say=tell)
    known_switches = switches(held.network)
    kinds = [kind.strip() for kind in of.split(",")] if of is not None else None
    try:
        chosen = known_switches if kinds is None else choose(known_switches, kinds)
    except InputError as error:
        raise InputError(f"--of {of}: {error}") from None
    if not chosen:
        raise InputError(f"{model}: this model has no part that can be switched off")
    options = {} if keep_empty is None else {"keep_empty": keep_empty}
    items = held.encoded_examples(*data, limit=limit, say=partial(typer.echo, err=True), **options)
    with_metric = not held.task.traits.costly_metric if metric is None else metric
    known: list[Ablation] = []
    with Progress("switched off", len(chosen), every=EVERY, at_once=True) as progress:
        if not progress.live:
            progress.say(f"{len(chosen)} parts to switch off, on {len(items):,} examples")

        def show(so_far: "Ablation") -> None:
            known.append(so_far)
            done = len(so_far.rows)
            progress.move(done, f"{progress.rate(done):,.1f}/s{progress.left(done)}")

        try:
            study(held.network, held.task, items, chosen, metric=with_metric, progress=show)
        except KeyboardInterrupt:
            if not known:
                typer.echo("stopped before anything was switched off", err=True)
                raise typer.Exit(130) from None
    result = known[-1]
    typer.echo(json.dumps(result.as_dict(), ensure_ascii=False) if as_json else result.table())
    _draw(result, figure)
    if not result.complete:
        raise typer.Exit(130)
    if not as_json:
        typer.echo(f"next: {_next(model, data, figure, metric=with_metric)}")


def _draw(result: "Ablation", figure: Path | None) -> None:
    """The heads in the file that was named; the other parts, if there are both, beside it."""
    if figure is None or not result.rows:
        return
    from translucid.core.atomic_files import saving

    paths = [figure, figure.with_stem(f"{figure.stem}-parts")]
    for picture, path in zip(result.pictures(), paths, strict=False):
        with saving(path):
            picture.save(path)
        typer.echo(f"{path}: {picture.title[0].lower()}{picture.title[1:]}", err=True)


def _next(model: Path, data: list[str], figure: Path | None, *, metric: bool) -> str:
    words = ["translucid", "ablate", name_of_model(model), "--data", *data]
    if figure is None:
        return shlex.join([*words, "--figure", "ablation.svg"])
    if not metric:
        return shlex.join([*words, "--metric"])
    return shlex.join(["translucid", "info", name_of_model(model)])
