"""What a word of Toyland is, in both languages at once, and the random generator that chooses
words the same way on every machine.

Every lexeme pairs one English with one German word. `kinds` say what a thing is, so that people
read books and dogs chase cats; verbs and adjectives name the kinds they go with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

GENDERS = ("m", "f", "n")


@dataclass(frozen=True, slots=True)
class Noun:
    english: str
    english_plural: str  # empty for what cannot be counted
    german: str
    german_plural: str
    gender: str  # of the German word
    kinds: frozenset[str]
    oblique: str  # accusative and dative singular; differs in weak masculines only
    place: tuple[str, str]  # where one can be: English and German preposition
    toward: str  # going there: "zu" or "in"; empty where one does not say so
    pronoun: str  # what stands for it in English: he, she, it; empty where readers would differ

    @property
    def key(self) -> str:
        return self.english


@dataclass(frozen=True, slots=True)
class Adjective:
    english: str
    german: str
    stem: str  # before an ending: dunkel, dunkl-
    kinds: frozenset[str]
    polarity: int  # 1 praises, -1 blames, 0 only describes
    topic: str  # size, age, color: one remark on a topic is enough for a sentence


@dataclass(frozen=True, slots=True)
class Verb:
    english: str  # the base form
    particle: str  # get UP, look FOR
    third: str
    past: str  # empty where Toyland does not use the simple past
    participle: str
    prefix: str  # German separable prefix
    infinitive: str  # German, without that prefix
    german_first: str  # ich ...
    german_third: str
    german_past: str  # ich, er ...; "wir, sie" add -n or -en
    german_participle: str
    is_movement: bool  # perfect with sein
    frame: str  # none, acc, dat, give, prep, to, live, put, lie, that
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    preposition: tuple[str, str, str]  # English, German, case; for the frame "prep"
    stative: bool  # no perfect and no modal
    phrasal: bool  # the particle would have to move behind a pronoun
    place: bool  # may say where
    reasons: tuple[str, ...]  # adjectives that explain why somebody does this
    polarity: int


@dataclass(frozen=True, slots=True)
class Name:
    english: tuple[str, ...]
    german: tuple[str, ...]
    tag: str  # PER, LOC, ORG
    gender: str  # of a person
    kinds: frozenset[str]
    inside: str  # the country or continent a place lies in

    @property
    def key(self) -> str:
        return " ".join(self.english)


@dataclass(frozen=True, slots=True)
class Adverb:
    english: tuple[str, ...]
    german: tuple[str, ...]
    links: tuple[tuple[int, ...], ...]  # for each German word, its English words


def noun(
    english: str,
    german: str,
    gender: str,
    plural: str,
    kinds: str,
    *,
    oblique: str = "",
    place: str = "",
    toward: str = "zu",
    pronoun: str = "",
) -> Noun:
    """`english` is "mouse/mice" where the plural is irregular; an empty plural: uncountable."""
    singular, _, irregular = english.partition("/")
    kind_set = frozenset(kinds.split())
    if not pronoun:
        pronoun = {"m": "he", "f": "she", "n": ""}[gender] if "person" in kind_set else "it"
    before = place.split()
    return Noun(
        english=singular,
        english_plural=(irregular or add_s(singular)) if plural else "",
        german=german,
        german_plural=plural,
        gender=gender,
        kinds=kind_set,
        oblique=oblique or german,
        place=(before[0], before[1]) if before else ("", ""),
        toward=toward,
        pronoun=pronoun,
    )


def adjective(
    english: str, german: str, kinds: str, *, stem: str = "", polarity: int = 0, topic: str = ""
) -> Adjective:
    kind_set = frozenset(kinds.split())
    return Adjective(english, german, stem or german, kind_set, polarity, topic or english)


def verb(
    english: str,
    german: str,
    frame: str,
    subjects: str = "person",
    objects: str = "",
    *,
    preposition: str = "",
    past: str = "",
    german_first: str = "",
    sein: bool = False,
    stative: bool = False,
    phrasal: bool = False,
    place: bool = False,
    reasons: str = "",
    polarity: int = 0,
) -> Verb:
    """`english` is "base participle", `german` "prefix|infinitive third participle"."""
    base, _, participle = english.partition(" / ")
    head, _, particle = base.partition(" ")
    infinitive, third, german_participle = german.split()
    prefix, _, bare = infinitive.rpartition("|")
    english_past, _, german_past = past.partition(" ")
    before = preposition.split()
    return Verb(
        english=head,
        particle=particle,
        third="has" if head == "have" else add_s(head),
        past=english_past,
        participle=participle,
        prefix=prefix,
        infinitive=bare,
        german_first=german_first or first_person(bare),
        german_third=third,
        german_past=german_past,
        german_participle=german_participle,
        is_movement=sein,
        frame=frame,
        subjects=tuple(subjects.split()),
        objects=tuple(objects.split()),
        preposition=(before[0], before[1], before[2]) if before else ("", "", ""),
        stative=stative,
        phrasal=phrasal,
        place=place,
        reasons=tuple(reasons.split()),
        polarity=polarity,
    )


def name(text: str, tag: str, kinds: str, *, gender: str = "", inside: str = "") -> Name:
    """`text` is "Munich/München" where the languages differ."""
    english, _, german = text.partition("/")
    return Name(
        english=tuple(english.split()),
        german=tuple((german or english).split()),
        tag=tag,
        gender=gender,
        kinds=frozenset(kinds.split()),
        inside=inside,
    )


def adverb(english: str, german: str, links: str = "") -> Adverb:
    """`links`: for each German word the indexes of its English words, "01 2" for "am Morgen"."""
    english_words, german_words = tuple(english.split()), tuple(german.split())
    groups = links.split() or [str(i) for i in range(len(german_words))]
    return Adverb(english_words, german_words, tuple(tuple(map(int, group)) for group in groups))


def add_s(word: str) -> str:
    """The English plural of a noun, or the third person of a verb."""
    if word.endswith(("s", "x", "z", "ch", "sh", "o")) and word not in ("radio", "piano"):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def first_person(infinitive: str) -> str:
    """ich lese, ich bewundere, ich lächle."""
    if infinitive.endswith("eln"):
        return infinitive[:-3] + "le"
    if infinitive.endswith("ern"):
        return infinitive[:-1] + "e"
    return infinitive[:-2] + "e"


T = TypeVar("T")


class SeededRandom:
    def __init__(self, key: str) -> None:
        self._random = Random(key).random

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def flip(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """Weights need not sum to one."""
        left = self._random() * sum(weight for weight, _ in options)
        for weight, option in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][1]
