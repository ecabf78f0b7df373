"""`translucid data ...`: generate data."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared.parsing import Commands

app = typer.Typer(
    name="data",
    cls=Commands,
    help="Generate data files to train on.",
    epilog="Example: translucid data toyland --out data/toyland --pairs 20000",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.callback()(lambda: None)  # a group, although it has one command


@app.command()
def toyland(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Output folder.")],
    pairs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of training pairs.")
    ] = 20000,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Generate English-German toy data.

    Writes parallel text, labelled text, tagged text and tables in the usual formats.

    Example: translucid data toyland --out data/toyland --pairs 20000
    """
    from translucid.data.toyland import write_toyland

    write_toyland(out, pairs, seed=seed, overwrite=overwrite)
    typer.echo(f"{out}: {pairs:,} training sentences; {out / 'README.txt'} describes the files")
    files = shlex.join([str(out / "train.en"), str(out / "train.de")])
    typer.echo(f"next: translucid train translate --train {files}")
