"""Text larger than memory: tokenize files into a store on disk, and read rows from it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from translucid.core.errors import ConfigError
from translucid.core.progress import Progress
from translucid.data.corpus.build_store import StorePlan, ensure_store
from translucid.data.corpus.sample import sample_texts
from translucid.data.records import Text
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.runs.recipe.automatic_sizes import Amount
from translucid.runs.recipe.examples import Examples, Prepared, prepare, read_records
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.registry import TASKS

Say = Callable[[str], None]
BYTES_PER_WORD = 6  # of text, about
MOST_HELD_OUT = 2000  # rows
PAUSE = 10.0  # seconds between progress lines


def check_storable(recipe: Recipe) -> None:
    """Raise an error if a token store is used for a task that does not train on running text."""
    if not TASKS[recipe.task.kind].traits.storable:
        able = [name for name in TASKS.names() if TASKS[name].traits.storable]
        named = " and ".join(able)
        raise ConfigError(f"data.store is only for task {named}, not {recipe.task.kind}")
    if not recipe.data.train:
        raise ConfigError("data.store needs data.train: set it to the text files to store")
    if recipe.data.text_column is not None or recipe.data.keep_empty:
        raise ConfigError("data.store requires plain text, without text_column and keep_empty")


def amount_of(recipe: Recipe) -> Amount:
    """The amount of data, estimated from the size of the files."""
    size = sum(Path(file).stat().st_size for file in recipe.data.paths(recipe.data.train))
    words = size // BYTES_PER_WORD
    return Amount(examples=0, words=words, words_known=words)


def read_corpus(
    recipe: Recipe, say: Say, made_before: dict[str, Tokenizer] | None
) -> tuple[Prepared, Examples, Sequence[Any], Sequence[Any] | None]:
    """Return four values: the vocabulary and task; the held-out texts that have files of their own;
    the training rows; and the rows that are held out from the training data, or None if there is a
    validation file."""
    data = recipe.data
    files = data.paths(data.train)
    held_out = (
        read_records(recipe.task.kind, data.paths(part), data, say) if part else []
        for part in (data.valid, data.test)
    )
    examples = Examples([], *held_out)
    sample = (Text(text, 0) for text in sample_texts(files, unit=data.unit, say=say))
    known = prepare(recipe, examples, learn_from=sample, made_before=made_before)
    (tokenizer,) = known.tokenizers.values()
    plan = StorePlan(files, tokenizer, str(data.store), unit=data.unit, progress=_watch(say))
    store = ensure_store(plan, say)
    for loading in store.loadings(files):
        for line in loading.lines():
            say(line)
    rows = known.task.rows_of(store, data.max_length)
    if examples.valid:
        return known, examples, rows, None
    held = min(max(len(rows) // 20, 1), MOST_HELD_OUT)
    say(f"data.valid was not given: the last {held:,} of {len(rows):,} rows are held out for it")
    return known, examples, rows[:-held], rows[-held:]


def _watch(say: Say) -> Callable[[int, int], None]:
    """A function that receives the progress of tokenizing. Every few seconds, it reports progress,
    speed and remaining time."""
    progress = Progress("tokenizing", live=False, every=PAUSE, say=say)

    def watch(done: int, total: int) -> None:
        progress.total = total
        rate = progress.rate(done) / 1e6
        progress.remark(
            f"tokenizing: {done / total:.0%}, {rate:.1f} MB/s,{progress.left(done)[1:]}"
        )

    return watch
