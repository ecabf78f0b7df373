"""`translucid train` and `translucid evaluate`."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared.arguments import (
    DataFolder,
    MadeUp,
    RecipeArguments,
    TestFiles,
    TrainFiles,
    ValidFiles,
    tasks,
)
from translucid.cli.shared.generation_options import Device, Folder, check_device, tell
from translucid.core.errors import InputError
from translucid.tasks.registry import TASKS

if TYPE_CHECKING:
    from translucid.runs.recipe.named import Named
    from translucid.runs.session import Recording
    from translucid.tasks.score import Criterion, Score
    from translucid.training.stop_request import StopRequest


Studio = Annotated[
    bool,
    typer.Option("--studio", help="Watch training in the browser, and record it for later."),
]
Probe = Annotated[
    str | None,
    typer.Option(help="With --studio: the text to follow (default: the first validation example)."),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="With --studio: the port; 0 for any (default: 8642 or the next free one).",
    ),
]


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help=f"A recipe file, a shipped recipe, or a task: {', '.join(TASKS.names())}; or a "
            "Python file with a task of your own.",
            autocompletion=tasks,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            help="Changes to the recipe: section.key=value ...; `translucid new TASK` has all keys."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output folder (default: runs/TASK or runs/RECIPE, numbered if it exists)."
        ),
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            "--from", help="Start from a trained model: a run, or any model that `info` opens."
        ),
    ] = None,
    train_files: TrainFiles = None,
    valid_files: ValidFiles = None,
    test_files: TestFiles = None,
    toyland: MadeUp = None,
    data_folder: DataFolder = None,
    parallel: Annotated[
        str | None, typer.Option(help="Under torchrun: ddp (the default) or fsdp.")
    ] = None,
    skip_bad_batches: Annotated[
        int | None,
        typer.Option(min=0, help="Skip up to this many steps whose gradient is not finite."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Time limit in minutes; unset sizes are chosen to fit it."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Cross-validation: K runs, each validated on another part of --train; prints mean "
            "and interval.",
            metavar="K",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing; write only the files.")
    ] = False,
    studio: Studio = False,
    probe: Probe = None,
    port: Port = None,
    self_test: Annotated[
        bool,
        typer.Option("--self-test", help="Check data and model for mistakes without training."),
    ] = False,
) -> None:
    """Train a model from your files or from a recipe.

    Given only a task, `train` chooses sizes that fit your data and prints them.

    Example: translucid train translate --train a.de a.en --out runs/x training.steps=2000
    """
    from translucid.runs.folder import free_folder
    from translucid.runs.run import train_recipe

    files = {"train": train_files, "valid": valid_files, "test": test_files}
    options = {"parallel": parallel, "skip_bad_batches": skip_bad_batches, "minutes": minutes}
    changes = [f"training.{key}={value}" for key, value in options.items() if value is not None]
    if start_from is not None:
        changes.append(f"training.start_from={json.dumps(start_from)}")
    arguments = RecipeArguments(recipe, [*(overrides or ()), *changes], files, toyland, data_folder)
    if self_test:
        _self_test(arguments)
        return
    named = arguments.named()
    if folds is not None:
        if studio:
            raise InputError("--studio shows one run, not --folds; leave one of the two out")
        _cross_validate(named, folds, out or free_folder(Path("runs"), Path(recipe).stem), quiet)
        return
    folder = out or free_folder(Path("runs"), Path(recipe).stem)
    if out is None and "WORLD_SIZE" in os.environ:
        raise InputError("several processes need to be told the folder of the run: --out FOLDER")
    with stopping() as interrupted, shown(folder, studio, probe, port) as recording:
        done = train_recipe(
            named.recipe,
            folder,
            pick=named.by_task,
            quiet=quiet,
            interrupted=interrupted,
            recording=recording,
        )
    _say_done(folder, done.task)


def resume(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to its recipe (with --allow-changes).")
    ] = None,
    allow_changes: Annotated[
        bool,
        typer.Option("--allow-changes", help="Resume even if the recipe or the data have changed."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing; write only the files.")
    ] = False,
    studio: Studio = False,
    probe: Probe = None,
    port: Port = None,
) -> None:
    """Continue a run that was stopped, as if it had not been.

    Example: translucid resume runs/x
    """
    from translucid.runs.run import resume_run

    with stopping() as interrupted, shown(run, studio, probe, port) as recording:
        done = resume_run(
            run,
            overrides or (),
            allow_changes=allow_changes,
            quiet=quiet,
            interrupted=interrupted,
            recording=recording,
        )
    _say_done(run, done.task)


def _cross_validate(named: "Named", folds: int, out: Path, quiet: bool) -> None:
    from translucid.runs.cross_validation import SUMMARY, cross_validate

    if folds < 2:
        raise InputError(f"--folds {folds}: must be at least 2")
    if "WORLD_SIZE" in os.environ:
        raise InputError("--folds: train the folds with one process, without torchrun")
    with stopping() as interrupted:
        result = cross_validate(
            named.recipe,
            out,
            folds,
            pick=named.by_task,
            quiet=quiet,
            interrupted=interrupted,
            say=lambda line: typer.echo(line, err=True),
        )
    for line in result.lines():
        typer.echo(line)
    typer.echo(f"{out / SUMMARY}: the same for scripts; the models are in {out / 'fold-1'} ...")
    typer.echo(
        f"next: translucid {TASKS[result.task].traits.command} {shlex.quote(result.folders[0])}"
    )


def _self_test(arguments: RecipeArguments) -> None:
    """Run all checks on this recipe and data; the exit code is 2 if something is wrong."""
    from translucid.cli.shared.messages import any_wrong, show_findings
    from translucid.runs.checks.startup import self_test

    named = arguments.named()
    findings = self_test(named.recipe, lambda line: typer.echo(line, err=True), pick=named.by_task)
    show_findings(findings)
    if any_wrong(findings):
        raise typer.Exit(2)
    typer.echo(f"next: translucid train {arguments.words()}")


def speaks() -> bool:
    """Whether this process prints: of several that torchrun started, only one does."""
    return os.environ.get("RANK", "0") == "0"


def _say_done(folder: Path, task: str) -> None:
    if not speaks():
        return
    source = TASKS.source(task)
    code = "" if source is None or source.path is None else f" --code {_short(source.path)}"
    typer.echo(f"{folder}: the best model is in {folder / 'best'}")
    typer.echo(f"next: translucid {TASKS[task].traits.command} {shlex.quote(str(folder))}{code}")


def _short(path: Path) -> str:
    """The path as it can be typed in this folder."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _say_at_once(line: str) -> None:
    """Print from a signal handler, which may run while another line is being written."""
    try:
        typer.echo(line, err=True)
    except RuntimeError:  # that one has the buffer, so this one goes past it
        with suppress(OSError):
            os.write(2, f"{line}\n".encode())


