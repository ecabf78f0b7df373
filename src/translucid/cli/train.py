"""`translucid train`, `resume` and `evaluate`."""

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

from translucid.cli.shared import options as o
from translucid.cli.shared.arguments import (
    DataFolder,
    RecipeArguments,
    TestFiles,
    Toyland,
    TrainFiles,
    ValidFiles,
    check_once,
    code_words,
    files_and_keys,
    tasks,
)
from translucid.core.errors import InputError
from translucid.tasks.registry import TASKS

if TYPE_CHECKING:
    from translucid.runs.recipe.named import Named
    from translucid.runs.session import Recording
    from translucid.tasks.score import Criterion, Score
    from translucid.training.stop_request import StopRequest


Studio = Annotated[bool, o.in_run("--studio", help="Watch training in the browser, and record it.")]
Probe = Annotated[
    str | None,
    o.in_run(
        metavar="TEXT",
        help="Text to follow in the studio [default: a validation text].",
    ),
]


def train(
    context: typer.Context,
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="TASK|RECIPE",
            help=f"Task ({', '.join(TASKS.names())}), recipe file, shipped recipe, or Python file "
            "with your own task.",
            autocompletion=tasks,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="SECTION.KEY=VALUE", help="Settings (see `translucid new TASK`)."),
    ] = None,
    train_files: TrainFiles = None,
    valid_files: ValidFiles = None,
    test_files: TestFiles = None,
    toyland: Toyland = None,
    data_folder: DataFolder = None,
    start_from: Annotated[
        str | None, o.in_model("--from", metavar="MODEL", help="Fine-tune this trained model.")
    ] = None,
    out: Annotated[
        Path | None,
        o.in_run(metavar="FOLDER", help="Output folder [default: runs/TASK, numbered]."),
    ] = None,
    minutes: Annotated[
        float | None,
        o.in_run(metavar="N", help="Time limit; unset settings are chosen to fit it."),
    ] = None,
    folds: Annotated[
        int | None,
        o.in_run(metavar="K", help="K-fold cross-validation: average the scores of K models."),
    ] = None,
    keep_baseline: Annotated[
        bool, o.in_run("--keep-baseline", help="Keep the simple baseline model in FOLDER/baseline.")
    ] = False,
    parallel: Annotated[
        str | None, o.in_run(metavar="NAME", help="With torchrun: ddp (the default) or fsdp.")
    ] = None,
    skip_bad_batches: Annotated[
        int | None,
        o.in_run(min=0, metavar="N", help="Skip up to N steps whose gradient is not finite."),
    ] = None,
    self_test: Annotated[
        bool, o.in_run("--self-test", help="Check data and model for mistakes without training.")
    ] = False,
    find_rate: Annotated[
        bool,
        o.in_run("--find-rate", help="Suggest a learning rate and plot the losses; no training."),
    ] = False,
    studio: Studio = False,
    probe: Probe = None,
    port: o.Port = None,
    quiet: o.Quiet = False,
) -> None:
    """Train a model from your files or from a recipe.

    If you give a task instead of a recipe, Translucid chooses the settings that you leave out to
    fit your data, and prints them.

    Example: translucid train translate --train a.de a.en --out runs/x training.steps=2000
    """
    from translucid.runs.folder import free_folder
    from translucid.runs.run import train_recipe

    files = {"train": train_files, "valid": valid_files, "test": test_files}
    options = {"parallel": parallel, "skip_bad_batches": skip_bad_batches, "minutes": minutes}
    changes = [f"training.{key}={value}" for key, value in options.items() if value is not None]
    if keep_baseline:
        changes.append("training.keep_baseline=true")
    if start_from is not None:
        changes.append(f"training.start_from={json.dumps(start_from)}")
    arguments = RecipeArguments(recipe, [*(overrides or ()), *changes], files, toyland, data_folder)
    if self_test:
        _self_test(arguments)
        return
    if find_rate:
        _find_rate(arguments, out or Path("learning-rate.svg"), quiet)
        return
    named = arguments.named(_say(quiet))
    folder = out or free_folder(Path("runs"), Path(recipe).stem)
    if folds is not None:
        if studio:
            raise InputError("--studio shows one run, but --folds trains several; omit one")
        _cross_validate(named, folds, folder, quiet)
        return
    if out is None and "WORLD_SIZE" in os.environ:
        raise InputError("with several processes, name the output folder: --out FOLDER")
    with stopping() as interrupted, shown(folder, studio, probe, port) as recording:
        done = train_recipe(
            named.recipe,
            folder,
            pick=named.by_task,
            quiet=quiet,
            interrupted=interrupted,
            recording=recording,
            began=context.obj,
        )
    _print_next(folder, done.task, quiet)


