"""Sentences of Toyland, with the links that it knows: verb and subject, pronoun and noun."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from translucid.data.toyland import Sentence
from translucid.tasks.batch import IGNORE

WITHOUT_NUMBER = {"am": "be", "is": "be", "are": "be", "was": "were", "has": "have", "does": "do",
                  "goes": "go"}  # fmt: skip


@dataclass(frozen=True)
class Texts:
    """Sentences as numbers: (sentences, longest); 0 is padding, 1 a word of no other number."""

    sentences: Sequence[Sentence]
    english: Tensor
    german: Tensor  # NOTHING where no word stands for it

    @property
    def mask(self) -> Tensor:
        return self.english != 0

    def links(self, relation: str) -> Tensor:
        """(links, 3): sentence, word, and the word it belongs to. A subject right before its verb
        needs no search, so it is left out."""
        pairs_ = []
        for row, value in enumerate(self.sentences):
            pairs = value.subjects if relation == "subject" else value.antecedents
            least = 2 if relation == "subject" else 1
            pairs_ += [(row, word, head) for word, head in pairs if abs(word - head) >= least]
        return torch.tensor(pairs_)


class Lexicon:
    """Numbers for the words of both languages, from the sentences of training."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.english = _numbered(word for sentence in sentences for word in as_read(sentence))
        self.german = _numbered(word for sentence in sentences for word in sentence.german)

    def texts(self, sentences: Sequence[Sentence]) -> Texts:
        shape = len(sentences), max(len(sentence.english) for sentence in sentences)
        english = torch.zeros(shape, dtype=torch.long)
        german = torch.full(shape, IGNORE)
        for row, value in enumerate(sentences):
            for place, word in enumerate(as_read(value)):
                english[row, place] = self.english.get(word, 1)
            for place, at in reversed(value.alignment):  # the first German word of several counts
                german[row, place] = self.german.get(value.german[at].lower(), 1)
        return Texts(sentences, english, german)


def as_read(sentence: Sentence) -> list[str]:
    """Its words in lower case, and verbs without what tells one from many."""
    words = [word.lower() for word in sentence.english]
    for verb, _ in sentence.subjects:
        words[verb] = WITHOUT_NUMBER.get(words[verb], words[verb].removesuffix("s"))
    return words


def _numbered(words: Any) -> dict[str, int]:
    return {word: number + 2 for number, word in enumerate(sorted({w.lower() for w in words}))}
