"""`translucid reproduce`: train a published result again and compare."""

from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.train import stopping


def reproduce(
    name: Annotated[str, typer.Argument(help="A shipped recipe: see translucid recipe list.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to the recipe: section.key=value ...")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Folder of the recipe's files.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output folder (default: runs/reproduce/NAME).")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Train with seeds 0 to N - 1.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the result.")] = False,
) -> None:
    """Train a shipped recipe with several seeds and compare with the expected band.

    A run that was stopped is resumed when the same command is given again. Exit code 3: the
    mean lies outside the band.

    Example: translucid reproduce multi30k-de-en --data data/multi30k
    """
    from translucid.runs.reproduce import reproduce as run

    folder = out or Path("runs") / "reproduce" / name
    with stopping() as interrupted:
        result = run(
            name,
            data,
            folder,
            range(seeds),
            overrides or (),
            quiet=quiet,
            interrupted=interrupted,
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
            typer.echo("expected: nothing is on record for this recipe")
        else:
            verdict = "within" if result.within else "OUTSIDE"
            band = result.band
            typer.echo(f"expected: {band.low:g} to {band.high:g}: {verdict}")
        typer.echo(f"{folder}: one run folder per seed")
    if result.within is False:
        raise typer.Exit(3)
