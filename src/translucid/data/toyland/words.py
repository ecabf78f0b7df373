"""The words of a sentence while it is built, and the finished sentence.

A German word refers to the English words that it translates, a verb to its subject, and a pronoun
to its antecedent. These are references to objects, because indices are known only when `finish`
counts the words.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Links = tuple[tuple[int, int], ...]


@dataclass(eq=False, slots=True)
class English:
    text: str
    tag: str = "O"
    subject: "English | None" = None
    antecedent: "English | None" = None


@dataclass(eq=False, slots=True)
class German:
    text: str
    links: tuple[English, ...] = ()


class PhrasePair(NamedTuple):
    """A part of a sentence in both languages. Each list of words is in the order of its
    language."""

    english: list[English]
    german: list[German]


@dataclass(frozen=True, slots=True)
class Sentence:
    """An English sentence, its German translation, and its annotations."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    alignment: Links  # (English index, German index)
    sentiment: str  # positive, negative, neutral
    entities: tuple[str, ...]  # a BIO tag for each English word
    subjects: Links  # (verb, head of its subject), English indexes
    antecedents: Links  # (pronoun, head of its antecedent), English indexes
    structure: str = field(default="", compare=False)  # the family (kind) of the sentence

    @property
    def length(self) -> int:
        """The number of English words, without punctuation."""
        return sum(word not in (",", ".") for word in self.english)

    @property
    def source(self) -> str:
        return join(self.english)

    @property
    def target(self) -> str:
        return join(self.german)

    @property
    def pharaoh(self) -> str:
        """The word alignment in Pharaoh format, English index first: "0-0 1-2"."""
        return " ".join(f"{english}-{german}" for english, german in self.alignment)


def join(words: Iterable[str]) -> str:
    """Join words to a text, without a space before a comma or a full stop."""
    return " ".join(words).replace(" ,", ",").replace(" .", ".")


def comma() -> PhrasePair:
    word = English(",")
    return PhrasePair([word], [German(",", (word,))])


def finish(parts: PhrasePair, sentiment: str, structure: str) -> Sentence:
    """Finish a sentence: add the full stop, capitalise the first word, and replace references by
    indices."""
    stop = English(".")
    english = [*_without_double_commas(parts.english), stop]
    german = _merge_commas([*parts.german, German(".", (stop,))])
    at = {id(word): index for index, word in enumerate(english)}
    alignment = {
        (at[id(link)], index)
        for index, word in enumerate(german)
        for link in word.links
        if id(link) in at
    }
    return Sentence(
        english=_capitalised([word.text for word in english]),
        german=_capitalised([word.text for word in german]),
        alignment=tuple(sorted(alignment)),
        sentiment=sentiment,
        entities=tuple(word.tag for word in english),
        subjects=tuple(
            (index, at[id(word.subject)])
            for index, word in enumerate(english)
            if word.subject is not None
        ),
        antecedents=tuple(
            (index, at[id(word.antecedent)])
            for index, word in enumerate(english)
            if word.antecedent is not None
        ),
        structure=structure,
    )


def _capitalised(words: list[str]) -> tuple[str, ...]:
    return (words[0][0].upper() + words[0][1:], *words[1:])


def _without_double_commas(words: list[English]) -> list[English]:
    kept: list[English] = []
    for word in words:
        if not (word.text == "," and kept and kept[-1].text == ","):
            kept.append(word)
    return kept


def _merge_commas(words: list[German]) -> list[German]:
    """Keep only one comma where two clauses end at the same word, and none before the full stop."""
    kept: list[German] = []
    for word in words:
        if kept and kept[-1].text == "," and word.text in (",", "."):
            last = kept.pop()
            links = (*last.links, *word.links) if word.text == "," else word.links
            word = German(word.text, links)
        kept.append(word)
    return kept
