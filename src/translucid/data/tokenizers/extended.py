"""Extend the vocabulary of a tokenizer: existing tokens keep their ids, and new tokens get the
following ids.

A word that is frequent in the texts but is split into many tokens becomes one token. In BPE
tokenizers, new merges come after all others, so texts without these words are split as before.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.tokenizers.files import rebuilt
from translucid.data.tokenizers.imported import Imported, merges_of, vocabulary
from translucid.data.tokenizers.tokenizer import Tokenizer

LEAST, PIECES, MOST = (
    5,
    3,
    2000,
)  # minimum number of occurrences and of tokens of a new word; maximum number of new words
_WORD = re.compile(r"[^\W\d_]+")


@dataclass
class Extension:
    """An extended tokenizer. For each new token, it also lists the tokens that encoded the same
    text before the extension."""

    tokenizer: Tokenizer
    parts: list[list[int]] = field(default_factory=list)


def extended(tokenizer: Tokenizer, texts: Iterable[str]) -> Extension:
    """Add words of these texts to the vocabulary: those that are frequent and are split into many
    tokens or contain unknown ones."""
    data = json.loads(tokenizer.spec)
    model, imported = data["model"], tokenizer.source
    if imported is not None:
        _check(imported, data)
    elif tokenizer.kind == "bytes":
        return Extension(tokenizer)  # its vocabulary is complete
    add = _Adding(tokenizer, model)
    if model["type"] == "WordLevel" and imported is None:
        add.whole_words(texts)
    else:
        for word, ids in _cut_words(tokenizer, texts):
            add.word(word, ids)
    if imported is not None:
        spec = replace(imported, spec=json.dumps(data, ensure_ascii=False))
        return Extension(Tokenizer.imported(spec), add.parts)
    backend = rebuilt(tokenizer.own_kind, data, Path("the extended tokenizer"))
    return Extension(Tokenizer(tokenizer.kind, backend, tokenizer.max_bytes), add.parts)


def _cut_words(tokenizer: Tokenizer, texts: Iterable[str]) -> list[tuple[str, list[int]]]:
    """Frequent words that are split into many tokens or contain an unknown token, most frequent
    first. With each word, the tokens that encode it after a space."""
    counts = Counter(word for text in texts for word in _WORD.findall(text))
    before = tokenizer.encode("a")
    words: list[tuple[str, list[int]]] = []
    for word, count in counts.most_common():
        if count < LEAST or len(words) == MOST:
            break
        ids = tokenizer.encode(f"a {word}")
        own = ids[len(before) :]
        if ids[: len(before)] == before and (len(own) >= PIECES or tokenizer.unk_id in own):
            words.append((word, own))
    return words


class _Adding:
    """Adds new tokens to the vocabulary of a tokenizer's model."""

    def __init__(self, tokenizer: Tokenizer, model: dict[str, Any]) -> None:
        self.tokenizer, self.model = tokenizer, model
        self.names, self.parts = list(tokenizer.vocab), list[list[int]]()
        self.known = {piece for _, piece in vocabulary(model)}
        if model["type"] == "Unigram":  # ids are list indexes
            scores = model["vocab"]
            scores += [[name, 0.0] for name in self.names[len(scores) :]]

    def whole_words(self, texts: Iterable[str]) -> None:
        """Add all unknown words that occur more than once."""
        kind = self.tokenizer.own_kind
        learnt = Tokenizer.train(kind, texts, min_frequency=1 if kind == "char" else 2)
        for piece in learnt.vocab:
            self._append(piece, [self.tokenizer.unk_id])

    def word(self, word: str, ids: Sequence[int]) -> None:
        names = [self.names[i] for i in ids]
        unknown = self.tokenizer.unk_id in ids
        match self.model["type"]:
            case "BPE" if not unknown:
                self._merge(names, ids)
            case "WordPiece" | "WordLevel":
                prefix = self.model.get("continuing_subword_prefix") or "##"
                joined = names[0] + "".join(name.removeprefix(prefix) for name in names[1:])
                self._append(self.tokenizer.normalised(word) if unknown else joined, ids)
            case "Unigram" if not unknown:
                total = sum(self.model["vocab"][i][1] for i in ids)
                self._append("".join(names), ids, score=total / 2)  # more probable than its pieces

    def _merge(self, names: Sequence[str], ids: Sequence[int]) -> None:
        """Add the BPE merges that build a word from left to right, and the tokens that they
        produce."""
        whole = names[0]
        for count, name in enumerate(names[1:], start=2):
            self.model["merges"].append([whole, name])
            whole += name
            self._append(whole, ids[:count])

    def _append(self, piece: str, ids: Sequence[int], score: float = 0.0) -> None:
        if piece in self.known:
            return
        self.known.add(piece)
        place = len(self.names) + len(self.parts)
        if self.model["type"] == "Unigram":
            self.model["vocab"].append([piece, score])
        else:
            self.model["vocab"][piece] = place
        self.parts.append(list(ids))


def _check(imported: Imported, data: dict[str, Any]) -> None:
    """Raise an error for a tokenizer that new ids would break."""
    model = data["model"]
    inside = {i for i, _ in vocabulary(model)}
    added = [t for t in data.get("added_tokens") or [] if t["id"] not in inside]
    plain = [t["content"] for t in added if not t.get("special")]
    suffixed = model.get("end_of_word_suffix") or (
        model["type"] == "BPE" and model.get("continuing_subword_prefix")
    )
    if imported.tokens is not None or plain or suffixed:
        why = f"of its added tokens ({plain[0]!r})" if plain else "of the form of its vocabulary"
        raise InputError(
            f'tokenizer.vocabulary = "extend": this tokenizer cannot be extended because {why}; '
            'use "keep" or "replace"'
        )
    if model["type"] == "BPE":
        model["merges"] = merges_of(model)
