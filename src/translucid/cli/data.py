"""`translucid data ...`: files to train on."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Make files to train on.",
    epilog="Example: translucid data toyland --out data/toyland --pairs 20000",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    pass


@app.command()
def toyland(
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    pairs: Annotated[int, typer.Option(min=1, help="Training sentences.")] = 20000,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; the same seed gives the same files.")
    ] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Write the made-up English-German data as files in the usual formats.

    Example: translucid data toyland --out data/toyland --pairs 20000
    """
    from translucid.data.toyland import write_toyland

    write_toyland(out, pairs, seed=seed, overwrite=overwrite)
    typer.echo(f"{out}: {pairs:,} training sentences; {out / 'README.txt'} says what is where")
    files = shlex.join([str(out / "train.en"), str(out / "train.de")])
    typer.echo(f"next: translucid train translate --train {files}")
