"""`translucid train` and `translucid evaluate`."""

import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

TASKS = ("regress", "language", "classify", "tag", "translate")


def train(
    recipe: Annotated[
        str, typer.Argument(help=f"A recipe file, a shipped recipe, or a task: {', '.join(TASKS)}")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to the recipe: section.key=value ...")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; new.")] = None,
    train_files: Annotated[
        list[str] | None,
        typer.Option("--train", help="Training file; for translation two, or one table."),
    ] = None,
    valid_files: Annotated[list[str] | None, typer.Option("--valid", help="Held out.")] = None,
    test_files: Annotated[list[str] | None, typer.Option("--test", help="For the end.")] = None,
    toyland: Annotated[int | None, typer.Option(help="Use this many made-up sentences.")] = None,
    data_folder: Annotated[
        str | None, typer.Option("--data", help="Folder of the recipe's files.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write only the files.")] = False,
) -> None:
    """Train a model from a recipe or straight from files.

    With a task instead of a recipe, sizes are picked to fit the data; what was picked is said.

    Example: translucid train translate --train a.de a.en --out runs/x training.steps=2000
    """
    from translucid.training import recipe as recipes
    from translucid.training import shelf
    from translucid.training.run import train_recipe

    files = {"train": train_files, "valid": valid_files, "test": test_files}
    data: dict[str, Any] = {name: list(paths) for name, paths in files.items() if paths}
    if toyland is not None:
        data["toyland"] = toyland
    if data_folder is not None:
        data["folder"] = data_folder
    by_task = recipe in TASKS
    if by_task:
        chosen = recipes.parse({"task": {"kind": recipe}, "data": data}, overrides or ())
    else:
        chosen = recipes.read(shelf.find(recipe), overrides or (), data=data)
    folder = out or _free_folder(Path("runs"), Path(recipe).stem)
    done = train_recipe(chosen, folder, pick=by_task, quiet=quiet, interrupted=_on_interrupt())
    verb = {"language": "generate", "regress": "predict"}.get(done.task, done.task)
    typer.echo(f"{folder}: the best model is in {folder / 'best'}")
    typer.echo(f"next: translucid {verb} {folder}")


def _free_folder(parent: Path, name: str) -> Path:
    """runs/name, numbered if taken."""
    folder, number = parent / name, 2
    while folder.exists():
        folder, number = parent / f"{name}-{number}", number + 1
    return folder


def _on_interrupt() -> Any:
    """Ctrl-C and SIGTERM let the step finish and save the model; a second one leaves at once."""
    asked: list[int] = []

    def note(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        typer.echo("stopping after this step; once more to leave at once", err=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    return lambda: bool(asked)


def evaluate(
    model: Annotated[Path, typer.Argument(help="A run or model folder.")],
    data: Annotated[list[str], typer.Option(help="A file as in training; for translation two.")],
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Score a model on a file.

    Example: translucid evaluate runs/toy --data test.en test.de
    """
    from translucid.training.model import load

    score = load(model).evaluate(*data)
    if as_json:
        typer.echo(json.dumps({"scores": score.numbers, "notes": score.notes}))
        return
    for name, value in score.numbers.items():
        typer.echo(f"{name:<20} {value:.4f}")
    for note in score.notes:
        typer.echo(note)
