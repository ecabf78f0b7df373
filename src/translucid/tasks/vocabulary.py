"""Tokenizers for a task: learnt from its texts, or made before."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torch import nn

from translucid.core.errors import ConfigError
from translucid.data.tokenizers.pipelines import SIZED
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.parts.characters import WordDropout
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


def set_word_dropout(network: nn.Module, tokenizers: Mapping[str, Tokenizer]) -> None:
    """Words that are dropped become the unknown token of the tokenizer that the network reads."""
    parts = [part for part in network.modules() if isinstance(part, WordDropout)]
    if not parts or not tokenizers:
        return
    tokenizer = next(iter(tokenizers.values()))
    if tokenizer.unk_id < 0:
        raise ConfigError(
            f"model.word_dropout = {parts[0].probability}, but the tokenizer can spell every word "
            "and has no unknown token; set it to 0, or take another tokenizer"
        )
    for part in parts:
        part.set_ids(tokenizer.unk_id, tokenizer.special_ids)


def unknown_pieces(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[str]:
    """What stands in the text where it was read as <unk>; ids: those of the text."""
    if tokenizer.unk_id not in ids:
        return []
    places = zip(ids, tokenizer.offsets(text), strict=True)
    return [text[first:last].strip() for i, (first, last) in places if i == tokenizer.unk_id]
