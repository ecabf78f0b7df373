"""From the data section of a recipe to records, tokenizers and a task."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.bundle import Bundle
from translucid.data import readers, tables
from translucid.data.loading import Loading, check_labels
from translucid.data.pipelines import SIZED
from translucid.data.records import Labelled, Numbers, Pair, Tagged, Text
from translucid.data.tokenizers import Tokenizer
from translucid.data.toyland import Toyland
from translucid.decoding.search import Search
from translucid.errors import ConfigError, InputError
from translucid.tasks.base import Task, TaskName
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.tasks.tag import SpanDecoding, Tag
from translucid.tasks.translate import Translate
from translucid.training.recipe import DataConfig, Recipe

BEGINNING = 6  # words of a text that a language model is asked to go on with
Record = Any  # Text, Labelled, Tagged, Pair or Numbers: one kind per task


@dataclass(frozen=True)
class Examples:
    """The three parts of the data; test may be empty."""

    train: list[Record]
    valid: list[Record]
    test: list[Record]


def load_examples(recipe: Recipe, say: Callable[[str], None]) -> Examples:
    """Read the files of a recipe, or make them up."""
    data, task = recipe.data, recipe.task.kind
    if data.toyland is not None:
        if data.train:
            raise ConfigError("data.toyland and data.train were both given; leave one out")
        held_out = min(max(data.toyland // 20, 50), 500)
        parts = [
            list(_toyland(task, split, count))
            for split, count in (("train", data.toyland), ("valid", held_out), ("test", held_out))
        ]
        say(
            f"toyland: {data.toyland:,} training sentences, {held_out:,} for each of valid and test"
        )
        return Examples(*parts)
    if not data.train:
        raise ConfigError("data.train: must be given, or data.toyland = 20000 for made-up examples")
    train, valid, test = (
        read_records(task, data.paths(files), data, say) if files else []
        for files in (data.train, data.valid, data.test)
    )
    if task == "regress":
        _check_widths(train, valid, data.paths(data.valid))
        _check_widths(train, test, data.paths(data.test))
    if not valid:
        if len(train) < 2:
            raise InputError(
                f"{' + '.join(data.paths(data.train))}: 1 record is too few to hold one out for "
                "validation; give more, or a second file with --valid"
            )
        train, valid = _hold_out(train)
        say(f"data.valid was not given: {len(valid):,} of the training examples held out for it")
    return Examples(train, valid, test)


def _check_widths(train: list[Numbers], held_out: list[Numbers], files: Sequence[str]) -> None:
    """Refuse held-out numbers that have other columns than the training data."""
    wanted = len(train[0].inputs), len(train[0].targets)
    for record in held_out:
        found = len(record.inputs), len(record.targets)
        if found != wanted:
            raise InputError(
                f"{files[0]}:{record.line}: {found[0]} inputs and {found[1]} outputs, but the "
                f"training data has {wanted[0]} and {wanted[1]}; give the same columns"
            )


def _toyland(task: TaskName, split: str, count: int) -> Iterator[Record]:
    for line, made in enumerate(Toyland().sentences(split, count), start=1):
        match task:
            case "translate":
                yield Pair(made.source, made.target, line)
            case "classify":
                yield Labelled(made.source, made.sentiment, line)
            case "tag":
                yield Tagged(made.english, made.entities, line)
            case "language":
                yield Text(made.source, line)
            case "regress":
                x = 2 * random.Random(f"{split} {line}").random() - 1
                yield Numbers((x,), (math.sin(math.pi * x),), line)


def _hold_out(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """Every n-th record, so that an ordered file is held out evenly."""
    every = max(len(records) // min(max(len(records) // 20, 1), 2000), 2)
    return [r for i, r in enumerate(records) if i % every], records[::every]


def read_records(
    task: TaskName, files: Sequence[str], data: DataConfig, say: Callable[[str], None]
) -> list[Record]:
    """The records of a task from its file, or for translation its two files."""
    loading = Loading()
    found = list(_reader(task, files, data, loading))
    for line in loading.lines():
        say(line)
    if not found:
        raise InputError(f"{' + '.join(files)}: no usable record; see above what was left out")
    return found


def _reader(
    task: TaskName, files: Sequence[str], data: DataConfig, loading: Loading
) -> Iterable[Record]:
    wanted = 2 if task == "translate" else 1
    if len(files) not in ({1, 2} if task == "translate" else {1}):
        given = ", ".join(files)
        raise ConfigError(f"task {task} reads {wanted} file{'s'[: wanted - 1]}, but got {given}")
    match task:
        case "translate" if len(files) == 2:
            return readers.read_parallel(files[0], files[1], loading=loading)
        case "translate":
            if tables.format_of(files[0], otherwise="text") == "text":
                raise ConfigError(
                    f"{files[0]}: translation reads two files, the source and the target, or one "
                    "table whose name tells its format, such as pairs.tsv"
                )
            return readers.read_pairs(
                files[0], source=data.source_column, target=data.target_column, loading=loading
            )
        case "language":
            return readers.read_text(
                files[0], column=data.text_column, unit=data.unit, keep_empty=data.keep_empty,
                loading=loading,
            )  # fmt: skip
        case "classify":
            return readers.read_labelled(
                files[0], text=data.text_column, label=data.label_column, loading=loading
            )
        case "tag":
            return readers.read_tagged(
                files[0], words=data.words_column, tags=data.tags_column, loading=loading
            )
        case "regress":
            return readers.read_numbers(
                files[0],
                inputs=data.input_columns or None,
                targets=data.output_columns or None,
                loading=loading,
            )


def train_tokenizers(recipe: Recipe, train: Iterable[Record]) -> dict[str, Tokenizer]:
    """One tokenizer, or one for each language."""
    task, options = recipe.task.kind, recipe.tokenizer
    if task == "regress":
        return {}
    if options.folder is not None:
        return _tokenizers_in(Path(options.folder))
    size = options.vocab if options.kind in SIZED else None

    def learn(texts: Iterable[str]) -> Tokenizer:
        try:
            return Tokenizer.train(options.kind, texts, size)
        except ConfigError as error:
            raise ConfigError(str(error).replace("vocab_size", "tokenizer.vocab")) from None

    if task == "translate" and not options.joint:
        return {
            "source": learn(pair.source for pair in train),
            "target": learn(pair.target for pair in train),
        }
    return {"tokenizer": learn(text for record in train for text in texts_of(record))}


def _tokenizers_in(folder: Path) -> dict[str, Tokenizer]:
    """A folder with one tokenizer, or with a folder for each language."""
    sides = ("source", "target")
    if all((folder / side).is_dir() for side in sides):
        return {side: Tokenizer.load(folder / side) for side in sides}
    return {"tokenizer": Tokenizer.load(folder)}


def texts_of(record: Record) -> tuple[str, ...]:
    """The texts of a record, source before target."""
    match record:
        case Text() | Labelled():
            return (record.text,)
        case Tagged():
            return (" ".join(record.words),)
        case Pair():
            return (record.source, record.target)
        case _:
            return ()


def first_text(task: Task[Any, Any], records: Sequence[Record], items: Sequence[Any]) -> str:
    """The first example as a model is asked for it; of a text that is to go on, the beginning."""
    if isinstance(task, Language):
        texts = (text for record in records for text in texts_of(record))
        text = next((text for text in texts if text.strip()), "")
        if not text and items:  # from a store: only tokens
            text = task.tokenizer.decode(list(items[0].ids)[:BEGINNING])
        return " ".join(text.split()[:BEGINNING])
    if not records:
        return ""
    if isinstance(records[0], Numbers):
        return " ".join(f"{value:.6g}" for value in records[0].inputs)
    return texts_of(records[0])[0]


def labels_of(task: TaskName, train: Sequence[Record]) -> tuple[str, ...]:
    """All labels or tags of the training data, sorted; O first, as taggers have it."""
    match task:
        case "classify":
            return _several({record.label for record in train}, "label")
        case "tag":
            return _several({tag for record in train for tag in record.tags}, "tag")
        case _:
            return ()


def _several(found: set[str], what: str) -> tuple[str, ...]:
    if len(found) < 2:
        raise InputError(
            f"data.train: every {what} is {next(iter(found))!r}: nothing to tell apart; "
            f"give examples of at least two {what}s"
        )
    return tuple(sorted(found, key=_outside_first))


def _outside_first(tag: str) -> tuple[bool, str]:
    return tag != "O", tag


def make_task(
    name: TaskName,
    tokenizers: dict[str, Tokenizer],
    labels: Sequence[str],
    *,
    smoothing: float = 0.0,
    search: Search = Search(),  # noqa: B008 (frozen)
    letters: bool = False,
    spans: SpanDecoding = "legal",
    context: int = 0,
) -> Task[Any, Any]:
    """The task with its vocabulary."""
    match name:
        case "regress":
            return Regress()
        case "translate":
            source = tokenizers.get("source") or tokenizers["tokenizer"]
            target = tokenizers.get("target") or tokenizers["tokenizer"]
            return Translate(source, target, smoothing=smoothing, search=search)
        case "language":
            return Language(tokenizers["tokenizer"], smoothing=smoothing, context=context)
        case "classify":
            return Classify(tokenizers["tokenizer"], labels, smoothing=smoothing)
        case "tag":
            tokenizer = tokenizers["tokenizer"]
            return Tag(tokenizer, labels, smoothing=smoothing, letters=letters, spans=spans)


def check_known_labels(
    task: TaskName, records: Sequence[Record], labels: Sequence[str], file: str
) -> None:
    """Refuse held-out labels that training never saw."""
    match task:
        case "classify":
            check_labels(((r.line, r.label) for r in records), labels, file)
        case "tag":
            check_labels(((r.line, tag) for r in records for tag in r.tags), labels, file, "tag")


def task_of(held: Bundle) -> Task[Any, Any]:
    """The task of a model folder."""
    letters = getattr(held.network.config, "letters", 0) > 0
    return make_task(
        held.task, held.tokenizers, held.labels, letters=letters, search=Search(**held.decoding)
    )
