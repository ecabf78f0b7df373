"""`translucid ablate`: measure the loss without each part of a model."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.arguments import code_words
from translucid.core.errors import InputError
from translucid.core.progress import Progress

if TYPE_CHECKING:
    from translucid.see.ablation import Ablation

EVERY = 5.0  # seconds between progress lines without a terminal


def ablate(
    model: o.Folder,
    data: Annotated[
        list[str],
        o.in_data(metavar="FILE...", help="Data in the training format."),
    ],
    limit: Annotated[
        int | None, o.in_data(min=1, metavar="N", help="Use only the first N examples.")
    ] = None,
    keep_empty: o.KeepEmpty = None,
    of: Annotated[
        str | None,
        o.in_model(
            metavar="KINDS",
            help="Only these kinds, separated by commas: heads, layers, attention, feedforward, "
            "patterns, positions, masks, scale, norms, gates, alignment, bridge, characters, "
            "segments, ngrams.",
        ),
    ] = None,
    device: o.Device = "auto",
    metric: Annotated[
        bool | None,
        o.in_output(help="Also compute the task's metric (default: yes, except for translation)."),
    ] = None,
    figure: Annotated[
        Path | None, o.in_output(metavar="FILE", help="Draw a figure: .svg, .png or .pdf.")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Measure the loss without each part of a model.

    Switches off each head, layer, gate and so on, and prints how much the loss per target rises. If
    it hardly rises, the part is unimportant or other parts compensate.

    Example: translucid ablate runs/toy --data test.en test.de --of heads,layers --figure heads.svg
    """
    from translucid.model import load
    from translucid.see.ablation import ablate as study
    from translucid.see.part_switches import choose, switches

    o.check_figure(figure)
    held = load(model, o.check_device(device), say=o.print_note)
    known_switches = switches(held.network)
    kinds = [kind.strip() for kind in of.split(",")] if of is not None else None
    try:
        chosen = known_switches if kinds is None else choose(known_switches, kinds)
    except InputError as error:
        raise InputError(f"--of {of}: {error}") from None
    if not chosen:
        raise InputError(f"{model}: this model has no part that can be switched off")
    options = o.typed(keep_empty=keep_empty)
    items = held.encoded_examples(*data, limit=limit, say=o.print_note, **options)
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
                o.print_note("stopped before anything was switched off")
                raise typer.Exit(130) from None
    result = known[-1]
    typer.echo(json.dumps(result.as_dict(), ensure_ascii=False) if as_json else result.table())
    _draw(result, figure)
    if not result.complete:
        raise typer.Exit(130)
    if not as_json:
        typer.echo(f"next: {_next(model, held.task.name, data, figure, metric=with_metric)}")


def _draw(result: "Ablation", figure: Path | None) -> None:
    """Draw the heads in the file `figure`, and the other parts in a second file, FIGURE-parts."""
    if figure is None or not result.rows:
        return
    o.save_pictures(result.pictures(), figure, "parts")


def _next(model: Path, task: str, data: list[str], figure: Path | None, *, metric: bool) -> str:
    code = code_words(task)
    words = ["translucid", "ablate", o.name_of_model(model), *code, "--data", *data]
    if figure is None:
        return shlex.join([*words, "--figure", "ablation.svg"])
    if not metric:
        return shlex.join([*words, "--metric"])
    return shlex.join(["translucid", "info", o.name_of_model(model), *code])