def resume(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    overrides: o.Overrides = None,
    allow_changes: Annotated[
        bool,
        o.in_run("--allow-changes", help="Resume even if the recipe or the data have changed."),
    ] = False,
    studio: Studio = False,
    probe: Probe = None,
    port: o.Port = None,
    quiet: o.Quiet = False,
) -> None:
    """Continue a stopped run from its last checkpoint.

    The result is the same, bit for bit, as if the run had not been stopped. To change
    settings, add --allow-changes.

    Example: translucid resume runs/x
    """
    from translucid.runs.run import resume_run

    check_once(overrides or ())
    with stopping() as interrupted, shown(run, studio, probe, port) as recording:
        done = resume_run(
            run,
            overrides or (),
            allow_changes=allow_changes,
            quiet=quiet,
            interrupted=interrupted,
            recording=recording,
        )
    _print_next(run, done.task, quiet)


def _cross_validate(named: "Named", folds: int, out: Path, quiet: bool) -> None:
    from translucid.runs.cross_validation import SUMMARY, cross_validate

    if folds < 2:
        raise InputError(f"--folds {folds}: must be at least 2")
    if "WORLD_SIZE" in os.environ:
        raise InputError("--folds is not available with torchrun; train the folds in one process")
    with stopping() as interrupted:
        result = cross_validate(
            named.recipe,
            out,
            folds,
            pick=named.by_task,
            quiet=quiet,
            interrupted=interrupted,
            say=_say(quiet),
        )
    for line in result.lines():
        typer.echo(line)
    if quiet:
        return
    typer.echo(f"{out / SUMMARY}: the summary as JSON; the models are in {out / 'fold-1'} ...")
    command = ["translucid", TASKS[result.task].traits.command, result.folders[0]]
    typer.echo(f"next: {shlex.join([*command, *code_words(result.task)])}")


def _self_test(arguments: RecipeArguments) -> None:
    """Run all checks on this recipe and data; exit with 2 if something is wrong."""
    from translucid.cli.shared.messages import any_wrong, show_findings
    from translucid.runs.checks.startup import self_test

    named = arguments.named(o.print_note)
    findings = self_test(named.recipe, o.print_note, pick=named.by_task)
    show_findings(findings)
    if any_wrong(findings):
        raise typer.Exit(2)
    typer.echo(f"next: translucid train {arguments.words()}")


def _find_rate(arguments: RecipeArguments, out: Path, quiet: bool) -> None:
    """Print a learning rate and draw the test that found it."""
    from translucid.runs.rate_finder import find_rate
    from translucid.see.pictures import picture_file

    picture_file(out)  # before minutes of training
    named = arguments.named(_say(quiet))
    test = find_rate(named.recipe, _say(quiet), pick=named.by_task)
    file = test.figure().save(out)
    setting = f"training.learning_rate={test.suggested:g}"
    typer.echo(setting)
    typer.echo(f"{file}: the loss at {len(test.rates)} learning rates")
    typer.echo(f"next: translucid train {arguments.words()} {setting}")


def _say(quiet: bool) -> Callable[[str], None]:
    return (lambda line: None) if quiet else o.print_note


def prints() -> bool:
    """Whether this process prints; with torchrun, only the first does."""
    return os.environ.get("RANK", "0") == "0"


def _print_next(folder: Path, task: str, quiet: bool) -> None:
    if quiet or not prints():
        return
    typer.echo(f"{folder}: the best model is in {folder / 'best'}")
    command = ["translucid", TASKS[task].traits.command, str(folder), *code_words(task)]
    typer.echo(f"next: {shlex.join(command)}")


def _print_from_handler(line: str) -> None:
    """Print from a signal handler, which may interrupt another print."""
    try:
        typer.echo(line, err=True)
    except RuntimeError:  # the buffer is in use; bypass it
        with suppress(OSError):
            os.write(2, f"{line}\n".encode())


