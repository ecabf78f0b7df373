"""Families of sentences with a subordinate or a relative clause."""

from translucid.data.toyland import phrases
from translucid.data.toyland.cast import Cast
from translucid.data.toyland.clauses import (
    Clause,
    join_pairs,
    main_clause,
    relative_clause,
    subordinate,
)
from translucid.data.toyland.lexicon import DOING, HELPING, SPLITTING, Verb
from translucid.data.toyland.phrases import Phrase
from translucid.data.toyland.scenes import (
    description,
    has_time,
    in_state,
    scene,
    verbs_alone,
    verbs_for,
    weather,
)
from translucid.data.toyland.sentences import LIVING, VERB, tense_for
from translucid.data.toyland.words import German, PhrasePair, comma

OUTSIDE = frozenset(("swim", "go", "dance", "wait", "drive", "play"))
# Verbs for what happens to people, which having time does not explain.
ACCIDENTS = frozenset(("fall", "wake", "know", "see", "have", "live", "meet", "find", "laugh"))
# Temporary states that would keep most people from doing things.
HINDERING = ("tired", "hungry", "thirsty", "sick")
BEFORE = ("sleep", "work", "dance", "sing", "swim")


def last(main: PhrasePair, conjunction: str, side: Clause) -> PhrasePair:
    """Put the subordinate clause after the main clause. Only German has a comma between them."""
    return join_pairs(main, PhrasePair([], [German(",")]), subordinate(conjunction, side))


def first(conjunction: str, side: Clause, main: Clause) -> PhrasePair:
    """Put the subordinate clause first. The German main clause then begins with its verb."""
    return join_pairs(subordinate(conjunction, side), comma(), main_clause(main, "clause"))


def stand_in(cast: Cast, subject: Phrase) -> Phrase | None:
    """A pronoun for the subject of a different clause; None if the pronoun could refer to a
    different phrase."""
    if subject.person == 1:
        return phrases.speaker("we" if subject.plural else "I")
    return phrases.pronoun_for(subject) if cast.can_be_meant(subject) else None


def side_clause(cast: Cast, main: Clause) -> tuple[str, Clause] | None:
    """A conjunction and a subordinate clause that make sense with this main clause; None if there
    is none."""
    who = stand_in(cast, main.subject)
    options = _options(cast, main, who)
    if not options:
        return None
    rng, kind = cast.rng, cast.rng.weighted(options)
    tense = "past" if main.tense == "perfect" else "present"
    word = rng.pick(("because", "although"))
    side: Clause | None
    if kind == "weather":
        side = weather(cast, (word == "because") != bool(main.negation), tense)
    elif kind == "property" and main.object is not None:
        side = description(cast, phrases.pronoun_for(main.object), tense=tense)
    elif kind == "another" or who is None:
        word, side = _another(cast)
    elif kind == "reason":
        word, side = "because", in_state(cast, who, main.verb.reasons, tense)
    elif kind == "hindered":
        fitting = [one for one in HINDERING if one not in main.verb.reasons]
        word, side = "although", in_state(cast, who, fitting, tense)
    elif kind == "before":
        word, side = "before", Clause(who, VERB[rng.pick(BEFORE), "none"])
    elif main.negation:
        word, side = "because", has_time(who, time=False, tense=tense)
    else:
        if tense == "present":
            word = rng.pick(("because", "although", "when", "if"))
        side = has_time(who, time=word != "although", tense=tense)
    return (word, side) if side else None


def _options(cast: Cast, main: Clause, who: Phrase | None) -> list[tuple[float, str]]:
    """The kinds of subordinate clause that make sense with this main clause, with their weights."""
    name, negated = main.verb.english, bool(main.negation)
    deliberate = "person" in main.subject.kinds and name not in ACCIDENTS
    now = main.tense != "perfect"
    options: list[tuple[float, str]] = []
    if who is not None:
        if main.verb.reasons and not negated and main.tense in ("present", "perfect", "want"):
            options.append((30, "reason"))
        if deliberate:
            options.append((12, "time"))
        if not negated and name not in ("sleep", "fall", "wake"):
            options.append((10, "hindered"))
        if deliberate and now and not negated and name not in BEFORE:
            options.append((10, "before"))
    thing = main.object
    if (
        thing is not None
        and cast.can_be_meant(thing)
        and "person" not in thing.kinds
        and (thing.definite or not negated)  # "he buys no book because it is new" makes no sense
    ):
        options.append((15, "property"))
    if name in OUTSIDE:
        options.append((15, "weather"))
    if main.tense in ("present", "can", "must", "may"):
        options.append((14, "another"))
    return options


def _another(cast: Cast) -> tuple[str, Clause]:
    """A clause about a different person or pet, such as "while the dog sleeps", with its
    conjunction."""
    subject = cast.actor(("person", "person", "pet"), plain=True)
    verb = cast.action(verbs_alone(subject.kinds))
    side = scene(cast, subject, verb, extra="none", place=0.15)
    return cast.rng.pick(("when", "if", "while")), side


