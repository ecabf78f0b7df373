"""The vocabulary of a task: tokenizers, trained or loaded, and labels."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torch import nn

from translucid.core.errors import ConfigError, InputError
from translucid.data.readers.loading import check_labels as refuse_unknown_labels
from translucid.data.records import Record
from translucid.data.tokenizers.pipelines import SIZED
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.parts.dropout import WordDropout
from translucid.tasks.options import TokenizerConfig


def learn(texts: Iterable[str], options: TokenizerConfig) -> Tokenizer:
    """Train a tokenizer with the options of a recipe."""
    size = options.vocab_size if options.kind in SIZED else None
    try:
        return Tokenizer.train(options.kind, texts, size)
    except ConfigError as error:
        raise ConfigError(str(error).replace("vocab_size", "tokenizer.vocab_size")) from None


def tokenizers_in(folder: Path) -> dict[str, Tokenizer]:
    """Load one tokenizer, or those in the folders source and target."""
    sides = ("source", "target")
    if all((folder / side).is_dir() for side in sides):
        return {side: Tokenizer.load(folder / side) for side in sides}
    return {"tokenizer": Tokenizer.load(folder)}


def set_word_dropout(network: nn.Module, tokenizers: Mapping[str, Tokenizer]) -> None:
    """Set the token that word dropout inserts: the unknown token of the source tokenizer."""
    parts = [part for part in network.modules() if isinstance(part, WordDropout)]
    if not parts or not tokenizers:
        return
    tokenizer = next(iter(tokenizers.values()))
    if tokenizer.unk_id < 0:
        raise ConfigError(
            f"model.word_dropout = {parts[0].probability}, but the tokenizer can spell every word "
            "and has no unknown token; set it to 0, or use another tokenizer"
        )
    for part in parts:
        part.set_ids(tokenizer.unk_id, tokenizer.special_ids)


def unknown_pieces(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[str]:
    """The parts of a text that became <unk>. ids: the tokens of the text."""
    if tokenizer.unk_id not in ids:
        return []
    places = zip(ids, tokenizer.offsets(text), strict=True)
    return [text[first:last].strip() for i, (first, last) in places if i == tokenizer.unk_id]


def labels_in(records: Iterable[Record], noun: str | None) -> tuple[str, ...]:
    """All labels of the training data, O first, then sorted. noun: the task's word for a label."""
    if noun is None:
        return ()
    labels = {label for record in records for label in record.labels}
    if len(labels) < 2:
        raise InputError(
            f"data.train: every {noun} is {next(iter(labels))!r}: there is nothing to learn; add "
            f"examples of at least two {noun}s"
        )
    return tuple(sorted(labels, key=lambda label: (label != "O", label)))


def weights_of(
    wanted: str | Mapping[str, float] | None, labels: Sequence[str], train: Iterable[str]
) -> tuple[float, ...]:
    """The weight of each label in the loss, in the order of `labels`. wanted: the key
    task.class_weights. If it is "balanced", each weight is inversely proportional to the label's
    frequency, and the mean weight over the training data is 1."""
    if wanted is None:
        return ()
    if isinstance(wanted, str):
        counts = Counter(train)
        return tuple(counts.total() / (len(labels) * max(counts[label], 1)) for label in labels)
    for label in wanted:
        if label not in labels:
            raise ConfigError(
                f"task.class_weights: there is no label {label!r}; the labels are "
                f"{', '.join(labels)}"
            )
    return tuple(wanted.get(label, 1.0) for label in labels)


def check_labels(
    records: Iterable[Record], labels: Sequence[str], file: str, noun: str | None
) -> None:
    """Raise an error for held-out labels that do not occur in the training data."""
    if noun is not None:
        seen = ((record.line, label) for record in records for label in record.labels)
        refuse_unknown_labels(seen, labels, file, noun)
