"""The words of Toyland, read from `lexicon.txt`, and the random generator that chooses them.

Every lexeme pairs one English word with one German word. `kinds` are groups of nouns, so that
people read books and dogs chase cats; verbs and adjectives list the kinds they go with.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Noun:
    english: str
    english_plural: str  # empty for uncountable nouns
    german: str
    german_plural: str
    gender: str  # of the German word
    kinds: frozenset[str]
    oblique: str  # accusative and dative singular; differs in weak masculines only
    place: tuple[str, str]  # English and German preposition of location; empty: not a place
    toward: str  # German preposition of direction; empty if the noun is not used as a direction
    pronoun: str  # English: he, she, it; empty if readers would disagree

    @property
    def key(self) -> str:
        return self.english


@dataclass(frozen=True, slots=True)
class Adjective:
    english: str
    german: str
    stem: str  # the form before an ending, such as dunkl- of dunkel
    kinds: frozenset[str]
    polarity: int  # 1 praises, -1 blames, 0 only describes
    topic: str  # size, age, color: a sentence has at most one adjective on a topic


@dataclass(frozen=True, slots=True)
class Verb:
    english: str  # the base form
    particle: str  # such as "up" in "get up" or "for" in "look for"
    third: str
    past: str  # empty if Toyland does not use the simple past of this verb
    participle: str
    prefix: str  # German separable prefix
    infinitive: str  # German, without that prefix
    german_first: str  # first person singular (ich)
    german_third: str
    german_past: str  # simple past (ich, er); the plural (wir, sie) adds -n or -en
    german_participle: str
    is_movement: bool  # forms its perfect with sein
    frame: str  # none, acc, dat, give, prep, to, live, put, lie, that, be
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    preposition: tuple[str, ...]  # English, German, case; for the frame "prep"
    stative: bool  # used without perfect and without modal verbs
    phrasal: bool  # a pronoun would have to come before the particle
    place: bool  # may have a phrase of place
    reasons: tuple[str, ...]  # adjectives that explain why a person does this
    polarity: int


@dataclass(frozen=True, slots=True)
class Name:
    english: tuple[str, ...]
    german: tuple[str, ...]
    tag: str  # PER, LOC, ORG
    gender: str = ""  # of a person
    kinds: frozenset[str] = frozenset({"person"})
    inside: str = ""  # the country or continent of a place

    @property
    def key(self) -> str:
        return " ".join(self.english)


@dataclass(frozen=True, slots=True)
class Adverb:
    english: tuple[str, ...]
    german: tuple[str, ...]
    links: tuple[tuple[int, ...], ...]  # for each German word, its English words


Row = tuple[list[str], dict[str, str]]  # cells, options


def _read_sections() -> dict[str, list[Row]]:
    sections: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for line in (Path(__file__).parent / "lexicon.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            rows = sections[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            cells = ["" if cell == "-" else cell for cell in line.split(" | ")]
            options = dict(cell.partition("=")[::2] for cell in cells if "=" in cell)
            rows.append(([cell for cell in cells if "=" not in cell], options))
    return sections


def _noun(cells: list[str], options: dict[str, str]) -> Noun:
    english, german, gender, plural, kinds = cells
    singular, _, irregular = english.partition("/")
    kind_set = frozenset(kinds.split())
    english_place, _, german_place = options.get("place", "").partition(" ")
    return Noun(
        english=singular,
        english_plural=(irregular or add_s(singular)) if plural else "",
        german=german,
        german_plural=plural,
        gender=gender,
        kinds=kind_set,
        oblique=options.get("oblique", german),
        place=(english_place, german_place),
        toward=options.get("toward", "zu"),
        pronoun={"m": "he", "f": "she", "n": ""}[gender] if "person" in kind_set else "it",
    )


def _adjective(cells: list[str], options: dict[str, str]) -> Adjective:
    english, german, kinds = cells
    return Adjective(
        english=english,
        german=german,
        stem=options.get("stem", german),
        kinds=frozenset(kinds.split()),
        polarity=int(options.get("polarity", 0)),
        topic=options.get("topic", english),
    )


def _verb(cells: list[str], options: dict[str, str]) -> Verb:
    base, _, participle = cells[0].partition("/")
    head, _, particle = base.partition(" ")
    infinitive, third, german_participle = cells[1].split()
    prefix, _, bare = infinitive.rpartition("|")
    english_past, _, german_past = options.get("past", "").partition(" ")
    return Verb(
        english=head,
        particle=particle,
        third="has" if head == "have" else add_s(head),
        past=english_past,
        participle=participle,
        prefix=prefix,
        infinitive=bare,
        german_first=options.get("german_first") or _first_person(bare),
        german_third=third,
        german_past=german_past,
        german_participle=german_participle,
        is_movement="sein" in options,
        frame=cells[2],
        subjects=tuple(cells[3].split()),
        objects=tuple(options.get("objects", "").split()),
        preposition=tuple(options.get("preposition", "").split()),
        stative="stative" in options,
        phrasal="phrasal" in options,
        place="place" in options,
        reasons=tuple(options.get("reasons", "").split()),
        polarity=int(options.get("polarity", 0)),
    )


def _name(cells: list[str], options: dict[str, str]) -> Name:
    text, tag, kind = cells
    english, _, german = text.partition("/")
    return Name(
        english=tuple(english.split()),
        german=tuple((german or english).split()),
        tag=tag,
        gender=options.get("gender", ""),
        kinds=frozenset({kind}),
        inside=options.get("inside", ""),
    )


def _adverb(cells: list[str], options: dict[str, str]) -> Adverb:
    english, german = (tuple(cell.split()) for cell in cells)
    groups = options.get("links", "").split() or [str(i) for i in range(len(german))]
    return Adverb(english, german, tuple(tuple(map(int, group)) for group in groups))


def add_s(word: str) -> str:
    """The plural of an English noun, or the third person singular of an English verb."""
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def _first_person(infinitive: str) -> str:
    """The first person singular of a German verb: ich lese, ich bewundere, ich lächle."""
    if infinitive.endswith("eln"):
        return infinitive[:-3] + "le"
    if infinitive.endswith("ern"):
        return infinitive[:-1] + "e"
    return infinitive[:-2] + "e"


_SECTIONS = _read_sections()


def _all(make: Callable[[list[str], dict[str, str]], T], section: str) -> tuple[T, ...]:
    return tuple(make(*row) for row in _SECTIONS[section])


NOUNS = {noun.english: noun for noun in _all(_noun, "nouns")}
ADJECTIVES = {one.english: one for one in _all(_adjective, "adjectives")}
ADVERBS = {" ".join(one.english): one for one in _all(_adverb, "adverbs")}
NAMES, AMBIGUOUS = _all(_name, "names"), _all(_name, "ambiguous names")
LAST_NAMES = tuple(cells[0] for cells, _ in _SECTIONS["last names"])

ALONE, MOVING, DOING = _all(_verb, "alone"), _all(_verb, "moving"), _all(_verb, "doing")
SPLITTING, HELPING = _all(_verb, "splitting"), _all(_verb, "helping")
GIVING, TELLING = _all(_verb, "giving"), _all(_verb, "telling")
OPINIONS = _all(_verb, "opinions")
(BE,) = _all(_verb, "be")
VERBS = (*ALONE, *MOVING, *DOING, *SPLITTING, *HELPING, *GIVING, *TELLING, *OPINIONS, BE)
# Separable verbs are drawn twice as often, since they have two forms to learn: ruft ... an, anruft.
ACTIONS = (*ALONE, *MOVING, *DOING, *SPLITTING, *SPLITTING, *HELPING, *GIVING)
HAVE = next(verb for verb in DOING if verb.english == "have")


class SeededRandom:
    """A random generator. With the same key, it makes the same choices on every machine."""

    def __init__(self, key: str) -> None:
        self._random = Random(key).random

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def flip(self, probability: float) -> bool:
        """Return True with this probability, otherwise False."""
        return self._random() < probability

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """Choose an option with a probability in proportion to its weight. Weights need not sum to
        1."""
        left = self._random() * sum(weight for weight, _ in options)
        for weight, option in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][1]
