"""What each demo prints and draws once its model is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from translucid.demo.recipes import DemoTask
from translucid.errors import InputError

if TYPE_CHECKING:
    from translucid.data.spans import Span
    from translucid.model import Model
    from translucid.recipe.recipe import Recipe

MARK = ".demo"  # stands in the folder of a demo


@dataclass(frozen=True)
class Done:
    """A finished run."""

    out: Path
    recipe: Recipe
    model: Model
    score: dict[str, float]  # on the test data
    notes: list[str]
    examples: int  # in the test data


def check(task: DemoTask, recipe: Recipe, given: Sequence[str]) -> None:
    """Refuse at once what would fail after minutes of training."""
    if recipe.task.kind != task:
        raise InputError(
            f"task.kind is {recipe.task.kind}; write --task {recipe.task.kind} instead"
        )
    if task == "regress":
        _numbers(given)


def check_same(wanted: str, found: str, folder: Path) -> None:
    if wanted != found:
        raise InputError(
            f"{folder} holds a model for task {found}, not {wanted}; choose another folder with "
            f"--out, or replace it with --again"
        )


def remove(folder: Path) -> None:
    """Remove what an older demo wrote, and nothing else."""
    from translucid.atomic_files import remove as remove_path
    from translucid.demo.report.page import REPORT
    from translucid.runs.folder import locked, remove_own

    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / MARK).is_file():
        raise InputError(
            f"{folder} is not the folder of a demo (it holds no {MARK}), so --again leaves it "
            "alone; remove it yourself, or choose another folder with --out"
        )
    with locked(folder):
        remove_own(folder)
        for name in (REPORT, MARK):
            remove_path(folder / name)


@contextmanager
def marked(folder: Path) -> Iterator[None]:
    """The folder of a demo says that it is one, from the first moment; a demo that left nothing
    leaves no mark either."""
    from translucid.atomic_files import remove as remove_path
    from translucid.atomic_files import write_text
    from translucid.runs.folder import made

    with made(folder):
        if any(folder.iterdir()):  # a run already, or somebody's; training says so
            yield
            return
        write_text(folder / MARK, "")
        try:
            yield
        except BaseException:
            if [path.name for path in folder.iterdir()] == [MARK]:
                remove_path(folder / MARK)
            raise


def translate(done: Done, given: Sequence[str]) -> Path:
    from translucid.demo.report import translate as report
    from translucid.toyland import Toyland

    task: Any = done.model.task
    shown = list(islice(Toyland().sentences("test"), 3))
    typer.echo(
        f"exact match on {done.examples} unseen sentences: {done.score['exact_match']:.1%}   "
        f"BLEU {done.score['bleu']:.1f}   ({done.notes[0]})"
    )
    _say_unknown(task.source, given)
    for text, answer in zip(given, done.model.translate(given), strict=True):
        typer.echo(f"  {text}\n  -> {answer}")
    return report.write(done.out, done.model, shown, done.score, done.notes[:1])


def tag(done: Done, given: Sequence[str]) -> Path:
    from translucid.data.spans import split_words
    from translucid.demo.report import tag as report
    from translucid.toyland import Toyland

    typer.echo(
        f"span F1 on {done.examples} unseen sentences: {done.score['span_f1']:.1%}   "
        f"tags right: {done.score['accuracy']:.1%}"
    )
    task: Any = done.model.task
    words = [" ".join(text[a:b] for a, b in split_words(text)) for text in given]
    _say_unknown(task.tokenizer, words)  # a tagger learns from words, signs apart
    for text, spans in zip(given, done.model.tag(given), strict=True):
        typer.echo(f"  {bracketed(text, spans)}")
    with_names = (one for one in Toyland().sentences("test") if len(set(one.entities)) > 2)
    return report.write(done.out, done.model, list(islice(with_names, 2)), given, done.score)


def bracketed(text: str, spans: Sequence[Span]) -> str:
    """[PER Peter] lives in [LOC Berlin]."""
    for span in reversed(spans):
        marked = f"[{span.label} {span.text}]"
        text = text[: span.start] + marked + text[span.end :]
    return text


def classify(done: Done, given: Sequence[str]) -> Path:
    from translucid.demo.report import baselines
    from translucid.demo.report import classify as report
    from translucid.recipe.examples import load_examples

    task: Any = done.model.task
    examples = load_examples(done.recipe, _silent)
    bag = baselines.bag_of_words_accuracy(task, examples.train, examples.test, done.recipe)
    typer.echo(
        f"accuracy on {len(examples.test)} unseen sentences: {done.score['accuracy']:.1%}   "
        f"a bag of words, blind to order: {bag:.1%}"
    )
    _say_unknown(task.tokenizer, given)
    for text, found in zip(given, done.model.classify(given), strict=True):
        typer.echo(f"  {text}\n  -> {found.label} ({found.probability:.1%})")
    return report.write(done.out, done.model, examples.test, given, done.score, bag)


def language(done: Done, given: Sequence[str]) -> Path:
    from translucid.demo.report import baselines
    from translucid.demo.report import language as report
    from translucid.recipe.examples import load_examples

    task: Any = done.model.task
    examples = load_examples(done.recipe, _silent)
    rows = task.rows(examples.test, done.recipe.data.max_length)
    guesses = baselines.guesses(task, examples.train, rows)
    typer.echo(
        f"perplexity on {len(examples.test)} unseen sentences: {done.score['perplexity']:.1f}   "
        f"from the word before only: {guesses.bigram:.1f}   from word frequencies only: "
        f"{guesses.unigram:.0f}   all words alike: {guesses.uniform:.0f}"
    )
    _say_unknown(task.tokenizer, given)
    for prompt in given:
        for seed in range(2):
            text = done.model.generate(prompt, max_length=30, seed=seed)
            typer.echo(f"  {prompt or '(from nothing)'} [seed {seed}]\n  -> {text}")
    shown = [record.text for record in examples.test[:2]]
    return report.write(done.out, done.model, shown, done.score, guesses)


def regress(done: Done, given: Sequence[str]) -> Path:
    from translucid.demo.report import fits
    from translucid.demo.report import regress as report

    typer.echo(
        f"R² on {done.examples} unseen points of the sine: {done.score['r_squared']:.4f}   "
        f"RMSE {done.score['rmse']:.4f}"
    )
    numbers = _numbers(given)
    for x, (y,) in zip(numbers, done.model.predict([[x] for x in numbers]), strict=True):
        beyond = "" if -1 <= x <= 1 else "   (it saw -1 to 1 only: a guess)"
        typer.echo(f"  x = {x:g}  ->  {y:.4f}   sin(πx) = {fits.sine(x):.4f}{beyond}")
    typer.echo("training the smaller networks for the report ...")
    lesson = report.learn(done.model, done.recipe)
    for curve in (lesson.staircase, lesson.sine):
        errors = "  ".join(f"{fit.width}: {fit.rmse:.3f}" for fit in curve.fits)
        typer.echo(f"  {curve.name}, RMSE by hidden units   {errors}")
    for each in lesson.logic.boundaries:
        typer.echo(f"  {each.name}: {each.accuracy:.0%} of the four corners right")
    return report.write(done.out, lesson, done.score)


SHOW: dict[DemoTask, Callable[[Done, Sequence[str]], Path]] = {
    "translate": translate,
    "tag": tag,
    "classify": classify,
    "language": language,
    "regress": regress,
}


def _numbers(given: Sequence[str]) -> list[float]:
    found = []
    for text in given:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{text!r} is not a number; give numbers such as 0.25")
        found.append(number)
    return found


def _say_unknown(tokenizer: Any, texts: Sequence[str]) -> None:
    unknown = [word for text in texts for word in text.split() if tokenizer.unknown_rate([word])]
    if unknown:
        typer.echo(f"never seen in training, so these are guesses: {', '.join(unknown)}")


def _silent(line: str) -> None:
    """For what training said already."""
