"""Tokenizers for a task: learnt from its texts, or made before."""

from collections.abc import Iterable
from pathlib import Path

from translucid.data.tokenizers.pipelines import SIZED
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.errors import ConfigError
from translucid.tasks.options import TokenizerConfig


def learn(texts: Iterable[str], options: TokenizerConfig) -> Tokenizer:
    """A tokenizer as a recipe wants it."""
    size = options.vocab_size if options.kind in SIZED else None
    try:
        return Tokenizer.train(options.kind, texts, size)
    except ConfigError as error:
        raise ConfigError(str(error).replace("vocab_size", "tokenizer.vocab_size")) from None


def tokenizers_in(folder: Path) -> dict[str, Tokenizer]:
    """A folder with one tokenizer, or with a folder for each language."""
    sides = ("source", "target")
    if all((folder / side).is_dir() for side in sides):
        return {side: Tokenizer.load(folder / side) for side in sides}
    return {"tokenizer": Tokenizer.load(folder)}
