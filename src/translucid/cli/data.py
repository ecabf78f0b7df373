"""`translucid data ...`: generate data."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from translucid.cli.shared.parsing import Commands
from translucid.core.errors import InputError

app = typer.Typer(
    name="data",
    cls=Commands,
    help="Generate data files to train on.",
    epilog="Example: translucid data toyland --out data/toyland --pairs 20000",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.callback()(lambda: None)  # a group, although it has one command


TextTask = Literal["recall", "position", "order", "longer", "mixing"]


@app.command()
def toyland(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Output folder.")],
    pairs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of training pairs or texts.")
    ] = 20000,
    task: Annotated[
        TextTask | None,
        typer.Option(help="Labelled texts that test one difficulty, instead of translations."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="With --task: maximum words in a training text [default: depends on the task].",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Generate English-German toy data, or data for a text task.

    Writes parallel text, labelled text, tagged text and tables in the usual formats.

    With --task, writes texts whose labels follow one rule: recall (the first word of the text),
    position (whether a word is first, inside or last), order (which of two words comes first),
    longer (the last animal up to each word; some test texts are longer than all training texts) or
    mixing (the previous word).

    Example: translucid data toyland --out data/toyland --pairs 20000

    Example: translucid data toyland --task recall --length 40 --out data/recall
    """
    from translucid.data.toyland import TextTasks, write_text_task, write_toyland

    if task is None:
        if length is not None:
            raise InputError("--length is for text tasks; add --task recall, for example")
        write_toyland(out, pairs, seed=seed, overwrite=overwrite)
        train, files = "translate", [str(out / "train.en"), str(out / "train.de")]
        more = ""
    else:
        write_text_task(out, task, pairs, length or 0, seed, overwrite=overwrite)
        train = TextTasks(task).trains
        ending = "conll" if train == "tag" else "tsv"
        files = [str(out / f"train.{ending}")]
        more = f" --test {shlex.quote(str(out / f'test.{ending}'))}"
    noun = "sentences" if task is None else "texts"
    typer.echo(f"{out}: {pairs:,} training {noun}; {out / 'README.txt'} describes the files")
    typer.echo(f"next: translucid train {train} --train {shlex.join(files)}{more}")
