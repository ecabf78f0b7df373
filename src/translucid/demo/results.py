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

from translucid.core.errors import InputError
from translucid.demo.recipes import DemoTask

if TYPE_CHECKING:
    from translucid.data.spans import Span
    from translucid.model import Model
    from translucid.runs.recipe.recipe import Recipe

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


def check(task: DemoTask, recipe: Recipe, texts: Sequence[str]) -> None:
    """Refuse at once what would fail after minutes of training."""
    if recipe.task.kind != task:
        raise InputError(
            f"task.kind is {recipe.task.kind}; write --task {recipe.task.kind} instead"
        )
    if task == "regress":
        _numbers(texts)


def check_same(wanted: str, there: str, folder: Path) -> None:
    if wanted != there:
        raise InputError(
            f"{folder} holds a model for task {there}, not {wanted}; choose another folder with "
            f"--out, or replace it with --again"
        )


def remove(folder: Path) -> None:
    """Remove what an older demo wrote, and nothing else."""
    from translucid.core.atomic_files import remove as remove_path
    from translucid.demo.report import PAGE
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
        for name in (PAGE, MARK):
            remove_path(folder / name)


@contextmanager
def marked(folder: Path) -> Iterator[None]:
    """The folder of a demo says that it is one, from the first moment; a demo that left nothing
    leaves no mark either."""
    from translucid.core.atomic_files import remove as remove_path
    from translucid.core.atomic_files import write_text
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


def translate(done: Done, texts: Sequence[str]) -> Path:
    from translucid.data.toyland import Toyland
    from translucid.demo.language_sections import alignment_section, gold_alignment
    from translucid.demo.report import Report, curves

    task: Any = done.model.task
    sentences = list(islice(Toyland().sentences("test"), 3))
    typer.echo(
        f"exact match on {done.examples} unseen sentences: {done.score['exact_match']:.1%}   "
        f"BLEU {done.score['bleu']:.1f}   ({done.notes[0]})"
    )
    _say_unknown(task.source, texts)
    for text, answer in zip(texts, done.model.translate(texts), strict=True):
        typer.echo(f"  {text}\n  -> {answer}")
    learnt = curves(
        done.out, "exact_match", loss="training loss per token", named="exact match, validation"
    )
    looks = alignment_section(done.model, sentences)
    first = sentences[0]
    return Report(
        "English to German, learnt on this machine",
        "A small network, trained from scratch on made-up sentences of toyland.",
        done.score,
        [learnt, *([looks] if looks else [])],
        done.model.trace(first.source, first.target),
        done.notes[:1],
        gold_alignment(done.model, first),
    ).write(done.out)


def tag(done: Done, texts: Sequence[str]) -> Path:
    from translucid.data.spans import split_words
    from translucid.data.toyland import Toyland
    from translucid.demo.language_sections import tag_sections
    from translucid.demo.report import Report, curves

    typer.echo(
        f"span F1 on {done.examples} unseen sentences: {done.score['span_f1']:.1%}   "
        f"tags right: {done.score['accuracy']:.1%}"
    )
    task: Any = done.model.task
    words = [" ".join(text[a:b] for a, b in split_words(text)) for text in texts]
    _say_unknown(task.tokenizer, words)  # a tagger learns from words, signs apart
    for text, spans in zip(texts, done.model.tag(texts), strict=True):
        typer.echo(f"  {bracketed(text, spans)}")
    with_names = (one for one in Toyland().sentences("test") if len(set(one.entities)) > 2)
    sentences = list(islice(with_names, 2))
    learnt = curves(
        done.out, "span_f1", loss="training loss per token", named="span F1, validation"
    )
    return Report(
        "Names found, learnt on this machine",
        "A small network that marks people (PER), places (LOC) and companies (ORG), trained from "
        "scratch on made-up sentences of toyland.",
        done.score,
        [learnt, *tag_sections(done.model, sentences, texts)],
        done.model.trace(sentences[0].source, " ".join(sentences[0].entities)),
    ).write(done.out)


def bracketed(text: str, spans: Sequence[Span]) -> str:
    """[PER Peter] lives in [LOC Berlin]."""
    for span in reversed(spans):
        marked = f"[{span.label} {span.text}]"
        text = text[: span.start] + marked + text[span.end :]
    return text


