"""The vocabulary of a model that is trained on: kept, extended or replaced, and where the row of
each token begins."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.runs.fine_tuning.source import Source

BROKEN = "\ufffd"  # a token that is part of a character has no text by itself


@dataclass(frozen=True)
class Rows:
    """Where each row of a table begins: as the mean of these rows of the source's; of none, as the
    seed gives it."""

    begin: Sequence[Sequence[int]]
    equal: int  # tokens with the same text in both
    split: int  # that begin as the mean of the tokens they were split into

    @property
    def same(self) -> bool:
        """Whether every row of the source stays where it is."""
        return all(list(places) == [place] for place, places in enumerate(self.begin))

    def of(self, table: Tensor, fresh: Tensor) -> Tensor:
        """A table like `fresh` (rows, ...) from the source's."""
        rows = fresh.clone()
        alone = {place: places[0] for place, places in enumerate(self.begin) if len(places) == 1}
        rows[list(alone)] = table[list(alone.values())]
        for place, places in enumerate(self.begin):
            if len(places) > 1:
                rows[place] = table[torch.tensor(places)].mean(dim=0)
        return rows


def tokenizers_for(source: Source, shape: str) -> dict[str, Tokenizer]:
    """The source's tokenizers under the names that a task asks for."""
    held = source.bundle.tokenizers
    if shape == "encoder-decoder" or "tokenizer" in held:
        return dict(held)
    return {"tokenizer": held["source"]}  # of a translator, the side that its encoder reads


def check_kept(folder: str | None) -> None:
    """A tokenizer made before is not the one that is kept."""
    if folder is not None:
        raise ConfigError(
            f"tokenizer.folder = {folder!r}: the vocabulary of the model that training starts "
            'from is kept; leave the key out, or set tokenizer.vocabulary = "replace"'
        )


def kept_rows(rows: int, new: Sequence[Sequence[int]] = (), tokens: int = 0) -> Rows:
    """All of them, as they are; behind `tokens` of them, those of new tokens."""
    begin: list[Sequence[int]] = [[row] for row in range(max(rows, tokens + len(new)))]
    begin[tokens : tokens + len(new)] = new
    return Rows(begin, rows, len(new))


def replaced_rows(new: Tokenizer, old: Tokenizer) -> Rows:
    """Equal text, or what stands for it in the old vocabulary; special tokens by their role."""
    known = {text: i for i, text in reversed(list(enumerate(texts_of(old))))}
    roles = _roles(new, old)
    begin: list[list[int]] = []
    equal = split = 0
    for i, text in enumerate(texts_of(new)):
        if i in new.special_ids or i == new.unk_id:
            begin.append([roles[i]] if i in roles else [])
            equal += i in roles
        elif text in known:
            begin.append([known[text]])
            equal += 1
        else:
            begin.append([] if BROKEN in text else _pieces(old, text))
            split += bool(begin[-1])
    return Rows(begin, equal, split)


def texts_of(tokenizer: Tokenizer) -> list[str]:
    """Each token as it stands in a text, the space before it included."""
    space = " " if tokenizer.unit == "word" else ""
    texts = []
    for i, piece in enumerate(tokenizer.pieces(range(len(tokenizer)))):
        special = i in tokenizer.special_ids or i == tokenizer.unk_id
        texts.append(piece if special else space + piece)
    return texts


def _pieces(old: Tokenizer, text: str) -> list[int]:
    try:
        return [i for i in old.encode(text) if i != old.unk_id]
    except InputError:  # longer than the old tokenizer reads at once
        return []


def _roles(new: Tokenizer, old: Tokenizer) -> dict[int, int]:
    """Special tokens of the new vocabulary, with those of the old one that have their role."""
    pairs: dict[int, int] = {}
    for role in ("pad", "bos", "eos", "unk", "mask"):
        ours, theirs = getattr(new.special, role), getattr(old.special, role)
        if ours is not None and theirs is not None:
            pairs.setdefault(ours, theirs)
    return pairs
