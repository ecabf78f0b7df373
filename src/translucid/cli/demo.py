"""`translucid demo`: a model, trained while you watch, and looked into."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.train import stopping
from translucid.demo.recipes import EXAMPLES, NEXT, DemoTask, recipe_values


def demo(
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="What the model is asked at the end: sentences, beginnings of sentences for "
            "language, numbers for regress (negative ones after --).",
        ),
    ] = None,
    task: Annotated[DemoTask, typer.Option(help="What the model is for.")] = "translate",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; by default runs/demo or runs/demo-TASK.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: section.key=value.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Replace an older demo.")] = False,
) -> None:
    """Train a model on made-up sentences, ask it something, and look into it.

    Example: translucid demo "The dog sees a cat."

    Example: translucid demo --task tag "Anna works for Lumina in Rome."
    """
    import json

    from translucid.demo import results
    from translucid.model import load
    from translucid.runs.recipe import recipe
    from translucid.runs.run import resume_run, train_recipe
    from translucid.runs.session import Recording

    folder = out or Path("runs") / ("demo" if task == "translate" else f"demo-{task}")
    asked = texts or list(EXAMPLES[task])
    chosen = recipe.parse(recipe_values(task, overrides or ()), overrides or ())
    results.check(task, chosen, asked)
    if again:
        results.remove(folder)
    if (folder / "recipe.toml").exists():
        there = recipe.read(folder / "recipe.toml")
        results.check_same(task, there.task.kind, folder)
    with stopping() as interrupted:
        if (folder / "test.json").exists():
            typer.echo(f"{folder} holds a trained model already; --again trains a new one")
        elif (folder / "recipe.toml").exists():
            typer.echo(f"{folder} holds a demo that was stopped; going on with it")
            resume_run(folder, interrupted=interrupted, recording=Recording())
        else:
            with results.marked(folder):
                train_recipe(
                    chosen, folder, interrupted=interrupted, allowed=(results.MARK,),
                    recording=Recording(),  # for the studio's Train view
                )  # fmt: skip
    chosen, model = recipe.read(folder / "recipe.toml"), load(folder)
    result = json.loads((folder / "test.json").read_text("utf-8"))  # training ended with this
    done = results.Done(folder, chosen, model, result["test"], result["notes"], result["examples"])
    page = results.SHOW[task](done, asked)
    typer.echo(f"{folder}: the model is in {folder / 'best'}, the report in {page}")
    typer.echo(f"look into it in your browser: translucid explore {shlex.quote(str(folder))}")
    typer.echo(f"next: {NEXT[task].format(out=shlex.quote(str(folder)))}")