def with_side(cast: Cast, side_first: bool) -> PhrasePair | None:
    """A main clause, and a subordinate clause that fits it, before or after it; None if none
    fits."""
    rng = cast.rng
    subject = cast.actor(LIVING, plain=rng.flip(0.8))
    verb = cast.action(verbs_for(subject.kinds, True))
    tense = tense_for(cast, subject, verb, perfect=22, modal=18)
    main = scene(
        cast, subject, verb, tense=tense, extra=rng.pick(("none", "none", "not")), place=0.1
    )
    conjoined = side_clause(cast, main)
    if conjoined is None:
        return None
    conjunction, side = conjoined
    if not side_first:
        return last(main_clause(main), conjunction, side)
    if side.subject.is_pronoun and side.subject.person == 3:
        return _turned(main, conjunction, side)
    return first(conjunction, side, main)


def _turned(main: Clause, conjunction: str, side: Clause) -> PhrasePair | None:
    """Put the subordinate clause first, and swap name and pronoun so that the name still comes
    first: "Because Anna is tired, she sleeps". None if the clauses do not allow this."""
    pronoun, whom = side.subject, main.subject
    if pronoun.words[0].antecedent is not whom.head or conjunction == "before":
        return None
    side.subject, main.subject = whom, pronoun
    for clause in (main, side):
        clause.conjugate()
    return first(conjunction, side, main)


def _lying(thing: Phrase) -> Verb:
    return VERB["lie" if "flat" in thing.kinds else "stand", "lie"]


def relative_on(cast: Cast, head: Phrase) -> PhrasePair | None:
    """A relative clause about this phrase: what it does, or what is done to it. None if none
    fits."""
    rng = cast.rng
    living = head.kinds & {"person", "animal"}
    receives = [
        verb
        for verb in (*DOING, *SPLITTING, *HELPING)
        if verb.frame in ("acc", "dat")
        and head.kinds & set(verb.objects)
        and verb.english not in ("have", *cast.used)
        and not ("firm" in verb.subjects and "minor" in head.kinds)
    ]
    if living and (rng.flip(0.65) or not receives):
        return _acting(cast, head)
    if not living and head.kinds & {"flat", "upright"} and rng.flip(0.4):
        subject = phrases.relative_phrase(head, "that")
        verb = cast.action([_lying(head)])
        return relative_clause(scene(cast, subject, verb, extra="none"), subject, "nom")
    if not receives:
        return None
    verb = cast.action(receives)
    subject = cast.actor(verb.subjects, plain=rng.flip(0.7))
    if verb.english == "chase" or [one.text for one in subject.words] == [
        one.text for one in head.words
    ]:
        return _acting(cast, head) if living else None
    case = "dat" if verb.frame == "dat" else "acc"
    whom = phrases.relative_phrase(head, "that")
    clause = Clause(
        subject, verb, tense_for(cast, subject, verb, perfect=50), object=whom, object_case=case
    )
    return relative_clause(clause, whom, case)


def _acting(cast: Cast, head: Phrase) -> PhrasePair:
    rng = cast.rng
    subject = phrases.relative_phrase(head, "who" if "person" in head.kinds else "that")
    verb = cast.action(verbs_for(head.kinds))
    extra = rng.pick(("none", "none", "none", "not", "adverb"))
    tense = tense_for(cast, subject, verb, perfect=30)
    clause = scene(cast, subject, verb, tense=tense, extra=extra, place=0.1, settled=True)
    return relative_clause(clause, subject, "nom")


def relative_subject(cast: Cast) -> PhrasePair | None:
    """A sentence whose subject has a relative clause, such as "The dogs that chase the cat sleep".
    The verb agrees with a noun before the clause."""
    rng = cast.rng
    kind = rng.pick(("person", "person", "animal", "flat", "upright", "portable"))
    subject = cast.thing(
        (kind,), settled=True, opening=True, adjectives=0.15, plural=rng.flip(0.45)
    )
    subject.relative = relative_on(cast, subject)
    if subject.relative is None or subject.words[0].text == "my":  # "my mother" needs no clause
        return None
    if subject.kinds & {"person", "animal"}:
        verb = cast.action(verbs_for(subject.kinds))
        main = scene(
            cast,
            subject,
            verb,
            tense=tense_for(cast, subject, verb, perfect=20, modal=10),
            place=0.15,
        )
    elif (
        subject.kinds & {"flat", "upright"}
        and _lying(subject).english not in cast.used
        and rng.flip(0.4)
    ):
        main = scene(cast, subject, _lying(subject), extra=rng.pick(("none", "not")))
    else:
        clause = description(cast, subject, negated=rng.flip(0.3))
        if clause is None:
            return None
        main = clause
    return main_clause(main)


def relative_object(cast: Cast) -> PhrasePair | None:
    """A sentence whose object has a relative clause, such as "Anna calls the man who works in the
    garden". German puts the clause after the verb."""
    subject = cast.actor(("person",))
    verbs = [one for one in verbs_for(subject.kinds) if one.frame in ("acc", "dat", "give")]
    verb = cast.action(verbs)
    tense = tense_for(cast, subject, verb, perfect=30, modal=15)
    main = scene(cast, subject, verb, tense=tense, extra="none", place=0.0, settled=True)
    whom = main.object
    if whom is None or whom.words[0].text not in ("the", "this", "these"):
        return None
    whom.relative = relative_on(cast, whom)
    return main_clause(main) if whom.relative else None