def classify(done: Done, texts: Sequence[str]) -> Path:
    from translucid.demo import baselines
    from translucid.demo.language_sections import confusion, word_by_word
    from translucid.demo.report import Report, Section, curves
    from translucid.runs.recipe.examples import load_examples

    task: Any = done.model.task
    examples = load_examples(done.recipe, _silent)
    bag = baselines.bag_of_words_accuracy(task, examples.train, examples.test, done.recipe)
    typer.echo(
        f"accuracy on {len(examples.test)} unseen sentences: {done.score['accuracy']:.1%}   "
        f"a bag of words, blind to order: {bag:.1%}"
    )
    _say_unknown(task.tokenizer, texts)
    for text, answer in zip(texts, done.model.classify(texts), strict=True):
        typer.echo(f"  {text}\n  -> {answer.label} ({answer.probability:.1%})")
    learnt = curves(
        done.out, "accuracy", loss="training loss per text", named="accuracy, validation",
        level=("bag of words", bag),
    )  # fmt: skip
    matrix = confusion(done.model, examples.test)
    readings = [word_by_word(done.model, text) for text in texts]
    return Report(
        "Praise or blame, learnt on this machine",
        "A small network that says whether a sentence is positive, negative or neutral, trained "
        "from scratch on made-up sentences of toyland, where negation and contrast decide.",
        {**done.score, "accuracy of a bag of words": bag},
        [
            learnt,
            Section("What it takes for what", "Rows: the right label. Columns: the label it got.",
                    [matrix]),
            Section("How the prediction changes word by word", "The probability of each label "
                    "after each token, as if the sentence ended there.", readings),
        ],
        done.model.trace(next((text for text in texts if text.strip()), examples.test[0].text)),
        [
            "A bag of words is a linear classifier on the mean of the words' vectors, trained as "
            "long on the same sentences. It can tell judgements from plain statements, but whether "
            "a judgement is praise depends on the order of its words."
        ],
    ).write(done.out)  # fmt: skip


def language(done: Done, texts: Sequence[str]) -> Path:
    from translucid.demo import baselines
    from translucid.demo.language_sections import agreement
    from translucid.demo.report import Report, Section, curves
    from translucid.runs.recipe.examples import load_examples

    task: Any = done.model.task
    examples = load_examples(done.recipe, _silent)
    rows = task.rows(examples.test, done.recipe.data.max_length)
    guesses = baselines.guesses(task, examples.train, rows)
    typer.echo(
        f"perplexity on {len(examples.test)} unseen sentences: {done.score['perplexity']:.1f}   "
        f"from the word before only: {guesses.bigram:.1f}   from word frequencies only: "
        f"{guesses.unigram:.0f}   all words alike: {guesses.uniform:.0f}"
    )
    _say_unknown(task.tokenizer, texts)
    for prompt in texts:
        for seed in range(2):
            text = done.model.generate(prompt, max_length=30, seed=seed)
            typer.echo(f"  {prompt or '(from nothing)'} [seed {seed}]\n  -> {text}")
    learnt = curves(
        done.out, "perplexity", loss="training loss per token", named="perplexity, validation",
        level=("from the word before only", guesses.bigram),
    )  # fmt: skip
    agrees = Section(
        "Does the verb agree?",
        "The verb belongs to the first noun, whatever stands between: how likely are is and are?",
        [agreement(done.model)],
    )
    return Report(
        "The next word, learnt on this machine",
        "A small language model, trained from scratch on made-up sentences of toyland.",
        {
            **done.score,
            "perplexity, word before only": guesses.bigram,
            "perplexity, word frequencies only": guesses.unigram,
            "perplexity, all words alike": guesses.uniform,
        },
        [learnt, agrees],
        done.model.trace(examples.test[0].text),
        ["Perplexity: among how many equally likely words a model hesitates."],
    ).write(done.out)


def regress(done: Done, texts: Sequence[str]) -> Path:
    from translucid.demo import fits, regress_sections
    from translucid.demo.report import Report, curves

    typer.echo(
        f"R² on {done.examples} unseen points of the sine: {done.score['r_squared']:.4f}   "
        f"RMSE {done.score['rmse']:.4f}"
    )
    numbers = _numbers(texts)
    for x, (y,) in zip(numbers, done.model.predict([[x] for x in numbers]), strict=True):
        beyond = "" if -1 <= x <= 1 else "   (it saw -1 to 1 only: a guess)"
        typer.echo(f"  x = {x:g}  ->  {y:.4f}   sin(πx) = {fits.sine(x):.4f}{beyond}")
    typer.echo("training the smaller networks for the report ...")
    lesson = regress_sections.learn(done.model, done.recipe)
    for curve in (lesson.staircase, lesson.sine):
        errors = "  ".join(f"{fit.width}: {fit.rmse:.3f}" for fit in curve.fits)
        typer.echo(f"  {curve.name}, RMSE by hidden units   {errors}")
    for boundary in lesson.logic.boundaries:
        typer.echo(f"  {boundary.name}: {boundary.accuracy:.0%} of the four corners right")
    learnt = curves(done.out, "r_squared", loss="training loss per point", named="R², validation")
    return Report(
        "Curves and corners, learnt on this machine",
        "Perceptrons and multi-layer perceptrons, trained from scratch.",
        done.score,
        [learnt, *lesson.sections()],
        done.model.trace(texts[0]),
        ["Of the widest network, on points of the sine it never saw."],
    ).write(done.out)


SHOW: dict[DemoTask, Callable[[Done, Sequence[str]], Path]] = {
    "translate": translate,
    "tag": tag,
    "classify": classify,
    "language": language,
    "regress": regress,
}


def _numbers(texts: Sequence[str]) -> list[float]:
    numbers = []
    for text in texts:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{text!r} is not a number; give numbers such as 0.25")
        numbers.append(number)
    return numbers


def _say_unknown(tokenizer: Any, texts: Sequence[str]) -> None:
    unknown = [word for text in texts for word in text.split() if tokenizer.unknown_rate([word])]
    if unknown:
        typer.echo(f"never seen in training, so these are guesses: {', '.join(unknown)}")


def _silent(line: str) -> None:
    """For what training said already."""
