"""Choose what a sentence is about: people, things, places and times, with matching articles and
adjectives.

A `Cast` belongs to one sentence. It remembers every phrase that it created, so that a pronoun is
used only if it can refer to just one phrase.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

from translucid.data.toyland import lexicon, particles, phrases
from translucid.data.toyland.lexicon import Adjective, Name, Noun, SeededRandom, Verb
from translucid.data.toyland.particles import Determiner
from translucid.data.toyland.phrases import Phrase
from translucid.data.toyland.words import PhrasePair

SINGULAR = ((50, particles.THE), (34, particles.A), (12, particles.THIS))
PLURAL = (
    (50, particles.THE),
    (15, particles.THESE),
    (12, particles.MANY),
    (10, particles.SOME),
)
UNCOUNTED = ((50, particles.THE), (35, particles.BARE), (15, particles.THIS))
SETTLED_SINGULAR = ((80, particles.THE), (20, particles.THIS))
SETTLED_PLURAL = ((80, particles.THE), (20, particles.THESE))
SURNAMES = {
    title: tuple(
        Name((last,), (last,), "PER", lexicon.NOUNS[title].gender) for last in lexicon.LAST_NAMES
    )
    for title in ("Mr", "Mrs")
}
Lexeme = TypeVar("Lexeme", Noun, Name)
T = TypeVar("T")


@cache
def nouns_of(kind: str) -> tuple[Noun, ...]:
    return tuple(noun for noun in lexicon.NOUNS.values() if kind in noun.kinds)


@cache
def names_of(kind: str, ambiguous: bool) -> tuple[Name, ...]:
    every = lexicon.AMBIGUOUS if ambiguous else lexicon.NAMES
    return tuple(name for name in every if kind in name.kinds)


@cache
def describing(kinds: frozenset[str], predicate: bool = False) -> tuple[Adjective, ...]:
    """Neutral adjectives for nouns of these kinds. predicate: leave out adjectives that express an
    opinion when they are used as a predicate ("is fresh")."""
    without = ("fresh", "warm", "cold", "broken") if predicate else ()
    if "minor" in kinds:
        without = (*without, "old", "rich", "young")
    return tuple(one for one in judging(kinds, 0) if one.english not in without)


@cache
def judging(kinds: frozenset[str], polarity: int) -> tuple[Adjective, ...]:
    adjectives = lexicon.ADJECTIVES.values()
    return tuple(one for one in adjectives if one.kinds & kinds and one.polarity == polarity)


class Cast:
    def __init__(self, rng: SeededRandom) -> None:
        self.rng = rng
        self.mentioned: list[Phrase] = []
        self.used: set[str] = set()  # nouns, names, verbs, topics

    def remember(self, phrase: Phrase) -> Phrase:
        self.mentioned.append(phrase)
        return phrase

    def fresh(self, options: Sequence[Lexeme]) -> Lexeme:
        """Draw a noun or name that the sentence does not contain yet. After five draws, the last
        one is used even if the sentence contains it."""
        return self._unused(options, lambda one: one.key)

    def action(self, options: Sequence[Verb]) -> Verb:
        """Draw a verb that the sentence does not contain yet. After five draws, the last one is
        used even if the sentence contains it."""
        return self._unused(options, lambda one: one.english)

    def _unused(self, options: Sequence[T], key: Callable[[T], str]) -> T:
        drawn = self.rng.pick(options)
        for _ in range(4):
            if key(drawn) not in self.used:
                break
            drawn = self.rng.pick(options)
        self.used.add(key(drawn))
        return drawn

    def remark(self, fitting: Sequence[Adjective], probability: float = 1.0) -> Adjective | None:
        """Draw an adjective with this probability. None if none is drawn, or if the sentence
        already has an adjective on its topic (so that no big room is small)."""
        if not fitting or not self.rng.flip(probability):
            return None
        drawn = self.rng.pick(fitting)
        if drawn.topic in self.used:
            return None
        self.used.add(drawn.topic)
        return drawn

    def can_be_meant(self, phrase: Phrase) -> bool:
        """Whether a pronoun (he, she, it, they) in this sentence would refer to this phrase and to
        no other."""
        if not phrase.refers or phrase.is_pronoun:
            return False
        others = [one for one in self.mentioned if one is not phrase]
        return all(phrase.refers not in one.rivals for one in others)

    def actor(self, kinds: tuple[str, ...], plain: bool = False, tense: str = "present") -> Phrase:
        """A subject of one of these kinds. plain: the subject must be definite, and not I or we.

        In the present tense, "I" occurs only with auxiliaries, modals and verbs of opinion: every
        German verb has a special form for "ich", and each of these forms would be too rare to
        learn.
        """
        kind = self.rng.pick(kinds)
        if kind == "firm":
            return self.firm()
        if kind == "person":
            if not plain and self.rng.flip(0.1):
                return phrases.speaker("we" if tense == "present" else "I")
            if self.rng.flip(0.38):
                return self.person_name(ambiguous=0.25)
        return self.thing((kind,), settled=plain, opening=True)

    def thing(
        self,
        kinds: tuple[str, ...],
        *,
        settled: bool = False,
        opening: bool = False,
        plural: bool | None = None,
        adjectives: float = 0.33,
        owner: Phrase | None = None,
    ) -> Phrase:
        """A noun phrase for something of one of these kinds. settled: it must be definite. opening:
        it may come first in the sentence. adjectives: probability of an adjective."""
        rng = self.rng
        noun = self.fresh(nouns_of(rng.pick(kinds)))
        if plural is None:
            plural = rng.flip(0.27)
        plural = plural and bool(noun.english_plural) and "single" not in noun.kinds
        if owner is not None:
            determiner = particles.POSSESSIVES[owner.refers or owner.head.text]
        else:
            determiner = self._determiner(noun, plural, settled, opening)
        if determiner.style == "ein-word":  # more adjectives, since their endings vary most here
            adjectives = min(1.0, 1.6 * adjectives)
        adjective = self.remark(describing(noun.kinds), adjectives)
        return self.remember(phrases.noun_phrase(noun, determiner, plural, adjective, owner))

    def _determiner(self, noun: Noun, plural: bool, settled: bool, opening: bool) -> Determiner:
        rng = self.rng
        if "family" in noun.kinds:
            return rng.pick((particles.MY, particles.THE))
        if settled:
            return rng.weighted(SETTLED_PLURAL if plural else SETTLED_SINGULAR)
        if not noun.english_plural:
            return particles.THE if opening else rng.weighted(UNCOUNTED)
        if not plural:
            every = opening and "person" in noun.kinds
            return rng.weighted(((6, particles.EVERY), *SINGULAR) if every else SINGULAR)
        if rng.flip(0.2):
            return rng.pick(particles.NUMERALS)
        if not opening and rng.flip(0.2):
            return particles.BARE
        return rng.weighted(PLURAL)

    def someone(
        self, settled: bool = False, ambiguous: float = 0.0, plural: bool | None = None
    ) -> Phrase:
        """A person as the object of a verb. settled: the phrase must be definite. ambiguous:
        probability of a name that could also be a city's."""
        if plural is not True and self.rng.flip(0.35):
            return self.person_name(ambiguous)
        return self.thing(("person",), settled=settled, plural=plural, adjectives=0.25)

    def person_name(self, ambiguous: float = 0.0) -> Phrase:
        """A person's name: Anna, Anna Weber, Mr Jordan. ambiguous: probability of a name that could
        also be a city's."""
        rng = self.rng
        title = rng.flip(0.16)
        if title:
            return self.remember(self.titled_person(rng.pick(("Mr", "Mrs"))))
        name = self.fresh(names_of("person", rng.flip(ambiguous)))
        last = self.fresh(SURNAMES["Mr"]).key if name in lexicon.NAMES and rng.flip(0.16) else ""
        return self.remember(phrases.proper_name(name, last))

    def titled_person(self, title: str) -> Phrase:
        name = self.fresh(SURNAMES[title])
        return phrases.proper_name(name, title=lexicon.NOUNS[title])

    def firm(self, ambiguous: float = 0.4) -> Phrase:
        """A company's name: Orion, or the company Jordan. ambiguous: probability of a name that
        could also be a person's or a city's."""
        name = self.fresh(names_of("firm", self.rng.flip(ambiguous)))
        if self.rng.flip(0.3):
            return self.remember(phrases.titled_name(lexicon.NOUNS["company"], "", name))
        return self.remember(phrases.proper_name(name))

    def city(self, kinds: tuple[str, ...] = ("city", "country")) -> Phrase:
        name = self.fresh(names_of(self.rng.pick(kinds), self.rng.flip(0.35)))
        return self.remember(phrases.proper_name(name))

    def spot(self, kinds: tuple[str, ...], goal: bool = False) -> tuple[Noun, Phrase]:
        """The noun for a place, and the phrase with its article. goal: the place must be one to go
        to."""
        rng = self.rng
        nouns = nouns_of(rng.pick(kinds))
        noun = self.fresh([one for one in nouns if one.toward] if goal else nouns)
        options = [(80.0, particles.THE), (10.0, particles.THIS), (8.0, particles.A)]
        if "owned" in noun.kinds:
            options.append((25.0, particles.MY))
        adjective = self.remark(describing(noun.kinds), 0.15)
        phrase = phrases.noun_phrase(noun, rng.weighted(options), adjective=adjective)
        return noun, self.remember(phrase)

    def place(self, wild: bool = False) -> PhrasePair:
        """A phrase for where something happens. wild: a place for animals."""
        roll = self.rng.weighted(((20, "spot"), (25, "city"), (55, "place")))
        if roll == "spot":
            return phrases.adverbial(
                self.rng.pick(particles.SPOTS[:3] if wild else particles.SPOTS)
            )
        if roll == "city" and not wild:
            return phrases.prepositional("in", "in", "dat", self.city(("city",)))
        noun, phrase = self.spot(("outside",) if wild else ("place",))
        return phrases.prepositional(*noun.place, "dat", phrase)

    def home(self) -> PhrasePair:
        """A phrase for where somebody lives."""
        if self.rng.flip(0.6):
            return phrases.prepositional("in", "in", "dat", self.city())
        noun, phrase = self.spot(("dwelling",))
        return phrases.prepositional(*noun.place, "dat", phrase)

    def destination(self, kinds: tuple[str, ...]) -> PhrasePair:
        """A phrase for where somebody goes: nach Berlin, zur Schule, ins Museum."""
        kind = self.rng.pick(kinds)
        if kind in ("city", "country"):
            return phrases.prepositional("to", "nach", "dat", self.city((kind,)))
        noun, phrase = self.spot((kind,), goal=True)
        case = "dat" if noun.toward == "zu" else "acc"
        return phrases.prepositional("to", noun.toward, case, phrase)

    def surface(self, case: str) -> PhrasePair:
        """A phrase such as "on the table", "under the bed". case: "dat" for a location, "acc" for a
        direction."""
        english, german = self.rng.pick(particles.SURFACES)
        noun = self.fresh(nouns_of("surface"))
        determiner = self.rng.weighted(((85, particles.THE), (15, particles.THIS)))
        adjective = self.remark(describing(noun.kinds), 0.2)
        phrase = self.remember(phrases.noun_phrase(noun, determiner, adjective=adjective))
        return phrases.prepositional(english, german, case, phrase)
