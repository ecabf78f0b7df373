"""Families (kinds) of neutral sentences: single clauses, and clauses joined by "and" or "but".

The function of a family returns None if the words that it drew do not make a sentence.
"""

from collections.abc import Sequence

from translucid.data.toyland import lexicon, particles, phrases
from translucid.data.toyland.cast import Cast
from translucid.data.toyland.clauses import Clause, join_pairs, main_clause, subordinate
from translucid.data.toyland.lexicon import Name, Verb
from translucid.data.toyland.phrases import Phrase
from translucid.data.toyland.scenes import (
    description,
    has_time,
    in_state,
    scene,
    verbs_alone,
    verbs_for,
)
from translucid.data.toyland.words import English, German, PhrasePair, comma

ANIMAL_MODALS = ("can", "must", "want")
LIVING = ("person", "person", "person", "animal")
SEPARABLE = tuple(verb for verb in (*lexicon.SPLITTING, *lexicon.ALONE) if verb.prefix)
PLACES = tuple(
    one for one in (*lexicon.NAMES, *lexicon.AMBIGUOUS) if one.tag == "LOC" and one.inside
)
BY_PLACE = {one.english: one for one in lexicon.NAMES if one.kinds & {"country", "continent"}}
CITY = lexicon.NOUNS["city"]
VERB = {(verb.english, verb.frame): verb for verb in reversed(lexicon.VERBS)}  # the first one wins
WAKING = tuple(one for one in lexicon.ALONE if one.english in ("get", "wake", "fall"))
# A verb, the verb for what is done next with the same thing, and the kind of the thing.
CHAINS = (
    ("buy", "read", "text"),
    ("find", "read", "paper"),
    ("buy", "eat", "snack"),
    ("buy", "drink", "drink"),
    ("cook", "eat", "cooked"),
    ("buy", "repair", "repaired"),
    ("repair", "sell", "vehicle"),
    ("write", "sell", "written"),
    ("find", "open", "opened"),
    ("open", "close", "door"),
    ("see", "follow", "person"),
    ("meet", "invite", "person"),
    ("visit", "help", "person"),
    ("meet", "thank", "person"),
    ("know", "help", "person"),
    ("meet", "call", "person"),
    ("look", "find", "portable"),
)


def and_(first: PhrasePair, second: PhrasePair) -> PhrasePair:
    word = English("and")
    return join_pairs(first, PhrasePair([word], [German("und", (word,))]), second)


def but(first: PhrasePair, second: PhrasePair) -> PhrasePair:
    word = English("but")
    return join_pairs(first, comma(), PhrasePair([word], [German("aber", (word,))]), second)


def that(stream: PhrasePair, content: Clause) -> PhrasePair:
    """Join a main clause and a clause that begins with "that". Only German has a comma."""
    return join_pairs(stream, PhrasePair([], [German(",")]), subordinate("that", content))


def tense_for(cast: Cast, subject: Phrase, verb: Verb, *, perfect: int = 40, modal: int = 0) -> str:
    """Draw a tense. perfect, modal: probabilities of these, in percent; the rest is the present
    tense."""
    if verb.stative:
        return "present"
    weights = ((100 - perfect - modal, "present"), (perfect, "perfect"), (modal, "modal"))
    drawn = cast.rng.weighted(weights)
    return modal_for(cast, subject) if drawn == "modal" else drawn


def modal_for(cast: Cast, subject: Phrase) -> str:
    return cast.rng.pick(ANIMAL_MODALS if "animal" in subject.kinds else tuple(particles.MODALS))


def event(
    cast: Cast,
    kinds: tuple[str, ...] = LIVING,
    *,
    tense: str = "present",
    plain: bool = False,
    extra: str | None = None,
    place: float = 0.3,
) -> Clause:
    """A clause about what a person, animal or thing does. If the tense is not the present, the verb
    is one that has this tense."""
    subject = cast.actor(kinds, plain, tense)
    if tense == "modal":
        tense = modal_for(cast, subject)
    verb = cast.action(verbs_for(subject.kinds, tense != "present" or extra == "time"))
    return scene(cast, subject, verb, tense=tense, extra=extra, place=place)


def simple(cast: Cast, tense: str = "present") -> PhrasePair:
    return main_clause(event(cast, tense=tense))