@contextmanager
def stopping() -> Iterator["StopRequest"]:
    """On Ctrl-C or SIGTERM, finish the step and save the run; on a second one, exit at once, with
    the last checkpoint intact. Exit codes are those of the signals (130, 143), so that
    `train && evaluate` stops too."""
    from translucid.core.errors import Interrupted
    from translucid.training.stop_request import StopRequest

    request = StopRequest()

    def note(number: int, frame: Any) -> None:
        if request():
            raise KeyboardInterrupt
        if prints():
            _print_from_handler("stopping after this step; press Ctrl-C again to stop at once")
        request.ask(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    except Interrupted as end:
        if not prints():  # else torchrun would end the process that is still saving
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
            raise InputError(f"{name} needs --studio; add it, or omit {name}")
        yield None
        return
    from translucid.cli.explore import announce, server
    from translucid.runs.session import Recording

    if not prints():
        yield Recording(probe)
        return
    page = server().for_training(folder, port)

    def began() -> None:  # not earlier: after an error in the data, the address would not work
        announce(page, port)
        sys.stdout.flush()

    try:
        with page.in_background():
            yield Recording(probe, began)
    finally:
        if folder.exists():
            typer.echo(f"to open it again: translucid explore {shlex.quote(str(folder))}", err=True)


def evaluate(
    model: o.Folder,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]... [SECTION.KEY=VALUE]...",
            help="Data in the training format, two files for translation [default: the run's "
            "test data]; settings such as data.text_column=review or decoding.beam_size=1.",
        ),
    ] = None,
    data: o.DataFiles = None,
    keep_empty: o.KeepEmpty = None,
    context: Annotated[
        int | None,
        o.in_data(
            min=0,
            metavar="N",
            show_default="as in training",
            help="Language models: tokens to read as context before the scored ones.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        o.in_output(metavar="FILE", help="Write the predictions, one line per example."),
    ] = None,
    figure: Annotated[
        Path | None,
        o.in_output(
            metavar="FILE",
            help="Classifiers: draw the confusion matrix as .svg, .png or .pdf, and calibration as "
            "FILE-calibration.",
        ),
    ] = None,
    as_json: o.Json = False,
    device: o.Device = "auto",
) -> None:
    """Score a model on a file, or a run on its test data.

    Data is read and scored as in training, so the score equals the one in the run's test.json. If
    you change a setting, the output shows its old and new value. For classifiers, also prints
    precision and recall of each label, the confusion matrix and calibration.

    Example: translucid evaluate runs/toy test.en test.de
    """
    from translucid.cli.compare import is_model
    from translucid.core.atomic_files import write_text
    from translucid.model import load

    files, keys = files_and_keys([*(files or ()), *(data or ())], ("data", "decoding"))
    options: dict[str, Any] = {"keep_empty": keep_empty, "context": context}
    options = {key: value for key, value in options.items() if value is not None} | keys
    for file in files:
        if is_model(file):
            again = shlex.join(["translucid", "compare", str(model), *files])
            raise InputError(f"{file} is a model, not data; to compare models: {again}")
    o.check_unused(out)
    o.check_figure(figure)
    held = load(model, o.check_device(device), say=o.print_note)
    score = held.evaluate(*files, say=o.print_note, **options)
    settings = held.evaluation_settings(**options)
    own = not files and not settings.changed
    baselines = _own_baselines(model, score, held.task.criterion) if own else []
    if as_json:
        scored: dict[str, Any] = {"scores": score.numbers} | score.counts()
        scored |= {"notes": score.notes, "settings": settings.values}
        scored |= {"warnings": score.warnings} if score.warnings else {}
        scored |= {} if score.report is None else {"report": score.report.as_dict()}
        scored |= {"baseline": baselines[0]} if baselines else {}
        scored |= {"other_baselines": baselines[1:]} if baselines[1:] else {}
        typer.echo(json.dumps(scored))
    else:
        _print_score(score, baselines)
    if figure is not None:
        _draw_report(score, figure, held.task.name)
    if out is not None:  # last, so that a task without predictions is still scored
        if not score.predictions:
            task = held.task.name
            raise InputError(f"--out {out}: task {task} has no predictions to write; omit --out")
        write_text(out, score.predictions_text())


def _draw_report(score: "Score", figure: Path, task: str) -> None:
    from translucid.see.class_pictures import pictures

    if score.report is None:
        raise InputError(f"--figure {figure}: task {task} has no labels to draw; omit --figure")
    o.save_pictures(pictures(score.report), figure, "calibration")


def _print_score(score: "Score", baselines: list[dict[str, Any]]) -> None:
    for name, value in score.numbers.items():
        typer.echo(f"{name:<20} {value:.4f}")
    if score.coverage is not None:
        typer.echo(f"{'! ' if score.left_out else ''}scored on {score.coverage.line()}")
    for words in score.warnings:
        typer.echo(f"warning: {words}")
    for note in score.notes:
        typer.echo(note)
    for baseline in baselines:
        typer.echo(f"baseline: {baseline['name']}")
        for name, value in baseline["test"].items():
            worse = "  (better than the model)" if name in baseline["worse"] else ""
            typer.echo(f"  {name:<18} {value:.4f}{worse}")
    if score.report is not None:
        typer.echo()
    for line in [] if score.report is None else score.report.lines():
        typer.echo(line)


def _own_baselines(
    folder: Path, score: "Score", criterion: Callable[..., "Criterion"]
) -> list[dict[str, Any]]:
    """The baselines stored with the run's test score, compared with this score."""
    from translucid.core.untrusted_files import read_object
    from translucid.runs.folder import BASELINE, TEST
    from translucid.tasks import model_folder
    from translucid.tasks.score import Baseline, Score

    place = model_folder.place(folder)
    file = place.parent / TEST
    result = read_object(file) if file.is_file() else {}
    if result.get("baseline") is None:  # an older run, or a task without one
        return []
    baselines = []
    try:
        for stored in [result["baseline"], *result.get("other_baselines", ())]:
            numbers = {str(name): float(value) for name, value in stored["test"].items()}
            noted = Baseline(str(stored["name"]), Score(numbers))
            values = {
                "name": noted.name,
                "test": numbers,
                "better": noted.better(score.numbers, criterion),
                "worse": noted.differences(score.numbers, criterion)[1],
            }
            baselines.append(values | ({"p": float(stored["p"])} if "p" in stored else {}))
    except (AttributeError, LookupError, TypeError, ValueError):
        raise InputError(
            f"{file} is damaged or was not written by a run; copy the whole run again"
        ) from None
    return baselines[1:] if place.name == BASELINE else baselines  # not compared with itself
