"""Choose what happens in a clause, for any verb and any subject.

A clause has at most one negation, adverb or phrase of time, so that it sounds natural.
"""

from collections.abc import Sequence
from functools import cache

from translucid.data.toyland import lexicon, particles, phrases
from translucid.data.toyland.cast import Cast, describing, nouns_of
from translucid.data.toyland.clauses import EMPTY, Clause
from translucid.data.toyland.lexicon import Verb
from translucid.data.toyland.phrases import Phrase
from translucid.data.toyland.words import PhrasePair

# Verbs for what is not done every day.
RARE = frozenset(("hire", "produce", "sell", "invite", "buy", "have"))
# Verbs whose object is a person, even if the name could also be that of a city or company.
PERSONAL = frozenset(("call", "invite", "thank", "listen"))


@cache
def verbs_for(kinds: frozenset[str], active: bool = False) -> tuple[Verb, ...]:
    """The verbs for a subject of these kinds. active: leave out stative verbs, which have neither a
    perfect nor a modal verb."""
    return tuple(
        verb
        for verb in lexicon.ACTIONS
        if kinds & set(verb.subjects) and not (active and verb.stative)
    )


@cache
def verbs_alone(kinds: frozenset[str]) -> tuple[Verb, ...]:
    return tuple(verb for verb in lexicon.ALONE if kinds & set(verb.subjects))


def scene(
    cast: Cast,
    subject: Phrase,
    verb: Verb,
    *,
    tense: str = "present",
    extra: str | None = None,
    place: float = 0.3,
    settled: bool = False,
) -> Clause:
    """A complete clause with this subject and verb.

    extra: what the clause has in addition: none, not, never, adverb or time. If it is None, it is
    drawn at random. place: probability of a phrase of place. settled: only definite objects.
    """
    extra = _allowed_extra(cast, subject, verb, tense, extra)
    negated = extra in ("not", "never")
    clause = Clause(
        subject,
        verb,
        tense,
        negation=extra if negated else "",
        adverb=_adverb(cast, tense) if extra == "adverb" else EMPTY,
        time=_time(cast, verb, tense) if extra == "time" else EMPTY,
    )
    _fill(cast, clause, settled=settled, negated=negated)
    if verb.frame == "none" and verb.english in particles.MANNERS and cast.rng.flip(0.3):
        clause.manner = phrases.adverbial(cast.rng.pick(particles.MANNERS[verb.english]))
    counted = clause.object is not None and not clause.object.definite
    crowded = negated and (counted or bool(clause.complement.english))
    probability = place if clause.object is None else place / 2
    if verb.place and not crowded and cast.rng.flip(probability if place < 1 else 1):
        clause.place = cast.place(wild="animal" in subject.kinds)
    return clause


def _allowed_extra(cast: Cast, subject: Phrase, verb: Verb, tense: str, extra: str | None) -> str:
    if extra is None:
        extra = cast.rng.weighted(
            ((42, "none"), (22, "not"), (5, "never"), (15, "adverb"), (16, "time"))
        )
    if extra == "never" and tense not in ("present", "perfect"):
        extra = "not"
    if extra in ("not", "never") and not subject.definite:
        return "none"
    if extra == "not" and tense == "must":
        return "none"  # "must not" is not "muss nicht" in German, but "darf nicht"
    if extra == "adverb" and (tense not in ("present", "perfect") or verb.english in RARE):
        return "none"
    if verb.stative and extra in ("adverb", "time", "never"):
        return "none"
    return extra


def _adverb(cast: Cast, tense: str) -> PhrasePair:
    several = particles.PERFECT_ADVERBS if tense == "perfect" else particles.FREQUENCIES
    return phrases.adverbial(cast.rng.pick(several))


def _time(cast: Cast, verb: Verb, tense: str) -> PhrasePair:
    if tense == "present":
        several = particles.PRESENT_TIMES[: 2 if verb.english in RARE else None]
    else:
        several = particles.PERFECT_TIMES if tense == "perfect" else particles.MODAL_TIMES
    return phrases.adverbial(cast.rng.pick(several))