def separable(cast: Cast, verbs: Sequence[Verb] = SEPARABLE) -> PhrasePair:
    verb = cast.rng.pick(verbs)
    subject = cast.actor(verb.subjects)
    tense = tense_for(cast, subject, verb, perfect=25, modal=15)
    return main_clause(scene(cast, subject, verb, tense=tense))


def giving(cast: Cast) -> PhrasePair:
    return separable(cast, lexicon.GIVING)


def fronted(cast: Cast) -> PhrasePair:
    """A sentence that begins with a phrase of time or place. The German subject comes after the
    verb."""
    rng = cast.rng
    if rng.flip(0.6):
        tense = rng.weighted(((60, "present"), (20, "perfect"), (20, "modal")))
        return main_clause(event(cast, tense=tense, extra="time"), "time")
    subject = cast.actor(LIVING)
    verb = cast.action([one for one in verbs_for(subject.kinds, True) if one.place])
    tense = tense_for(cast, subject, verb, perfect=15, modal=15)
    return main_clause(scene(cast, subject, verb, tense=tense, extra="none", place=1.0), "place")


def things(cast: Cast) -> PhrasePair | None:
    """A sentence about where a thing is, or what it is like."""
    rng = cast.rng
    kind = rng.pick(("flat", "upright", "animal", "vehicle", "place", "person", "furniture"))
    if kind in ("flat", "upright") and rng.flip(0.75):
        subject = cast.thing((kind,), opening=True)
        verb = VERB["lie" if kind == "flat" else "stand", "lie"]
        return main_clause(scene(cast, subject, verb))
    subject = cast.thing((kind,), settled=True, opening=True, adjectives=0.5)
    remark = description(cast, subject, negated=rng.flip(0.4))
    return main_clause(remark) if remark else None


def place_fact(cast: Cast, place: Name) -> Clause:
    """A clause about where a place is: "Florence lies in Italy", "the city of Florence lies in
    Italy", "Florence is a city in Italy"."""
    rng = cast.rng
    is_city = "city" in place.kinds
    subject = phrases.proper_name(place)
    if is_city and rng.flip(0.3):
        subject = phrases.titled_name(CITY, "of", place)
    around = phrases.proper_name(BY_PLACE[tuple(place.inside.split())])
    inside = phrases.prepositional("in", "in", "dat", around)
    if not is_city or "sight" in subject.kinds or rng.flip(0.6):
        return Clause(subject, VERB["lie", "lie"], complement=inside)
    city = phrases.noun_phrase(CITY, particles.A)
    return Clause(subject, lexicon.BE, object=city, object_case="nom", complement=inside)


def geography(cast: Cast) -> PhrasePair:
    rng = cast.rng
    place = rng.pick(PLACES)
    shape = rng.weighted(((10, "alone"), (45, "told"), (45, "two")))
    if shape == "alone":
        return main_clause(place_fact(cast, place))
    if shape == "told":
        sure = [verb for verb in lexicon.TELLING if verb.english != "hope"]
        return that(main_clause(telling(cast, sure)), place_fact(cast, place))
    far = [one for one in PLACES if one.kinds == place.kinds and one.inside != place.inside]
    joined = rng.pick((but, and_))
    other = place_fact(cast, rng.pick(far))
    return joined(main_clause(place_fact(cast, place)), main_clause(other))


def business(cast: Cast) -> PhrasePair:
    """A sentence about what a company does, or who works for it."""
    rng = cast.rng
    if rng.flip(0.3):
        worker = cast.actor(("person",))
        return main_clause(scene(cast, worker, VERB["work", "prep"]))
    verb = rng.pick([verb for verb in lexicon.SPLITTING if "firm" in verb.subjects])
    firm = cast.firm()
    tense = tense_for(cast, firm, verb, perfect=25, modal=25)
    return main_clause(scene(cast, firm, verb, tense=tense))


def telling(cast: Cast, verbs: Sequence[Verb] = lexicon.TELLING) -> Clause:
    verb = cast.action(verbs)
    stream = cast.actor(("person",), plain=cast.rng.flip(0.8))
    negated = stream.definite and verb.english in ("know", "believe") and cast.rng.flip(0.3)
    tense = "perfect" if verb.english == "say" and cast.rng.flip(0.4) else "present"
    return Clause(stream, verb, tense, negation="not" if negated else "")


