"""`translucid reproduce`: train a shipped recipe and compare with its expected score."""

from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.arguments import DataFolder
from translucid.cli.train import stopping


def reproduce(
    name: Annotated[str, typer.Argument(help="Shipped recipe (see `translucid recipe list`).")],
    overrides: o.Overrides = None,
    data: DataFolder = None,
    out: Annotated[
        Path | None,
        o.in_run(metavar="FOLDER", help="Output folder [default: runs/reproduce/NAME]."),
    ] = None,
    seeds: Annotated[int, o.in_run(min=1, metavar="N", help="Train with seeds 0 to N - 1.")] = 3,
    as_json: o.Json = False,
    quiet: Annotated[bool, o.in_output("--quiet", help="Print only the result.")] = False,
) -> None:
    """Reproduce a published result with several seeds.

    Compares the mean with the expected band; exit code 3 if it is outside. Run the same command
    again to resume.

    Example: translucid reproduce toyland-regress-mlp --seeds 1
    """
    from translucid.runs.reproduce import reproduce as run

    folder = out or Path("runs") / "reproduce" / name
    with stopping() as interrupted:
        result = run(
            name, data, folder, range(seeds), overrides or (), quiet=quiet, interrupted=interrupted
        )
    if as_json:
        typer.echo(result.as_json())
    else:
        for seed, score in result.scores.items():
            minutes = result.minutes[seed]
            typer.echo(f"seed {seed}   {result.metric} {score:.4g}   {minutes:.1f} min")
        typer.echo(f"mean     {result.metric} {result.mean:.4g} ± {result.spread:.2g}")
        for note in result.notes:
            typer.echo(note)
        if result.band is None:
            typer.echo("expected: no band is recorded for this recipe")
        else:
            verdict = "within" if result.within else "OUTSIDE"
            typer.echo(f"expected: {result.band.low:g} to {result.band.high:g}: {verdict}")
        typer.echo(f"{folder}: one run folder per seed")
    if result.within is False:
        raise typer.Exit(3)