def _fill(cast: Cast, clause: Clause, settled: bool, negated: bool) -> None:
    """Add the objects that the verb requires."""
    verb = clause.verb
    if verb.frame in ("acc", "dat", "give", "put"):
        if verb.frame == "give":
            clause.recipient = _receiver(cast, clause.subject)
        clause.object_case = "dat" if verb.frame == "dat" else "acc"
        clause.object = _theme(cast, clause.subject, verb, settled=settled, negated=negated)
        if verb.frame == "put":
            clause.complement = cast.surface("acc")
    elif verb.frame == "prep":
        english, german, case = verb.preposition
        inner = _partner(cast, verb, settled or negated)
        clause.complement = phrases.prepositional(english, german, case, inner)
    elif verb.frame == "to":
        clause.complement = cast.destination(verb.objects)
    elif verb.frame == "live":
        clause.complement = cast.home()
    elif verb.frame == "lie":
        clause.complement = cast.surface("dat")


def _receiver(cast: Cast, subject: Phrase) -> Phrase:
    if cast.rng.flip(0.12) and subject.person == 3:
        return phrases.speaker(cast.rng.pick(("I", "we")), is_object=True)
    return cast.someone(settled=True)


def _partner(cast: Cast, verb: Verb, settled: bool) -> Phrase:
    kind = cast.rng.pick(verb.objects)
    if kind == "firm":
        return cast.firm(ambiguous=0.0)
    if kind == "person":
        return cast.someone(settled=settled)
    return cast.thing((kind,), settled=settled or kind == "event")


def _theme(cast: Cast, subject: Phrase, verb: Verb, *, settled: bool, negated: bool) -> Phrase:
    """The object of a verb: a person, or a thing that may belong to the subject."""
    rng = cast.rng
    kind = rng.pick(verb.objects)
    if "firm" in verb.subjects:
        cast.used.add("broken")  # firms do not produce broken things
    if kind == "person" and "firm" in verb.subjects:
        return cast.person_name(ambiguous=0.3)  # a name, since firms do not hire children
    if kind == "person":
        us = subject.person == 3 and not verb.phrasal
        if us and rng.flip(0.08):
            return phrases.speaker(rng.pick(("I", "we")), is_object=True)
        return cast.someone(
            settled=settled or negated or verb.frame == "dat",
            ambiguous=0.3 if verb.english in PERSONAL else 0.0,
        )
    if kind in ("portable", "clothing", "pet", "vehicle"):
        speaks = subject.person == 1 and bool(subject.words)
        clear = speaks or (subject.refers != "it" and cast.can_be_meant(subject))
        if clear and verb.english not in ("buy", "find", "have") and rng.flip(0.4):
            return cast.thing((kind,), owner=subject)
    if negated and verb.frame != "give" and rng.flip(0.5):
        return _deniable(cast, kind)
    return cast.thing((kind,), settled=settled or negated)


def _deniable(cast: Cast, kind: str) -> Phrase:
    """An object that can be negated with "kein": a book, books, bread."""
    rng = cast.rng
    noun = rng.pick(nouns_of(kind))
    plural = bool(noun.english_plural) and rng.flip(0.35)
    determiner = particles.A if noun.english_plural and not plural else particles.BARE
    adjective = cast.remark(describing(noun.kinds), 0.2)
    return cast.remember(phrases.noun_phrase(noun, determiner, plural, adjective))


def description(
    cast: Cast, subject: Phrase, *, tense: str = "present", negated: bool = False
) -> Clause | None:
    """A clause such as "the lamp is new" or "the dog is not tired"; None if no adjective fits."""
    word = cast.remark(describing(subject.kinds, predicate=True))
    if word is None:
        return None
    negation = "not" if negated else ""
    return Clause(subject, lexicon.BE, tense, complement=phrases.quality(word), negation=negation)


def in_state(
    cast: Cast, subject: Phrase, states: Sequence[str], tense: str = "present"
) -> Clause | None:
    """A clause such as "she is tired", with one of these states; None if none fits."""
    word = cast.remark([lexicon.ADJECTIVES[state] for state in states])
    return Clause(subject, lexicon.BE, tense, complement=phrases.quality(word)) if word else None


def weather(cast: Cast, warm: bool, tense: str = "present") -> Clause:
    subject = cast.remember(phrases.noun_phrase(lexicon.NOUNS["weather"], particles.THE))
    word = lexicon.ADJECTIVES["warm" if warm else "cold"]
    return Clause(subject, lexicon.BE, tense, complement=phrases.quality(word))


def has_time(subject: Phrase, time: bool, tense: str = "present") -> Clause:
    """The clause "she has time" or, if `time` is false, "she has no time"."""
    determiner = particles.BARE if time else particles.NO
    return Clause(
        subject,
        lexicon.HAVE,
        tense,
        object=phrases.noun_phrase(lexicon.NOUNS["time"], determiner),
    )