def reported(cast: Cast) -> PhrasePair | None:
    rng = cast.rng
    stream = telling(cast)
    subject = stream.subject
    if cast.can_be_meant(subject) and rng.flip(0.35):
        who = phrases.pronoun_for(subject)
        hopes = stream.verb.english == "hope"
        roll = rng.pick(("time", "scene") if hopes else ("state", "time", "scene"))
        content: Clause | None
        if roll == "state":
            content = in_state(cast, who, ("tired", "hungry", "thirsty", "sick", "rich"))
        elif roll == "time":
            content = has_time(who, time=hopes or rng.flip(0.5))
        else:
            verb = cast.action(verbs_for(who.kinds, True))
            tense = tense_for(cast, who, verb, perfect=30, modal=30)
            content = scene(cast, who, verb, tense=tense, place=0.1)
    else:
        content = event(cast, tense=rng.pick(("present", "present", "perfect", "modal")))
    return that(main_clause(stream), content) if content else None


def coordination(cast: Cast) -> PhrasePair | None:
    """A sentence with two subjects, two clauses, or two verbs with the same subject."""
    rng = cast.rng
    shape = rng.weighted(((40, "subjects"), (30, "clauses"), (30, "actions")))
    if shape == "subjects":
        both = _couple(cast)
        if both is None:
            return None
        verb = cast.action(verbs_for(both.kinds))
        tense = tense_for(cast, both, verb, perfect=25, modal=20)
        return main_clause(scene(cast, both, verb, tense=tense, place=0.2))
    if shape == "clauses":
        first = event(cast, ("person",), extra="none", place=0.15)
        return and_(main_clause(first), main_clause(_short(cast)))
    subject = cast.actor(LIVING)
    verb = cast.action(verbs_for(subject.kinds, True))
    others = [one for one in verbs_for(subject.kinds, True) if one not in (verb, *WAKING)]
    other = cast.action(others)
    first = scene(cast, subject, verb, extra="none", place=0.1)
    second = scene(cast, phrases.silent(subject), other, extra="none", place=0.1)
    return and_(main_clause(first), main_clause(second))


def _couple(cast: Cast) -> Phrase | None:
    if cast.rng.flip(0.75):
        first, second = cast.person_name(0.2), cast.actor(("person",), plain=True)
    else:
        first, second = (cast.thing(("animal",), settled=True) for _ in range(2))
    same = [word.text for word in first.words] == [word.text for word in second.words]
    return None if same else cast.remember(phrases.together(first, second))


def chain(cast: Cast) -> PhrasePair | None:
    """A sentence about two actions with the same thing: "Anna buys a book and reads it", "Peter
    finds the key, but he does not take it"."""
    rng = cast.rng
    before, after, kind = rng.pick(CHAINS)
    subject = cast.actor(("person",), plain=True)
    first_verb = VERB[before, "acc"]
    other = cast.thing((kind,), adjectives=0.3)
    first = Clause(subject, first_verb, object=other)
    second_verb = VERB[after, "dat" if (after, "dat") in VERB else "acc"]
    if not cast.can_be_meant(other):
        return None
    it = phrases.pronoun_for(other, is_object=True)
    case = "dat" if second_verb.frame == "dat" else "acc"
    if cast.can_be_meant(subject) and rng.flip(0.55):
        who = phrases.pronoun_for(subject)
        second = Clause(who, second_verb, negation="not", object=it, object_case=case)
        return but(main_clause(first), main_clause(second))
    again = phrases.silent(subject)
    second = Clause(again, second_verb, object=it, object_case=case)
    return and_(main_clause(first), main_clause(second))


def contrast(cast: Cast) -> PhrasePair:
    """A sentence with "but" that does not express an opinion."""
    rng = cast.rng
    if rng.flip(0.4):
        subject = cast.actor(("person",), plain=True)
        verb = cast.action(verbs_for(subject.kinds, True))
        wish = scene(cast, subject, verb, tense="want", extra="none", place=0.2)
        if cast.can_be_meant(subject):
            who = phrases.pronoun_for(subject)
            trouble = in_state(cast, who, ("tired", "sick"))
            if rng.flip(0.5) or trouble is None:
                trouble = has_time(who, time=False)
            return but(main_clause(wish), main_clause(trouble))
    first = _short(cast)
    return but(main_clause(first), main_clause(_short(cast)))


def _short(cast: Cast) -> Clause:
    subject = cast.actor(LIVING, plain=True)
    verb = cast.action(verbs_alone(subject.kinds))
    extra = cast.rng.pick(("none", "none", "not", "time"))
    return scene(cast, subject, verb, extra=extra, place=0.4)
