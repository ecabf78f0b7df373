"""`translucid recipe ...` and `translucid new`: list, show, check and write recipes."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared.arguments import tasks, with_code
from translucid.cli.shared.options import Json, Overrides, check_unused, in_output
from translucid.cli.shared.parsing import Commands
from translucid.tasks.registry import TASKS

app = typer.Typer(
    name="recipe",
    cls=Commands,
    help="List, show and check recipes.",
    epilog="Example: translucid recipe list",
    no_args_is_help=True,
    rich_markup_mode=None,
)
RecipeName = Annotated[str, typer.Argument(help="Recipe file or shipped recipe.")]


@app.command("list")
def list_recipes(as_json: Json = False) -> None:
    """List the shipped recipes.

    Example: translucid recipe list --json
    """
    from translucid.runs.recipe import named

    entries = named.entries()
    if as_json:
        rows = [{"name": e.name, "path": str(e.path), "title": e.title} for e in entries]
        typer.echo(json.dumps(rows, indent=2))
        return
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        typer.echo(f"{entry.name:<{width}}  {entry.title}")
    typer.echo(f"\nnext: translucid recipe show {entries[0].name}")


@app.command()
@with_code
def show(recipe: RecipeName, overrides: Overrides = None) -> None:
    """Print a recipe with all keys and their meaning.

    Example: translucid recipe show toyland-tag-lstm > mine.toml
    """
    from translucid.runs.recipe import named
    from translucid.runs.recipe.toml import rewrite

    path = named.find(recipe)
    typer.echo(rewrite(path, overrides or ()), nl=False)


@app.command()
@with_code
def check(recipe: RecipeName, overrides: Overrides = None) -> None:
    """Report all mistakes in a recipe.

    Example: translucid recipe check toyland-tag-lstm model.hidden=64
    """
    from translucid.core.errors import InputError
    from translucid.runs.recipe import named
    from translucid.runs.recipe import recipe as recipes
    from translucid.runs.recipe.examples import NO_DATA

    path = named.find(recipe)
    chosen = recipes.read(path, overrides or ())
    data = chosen.data
    if not data.train and data.toyland is None:
        raise InputError(f"{path}: {NO_DATA}")
    files = [f for part in (data.train, data.valid, data.test) for f in data.paths(part)]
    missing = [file for file in files if not Path(file).exists()]
    if missing and data.folder:
        raise InputError(f"{path}: {', '.join(missing)} not found in data.folder = {data.folder}")
    typer.echo(f"{path}: no mistakes")
    family = chosen.model.get("kind", f"the model kind of {chosen.training.start_from}")
    typer.echo(f"task {chosen.task.kind}, {family}, {chosen.training.steps:,} steps")
    if missing:
        typer.echo(f"not found: {', '.join(missing)}; name their folder with --data FOLDER")
    where = " --data FOLDER" if missing else ""
    typer.echo(f"next: translucid train {shlex.quote(str(recipe))}{where}")


@app.command()
@with_code
def schema() -> None:
    """Print the JSON schema of recipes, for editors.

    Example: translucid recipe schema > recipe.schema.json
    """
    from translucid.runs.recipe.toml import schema as recipe_schema

    typer.echo(json.dumps(recipe_schema(), indent=2))


def new(
    task: Annotated[str, typer.Argument(help=f"{', '.join(TASKS.names())}.", autocompletion=tasks)],
    overrides: Overrides = None,
    out: Annotated[
        Path | None, in_output(metavar="FILE", help="Output file [default: print it].")
    ] = None,
    short: Annotated[
        bool, in_output("--short", help="Only the keys that are changed most often.")
    ] = False,
) -> None:
    """Write a recipe with all keys and their meaning.

    Example: translucid new tag model.kind=recurrent --out tagger.toml

    Example: translucid new translate --short
    """
    from translucid.runs.recipe import recipe as recipes
    from translucid.runs.recipe.named import task_named
    from translucid.runs.recipe.toml import FIRST, dump, full_model

    chosen = recipes.parse({"task": {"kind": task_named(task) or task}}, overrides or ())
    typed = [override.partition("=")[0].strip() for override in overrides or ()]
    text = dump(chosen, only=[*FIRST, *typed] if short else None)
    if not short:
        sizes = [f"model.{key}" for key in full_model(chosen)]
        first = ", ".join(key for key in FIRST[1:] if not key.startswith("model.") or key in sizes)
        text = f"# Changed most often: {first}\n# (only these: --short)\n\n{text}"
    if out is None:
        typer.echo(text, nl=False)
        return
    check_unused(out)
    out.write_text(text, "utf-8")
    typer.echo(f"{out}: a recipe for task {task}; set data.train or data.toyland in it")
    typer.echo(f"next: translucid recipe check {shlex.quote(str(out))}")
