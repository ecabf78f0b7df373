"""`translucid demo`: train a small model, query it, and explain an answer."""

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from translucid.cli.explain import write_page
from translucid.cli.shared.messages import noting
from translucid.cli.shared.options import in_run
from translucid.cli.train import stopping
from translucid.core.errors import InputError

DemoTask = Literal["translate", "tag", "classify", "language", "regress"]
MARK = ".demo"  # file that marks the folder of a demo, which --again may remove
PAGE = "walk.html"


class Demo(NamedTuple):
    """A shipped recipe, example inputs, and a text to explain next."""

    recipe: str
    texts: tuple[str, ...]
    next_text: str


DEMOS: dict[DemoTask, Demo] = {
    "translate": Demo(
        "toyland-translate-transformer",
        ("The teacher calls the old doctor.", "My mother sleeps because she is tired.",
         "The book that the children read is not boring."),
        "The dog sees a cat.",
    ),
    "tag": Demo(
        "toyland-tag-lstm",
        ("Jordan sleeps because he is tired.", "Jordan lies in Asia.",
         "Jordan hires Anna Keller in New York."),
        "Jordan waits in Madrid.",
    ),
    "classify": Demo(
        "toyland-classify-lstm",
        ("The food was not bad.", "The concert was wonderful, but my friends hated it.",
         "Although the hotel is ugly, we never criticize it."),
        "The film was never boring.",
    ),
    "language": Demo(
        "toyland-language-transformer", ("The dog", "Although the soup was"), "The children who"
    ),
    "regress": Demo("toyland-regress-mlp", ("-0.5", "0", "0.25"), "0.5"),
}  # fmt: skip


def demo(
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Inputs to try: sentences, their beginnings (language) or numbers (regress).",
        ),
    ] = None,
    task: Annotated[DemoTask, in_run(help="Task to train.")] = "translate",
    out: Annotated[
        Path | None,
        in_run(metavar="FOLDER", help="Output folder [default: runs/demo or runs/demo-TASK]."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        in_run("--set", metavar="SECTION.KEY=VALUE", help="Recipe setting; may be repeated."),
    ] = None,
    again: Annotated[bool, in_run("--again", help="Replace an older demo.")] = False,
) -> None:
    """Train a small model, try it, and explain an answer.

    Trains on generated sentences and writes a page that explains one prediction.

    Example: translucid demo "The dog sees a cat."

    Example: translucid demo --task tag "Anna works for Lumina in Rome."
    """
    from translucid.model import load
    from translucid.runs.recipe import recipe

    folder = out or Path("runs") / ("demo" if task == "translate" else f"demo-{task}")
    asked = texts or list(DEMOS[task].texts)
    chosen = recipe.parse(_recipe_values(task, settings or ()), settings or ())
    if chosen.task.kind != task:
        kind = chosen.task.kind
        raise InputError(f"task.kind is {kind}; write --task {kind} instead")
    if task == "regress":
        _check_numbers(asked)
    if again:
        _remove(folder)
    _train(chosen, folder)
    model = load(folder)
    _show_score(json.loads((folder / "test.json").read_text("utf-8")))
    with noting(model) as notes:
        notes(asked)
        for text, answer in zip(asked, model.predict(asked), strict=True):
            typer.echo(f"  {text}\n  -> {model.task.answer_text(answer)}")
    reading = model.trace(next((text for text in asked if text.strip()), DEMOS[task].next_text))
    write_page(folder / PAGE, reading, reading.walk())
    place = shlex.quote(str(folder))
    typer.echo(f"{folder}: the model is in {folder / 'best'}, its explanation in {folder / PAGE}")
    typer.echo(f"to explore it in your browser: translucid explore {place}")
    typer.echo(f'next: translucid explain {place} "{DEMOS[task].next_text}"')


def _recipe_values(task: DemoTask, overrides: Iterable[str]) -> dict[str, Any]:
    """The shipped recipe; without its model keys if `overrides` choose another kind of model."""
    import tomllib

    from translucid.runs.recipe import named

    values = tomllib.loads(named.find(DEMOS[task].recipe).read_text("utf-8"))
    model = values["model"]
    for override in overrides:
        key, _, kind = override.partition("=")
        if key.strip() == "model.kind" and kind.strip().strip("\"'") != model["kind"]:
            values["model"] = {k: model[k] for k in ("d_model",) if k in model}
    return values


def _train(chosen: Any, folder: Path) -> None:
    """Train a model into the folder. If the folder contains a stopped demo, resume it. If it
    contains a finished one, change nothing."""
    from translucid.runs.recipe import recipe
    from translucid.runs.run import resume_run, train_recipe
    from translucid.runs.session import Recording

    if (folder / "recipe.toml").exists():
        there = recipe.read(folder / "recipe.toml").task.kind
        if there != chosen.task.kind:
            raise InputError(
                f"{folder} contains a model for task {there}, not {chosen.task.kind}; choose "
                "another folder with --out, or replace it with --again"
            )
    recording = Recording()  # for the studio's Train view
    with stopping() as interrupted:
        if (folder / "test.json").exists():
            typer.echo(f"{folder} already contains a trained model; --again trains a new one")
        elif (folder / "recipe.toml").exists():
            typer.echo(f"{folder} contains a stopped demo; resuming it")
            resume_run(folder, interrupted=interrupted, recording=recording)
        else:
            with _marked(folder):
                train_recipe(
                    chosen, folder, interrupted=interrupted, allowed=(MARK,), recording=recording
                )


def _show_score(result: dict[str, Any]) -> None:
    """Print the test score and its baseline from test.json."""
    scores = {f"on {result['examples']:,} unseen examples": result["test"]}
    baselines = [result.get("baseline"), *result.get("other_baselines", ())]
    for baseline in filter(None, baselines):
        scores[f"baseline ({baseline['name']})"] = baseline["test"]
    for title, score in scores.items():
        typer.echo(f"{title}: {'  '.join(f'{name} {value:.4g}' for name, value in score.items())}")


def _check_numbers(texts: Sequence[str]) -> None:
    """Raise an error for inputs that are not numbers, before training rather than after it."""
    for text in texts:
        try:
            finite = math.isfinite(float(text))
        except ValueError:
            finite = False
        if not finite:
            raise InputError(f"{text!r} is not a number; give numbers such as 0.25")


def _remove(folder: Path) -> None:
    """Remove the files that an older demo wrote, and no other files."""
    from translucid.core.atomic_files import remove
    from translucid.runs.folder import locked, remove_own

    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / MARK).is_file():
        raise InputError(
            f"{folder} is not a demo (it contains no {MARK}), so --again does not replace it; "
            "remove it yourself, or choose another folder with --out"
        )
    with locked(folder):
        remove_own(folder)
        for name in (PAGE, MARK):
            remove(folder / name)


@contextmanager
def _marked(folder: Path) -> Iterator[None]:
    """Mark an empty folder as a demo; remove the mark if nothing was trained."""
    from translucid.core.atomic_files import remove, write_text
    from translucid.runs.folder import made

    with made(folder):
        if any(folder.iterdir()):  # training refuses a folder that is not empty
            yield
            return
        write_text(folder / MARK, "")
        try:
            yield
        except BaseException:
            if [path.name for path in folder.iterdir()] == [MARK]:
                remove(folder / MARK)
            raise
