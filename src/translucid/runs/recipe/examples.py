"""Load the examples of a recipe, and prepare tokenizers, labels and sizes from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from translucid.core.errors import ConfigError, InputError
from translucid.data.readers.loading import Columns, Loading
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.runs.recipe import split
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.base import Task
from translucid.tasks.contract import check_record
from translucid.tasks.options import DataConfig, Resources
from translucid.tasks.registry import TASKS
from translucid.tasks.vocabulary import check_labels, labels_in, weights_of

Record = Any  # of the task's class
Part = Literal["test", "valid"]  # of the data
NO_DATA = (
    "data.train is required, or data.toyland = 20000 for generated examples; on the command "
    "line --train FILE ..., or --toyland 20000"
)


@dataclass(frozen=True)
class Examples:
    """The three parts of the data; test may be empty."""

    train: list[Record]
    valid: list[Record]
    test: list[Record]
    columns: dict[str, Columns] = field(default_factory=dict, kw_only=True)  # of train, by role
    # Rows of valid and test that could not be read: count by reason.
    unread: dict[Part, dict[str, int]] = field(default_factory=dict, kw_only=True)


def load_examples(
    recipe: Recipe, say: Callable[[str], None], columns: Mapping[str, Columns] | None = None
) -> Examples:
    """Read the files of a recipe, or generate examples. columns: for a resumed run, the columns
    that the training data had when the run started."""
    data, task = recipe.data, TASKS[recipe.task.kind]
    if data.toyland is not None:
        for part in ("train", "valid", "test"):
            if getattr(data, part):
                raise ConfigError(f"data.toyland and data.{part} were both given; omit one")
        if data.fold is not None:
            raise ConfigError("data.toyland and data.fold were both given; omit one")
        held_out = _held_out(data.toyland)
        parts = [
            list(task.toyland(part, count))
            for part, count in (("train", data.toyland), ("valid", held_out), ("test", held_out))
        ]
        say(
            f"toyland: {data.toyland:,} training sentences, {held_out:,} for each of valid and test"
        )
        return Examples(*parts)
    if not data.train:
        raise ConfigError(NO_DATA)
    if data.valid and data.fold is not None:
        raise ConfigError("data.valid and data.fold were both given; omit one")
    loading = Loading(expected=columns or {})
    train = read_records(recipe.task.kind, data.paths(data.train), data, say, loading)
    loadings: dict[Part, Loading] = {  # with the columns of train
        "valid": Loading(expected=loading.columns), "test": Loading(expected=loading.columns)
    }  # fmt: skip
    valid, test = (
        read_records(recipe.task.kind, data.paths(files), data, say, loadings[part])
        if files
        else []
        for part, files in zip(loadings, (data.valid, data.test), strict=True)
    )
    for held_out_records, files in ((valid, data.valid), (test, data.test)):
        if files:
            task.check_held_out(train, held_out_records, data.paths(files)[0])
    if not valid:
        train, valid = _hold_out(recipe, train, say)
    unread = {part: loading.lost for part, loading in loadings.items()}
    return Examples(train, valid, test, columns=loading.columns, unread=unread)


def load_held_out(
    recipe: Recipe,
    part: Part,
    say: Callable[[str], None],
    needed: int | None = None,
    loading: Loading | None = None,
) -> list[Record]:
    """Load only the test or validation examples of a recipe; may be empty. needed: generate at most
    this many. loading: has the columns of the training data, and collects notes."""
    data, task = recipe.data, TASKS[recipe.task.kind]
    if data.toyland is not None:
        held_out = _held_out(data.toyland)
        return list(task.toyland(part, held_out if needed is None else min(needed, held_out)))
    if files := data.test if part == "test" else data.valid:
        return read_records(recipe.task.kind, data.paths(files), data, say, loading)
    if part == "test" or data.store:  # a store contains tokens, not texts
        return []
    alone = recipe.model_copy(update={"data": data.model_copy(update={"test": ()})})
    return load_examples(alone, say, loading.expected if loading else None).valid


def _held_out(toyland: int) -> int:
    """The number of generated examples for each of valid and test."""
    return min(max(toyland // 20, 50), 500)


def _hold_out(
    recipe: Recipe, records: list[Record], say: Callable[[str], None]
) -> tuple[list[Record], list[Record]]:
    """Split the records into training and validation."""
    data, files = recipe.data, " + ".join(recipe.data.paths(recipe.data.train))
    if len(records) == 1:
        raise InputError(
            f"{files}: 1 record is too few for training and validation; give more, or a second "
            "file with --valid"
        )
    seed = recipe.training.seed if data.split_seed is None else data.split_seed
    if data.fold is not None:
        number, count = map(int, data.fold.split("/"))
        if count > len(records):
            raise ConfigError(
                f"data.fold = {data.fold!r}: {files} has {len(records):,} examples, too few for "
                f"{count:,} folds; use at most one fold per example"
            )
        train, valid = split.fold(records, number, count, seed)
        message = f"fold {number} of {count}: {len(valid):,} of {len(records):,} examples held out"
    elif data.split == "every-nth":
        train, valid = split.every_nth(records)
        message = f"{len(valid):,} of the training examples held out for it"
        if copies := len(records) - len(train) - len(valid):
            message += f", {copies:,} duplicates dropped"
        message = f"data.valid was not given: {message}"
    else:
        train, valid = split.stratified(records, seed)
        message = (
            f"data.valid was not given: {len(valid):,} of the training examples held out for it"
        )
    if not valid:
        raise InputError(
            f"{files}: no example can be held out for validation, because training would lose its "
            "label; give at least two different examples of a label, or a second file with --valid"
        )
    say(f"{message}{split.explained(records, seed) if data.split == 'stratified' else ''}")
    return train, valid


def read_records(
    task: str,
    files: Sequence[str],
    data: DataConfig,
    say: Callable[[str], None],
    loading: Loading | None = None,
) -> list[Record]:
    """Read the records of a task from one file, or from several parallel ones."""
    most = TASKS[task].traits.max_files
    if not 0 < len(files) <= most:
        names = ", ".join(files)
        raise ConfigError(f"task {task} reads {most} file{'s'[: most - 1]}, but got {names}")
    loading = Loading() if loading is None else loading
    records = list(TASKS[task].read(files, data, loading))
    for line in loading.lines():
        say(line)
    if not records:
        raise InputError(f"{' + '.join(files)}: no usable record; see the messages above")
    check_record(TASKS[task], records[0])
    return records


@dataclass(frozen=True)
class Prepared:
    tokenizers: dict[str, Tokenizer]
    labels: tuple[str, ...]
    task: Task[Any, Any]
    sizes: dict[str, Any]  # of the model: vocabulary, labels, columns
    statistics: dict[str, Any]  # measured by the task


def prepare(
    recipe: Recipe,
    examples: Examples,
    learn_from: Iterable[Record] | None = None,
    made_before: dict[str, Tokenizer] | None = None,
    statistics: dict[str, Any] | None = None,
) -> Prepared:
    """Prepare tokenizers, labels and sizes before the model is built. Tokenizers are those of
    `made_before`, if any; otherwise they are trained on `learn_from` or the training examples.
    statistics: those of the model that training starts from; default: measured in the training
    examples."""
    data, task = recipe.data, TASKS[recipe.task.kind]
    tokenizers = made_before
    if tokenizers is None:
        tokenizers = task.learn_tokenizers(learn_from or examples.train, recipe.tokenizer)
    others = ((examples.valid, data.valid), (examples.test, data.test))
    ours = [record for part, files in others if not files for record in part]
    labels = labels_in([*examples.train, *ours], task.label_noun)  # not those of separate files
    for part, files in others:
        if files:
            check_labels(part, labels, data.paths(files)[0], task.label_noun)
    resources = Resources(
        tokenizers,
        labels,
        smoothing=recipe.task.label_smoothing,
        class_weights=weights_of(
            recipe.task.class_weights,
            labels,
            (label for record in examples.train for label in record.labels),
        ),
        temperature=recipe.task.temperature,
        characters=recipe.reads_characters,
        decoding=recipe.decoding,
        statistics=task.measure(examples.train, data)
        if statistics is None
        else task.restore_statistics(statistics, len(examples.train[0].values), examples.columns),
        max_length=None if data.long == "skip" else data.max_length,
    )
    sizes = task.network_sizes(resources, examples.train)
    return Prepared(tokenizers, labels, task.make(resources), sizes, dict(resources.statistics))