@contextmanager
def stopping() -> Iterator["StopRequest"]:
    """Ctrl-C and SIGTERM let the step finish and save the run; a second one leaves at once, with
    the last checkpoint whole. Exit codes are those of the signals (130, 143), so that
    `train && evaluate` stops too."""
    from translucid.core.errors import Interrupted
    from translucid.training.stop_request import StopRequest

    request = StopRequest()

    def note(number: int, frame: Any) -> None:
        if request():
            raise KeyboardInterrupt
        if speaks():
            _say_at_once("stopping after this step; once more to leave at once")
        request.ask(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    except Interrupted as end:
        if not speaks():  # torchrun would end the one that still saves
            raise typer.Exit from None
        typer.echo(str(end))
        raise typer.Exit(128 + (request.signal or signal.SIGINT)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shown(
    folder: Path, studio: bool, probe: str | None, port: int | None
) -> Iterator["Recording | None"]:
    """With --studio: serve the page during training, and record what it shows."""
    if not studio:
        if probe is not None or port is not None:
            name = "--probe" if probe is not None else "--port"
            raise InputError(
                f"{name} says what is shown with --studio; add it, or leave {name} out"
            )
        yield None
        return
    from translucid.cli.explore import announce, server
    from translucid.runs.session import Recording

    if not speaks():
        yield Recording(probe)
        return
    page = server().for_training(folder, port)

    def began() -> None:  # and not before: data that cannot be read would leave a dead address
        announce(page, port)
        sys.stdout.flush()

    try:
        with page.in_background():
            yield Recording(probe, began)
    finally:
        if folder.exists():
            typer.echo(f"look again with: translucid explore {shlex.quote(str(folder))}", err=True)


def evaluate(
    model: Folder,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]... [SECTION.KEY=VALUE]...",
            help="A file in the format of the training data, two for translation (default: the "
            "test data of the run). data.text_column=review and the like set other columns; "
            "decoding.beam_size=1 and the like change how it is scored.",
        ),
    ] = None,
    data: Annotated[list[str] | None, typer.Option("--data", help="The same as FILE.")] = None,
    keep_empty: Annotated[
        bool | None,
        typer.Option(
            "--keep-empty/--no-keep-empty",
            show_default="as in training",
            help="Count empty lines of a text as documents.",
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            min=0,
            show_default="as in training",
            help="Tokens that a language model reads before those that are scored.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the predictions to this new file, one line per example."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Score a model on a file, or a run on its own test data.

    Files are read and scored as in the run, so the score equals that of its test.json; options
    that change this are printed. --out writes the same lines as test.predictions.txt of a run.

    Example: translucid evaluate runs/toy test.en test.de
    """
    from translucid.cli.compare import is_model
    from translucid.cli.predict import files_and_keys
    from translucid.model import load

    files, keys = files_and_keys([*(files or ()), *(data or ())], ("data", "decoding"))
    options: dict[str, Any] = {"keep_empty": keep_empty, "context": context}
    options = {key: value for key, value in options.items() if value is not None} | keys
    for file in files:
        if is_model(file):
            again = shlex.join(["translucid", "compare", str(model), *files])
            raise InputError(f"{file}: is no file of examples; models are compared by: {again}")
    if out is not None and out.exists():
        raise InputError(f"{out} exists already; remove it, or give --out another name")
    held = load(model, check_device(device), say=tell)
    score = held.evaluate(*files, say=lambda line: typer.echo(line, err=True), **options)
    settings = held.evaluation_settings(**options)
    baseline = {} if files or settings.changed else _own_baseline(model, score, held.task.criterion)
    if as_json:
        scored: dict[str, Any] = {"scores": score.numbers} | score.counts()
        scored |= {"notes": score.notes, "settings": settings.values}
        scored |= {"warnings": score.warnings} if score.warnings else {}
        typer.echo(json.dumps(scored | ({"baseline": baseline} if baseline else {})))
    else:
        _say_score(score, baseline)
    if out is not None:  # last: a task without predictions is scored all the same
        _write_predictions(out, score, held.task.name)


def _say_score(score: "Score", baseline: dict[str, Any]) -> None:
    for name, value in score.numbers.items():
        typer.echo(f"{name:<20} {value:.4f}")
    if score.coverage is not None:
        typer.echo(f"{'! ' if score.left_out else ''}scored on {score.coverage.line()}")
    for words in score.warnings:
        typer.echo(f"warning: {words}")
    for note in score.notes:
        typer.echo(note)
    if baseline:
        typer.echo(f"baseline: {baseline['name']}")
    for name, value in baseline.get("test", {}).items():
        typer.echo(
            f"  {name:<18} {value:.4f}{'  (better than the model)' * (name in baseline['worse'])}"
        )


def _write_predictions(out: Path, score: "Score", task: str) -> None:
    from translucid.core.atomic_files import write_text

    if not score.predictions:
        raise InputError(
            f"--out {out}: a model for task {task} is scored without predictions; leave --out out"
        )
    write_text(out, score.predictions_text())


def _own_baseline(
    folder: Path, score: "Score", criterion: Callable[..., "Criterion"]
) -> dict[str, Any]:
    """The baseline that a run stored with its test score, compared with this score."""
    from translucid.core.untrusted_files import read_object
    from translucid.tasks import model_folder
    from translucid.tasks.score import Baseline, Score

    file = model_folder.place(folder).parent / "test.json"
    baseline = read_object(file).get("baseline") if file.is_file() else None
    if baseline is None:  # of an older run, or of a task that has none
        return {}
    try:
        numbers = {str(name): float(value) for name, value in baseline["test"].items()}
        noted = Baseline(str(baseline["name"]), Score(numbers))
        return {
            "name": noted.name,
            "test": numbers,
            "better": noted.better(score.numbers, criterion),
            "worse": noted.differences(score.numbers, criterion)[1],
        }
    except (AttributeError, LookupError, TypeError, ValueError):
        raise InputError(f"{file} is not what a run writes; copy the run again, whole") from None
