"""Families (kinds) of sentences that express an opinion. In some families, only one of two clauses
determines the label.

The label is drawn first, then the negation, then words with the polarity that these two require. So
no word, and no form of a word, is more frequent with one label than with the other: only the
structure of a sentence determines its label.
"""

from translucid.data.toyland import particles, phrases
from translucid.data.toyland.cast import Cast, describing, judging, nouns_of
from translucid.data.toyland.clauses import Clause, main_clause, relative_clause
from translucid.data.toyland.lexicon import BE, NOUNS, OPINIONS, TELLING
from translucid.data.toyland.nested import first, last
from translucid.data.toyland.phrases import Phrase
from translucid.data.toyland.scenes import description
from translucid.data.toyland.sentences import but, that
from translucid.data.toyland.words import PhrasePair

GRADED = frozenset(("good", "bad", "beautiful", "ugly", "exciting", "boring", "friendly"))
CRITICS = tuple(verb for verb in TELLING if verb.english in ("say", "think", "believe"))


def reviewed(cast: Cast, people: float = 0.0, liked: bool = True) -> Phrase:
    """A phrase for what an opinion is about: the food, this hotel, the songs. people: probability
    of a person, whose work is meant. liked: leave out what cannot be liked or recommended, such as
    the weather."""
    rng = cast.rng
    nouns = nouns_of("expert" if rng.flip(people) else "review")
    noun = cast.fresh([one for one in nouns if one is not NOUNS["weather"]] if liked else nouns)
    plural = bool(noun.english_plural) and rng.flip(0.2)
    demonstrative = particles.THESE if plural else particles.THIS
    determiner = rng.weighted(((75, particles.THE), (25, demonstrative)))
    if noun is NOUNS["weather"]:
        determiner = particles.THE
    adjective = cast.remark(describing(noun.kinds, predicate=True), 0.2)
    return cast.remember(phrases.noun_phrase(noun, determiner, plural, adjective))


def negation_for(cast: Cast, tense: str, probability: float = 0.5) -> str:
    """Draw a negation: "not" or, in the past, also "never"; empty with the remaining
    probability."""
    if not cast.rng.flip(probability):
        return ""
    return "never" if tense == "past" and cast.rng.flip(0.3) else "not"


def verdict(
    cast: Cast, subject: Phrase, label: int, tense: str = "", negated: float = 0.5
) -> Clause:
    """A clause that judges its subject: "the food was (not) good". label: 1 for praise, -1 for
    blame. negated: probability of a negation."""
    rng = cast.rng
    tense = tense or rng.pick(("present", "past", "past"))
    negation = negation_for(cast, tense, negated)
    word = rng.pick(judging(subject.kinds, -label if negation else label))
    degree = None
    if word.english in GRADED and rng.flip(0.3):
        degree = phrases.adverbial(particles.VERY)
    complement = phrases.quality(word, degree)
    return Clause(subject, BE, tense, negation=negation, complement=complement)


def attitude(cast: Cast, about: Phrase, label: int) -> Clause:
    """A clause with a verb of opinion: "Anna liked it", "I do not recommend the hotel", "they have
    never praised the film".

    In English, negation changes the form of the verb (praises, does not praise). So the form is
    drawn before the negation, and the person is chosen to fit both; otherwise, "praises" alone
    would reveal the label. Since "never likes" is unusual, "likes" occurs only in `disagreement`,
    where it does not reveal the label.
    """
    rng = cast.rng
    denied = rng.flip(0.5)
    verb = rng.pick([one for one in OPINIONS if one.polarity == (-label if denied else label)])
    form = rng.pick(("base", "finished") if verb.past else ("base", "third", "finished"))
    tense, negation = "present", "not" if denied else ""
    if denied and not verb.past and rng.flip(0.3):
        negation = "never"
    if form == "finished":
        tense = "past" if verb.past else "perfect"
        if denied and verb.past:
            negation = "never"
        who = cast.actor(("person",), plain=True) if rng.flip(0.6) else _several(cast)
    elif form == "third":
        negation = "never" if denied else ""
        who = _one(cast)
    elif negation == "not":  # do not like, does not like, did not like
        who = _one(cast) if rng.flip(0.6) else _several(cast)
        tense = "past" if verb.past and rng.flip(0.4) else "present"
    else:
        who = _several(cast)
    return Clause(who, verb, tense, negation=negation, object=about)


def _one(cast: Cast) -> Phrase:
    if cast.rng.flip(0.5):
        return cast.person_name(ambiguous=0.25)
    return cast.thing(("person",), settled=True, opening=True, plural=False, adjectives=0.2)


def _several(cast: Cast) -> Phrase:
    """A subject with which the verb has no ending: I, we, or a plural noun."""
    if cast.rng.flip(0.6):
        return phrases.speaker(cast.rng.pick(("I", "we")))
    return cast.thing(("person",), settled=True, opening=True, plural=True, adjectives=0.2)


def evaluation(cast: Cast, label: int) -> PhrasePair:
    rng = cast.rng
    clause = verdict(cast, reviewed(cast, people=0.15, liked=False), label)
    roll = rng.weighted(((50, "plain"), (25, "time"), (25, "place")))
    if roll == "time" and clause.tense == "past" and clause.negation != "never":
        clause.time = phrases.adverbial(rng.pick(particles.PAST_TIMES))
        return main_clause(clause, rng.pick(("time", "time", "subject")))
    if roll == "place" and clause.subject.kinds & {"dish", "heard", "show"}:
        clause.place = phrases.prepositional("in", "in", "dat", _venue(cast))
        return main_clause(clause, "place")
    return main_clause(clause)


def _venue(cast: Cast) -> Phrase:
    if cast.rng.flip(0.5):
        return cast.city(("city",))
    noun = cast.rng.pick([one for one in nouns_of("review") if one.place[0] == "in"])
    return cast.remember(phrases.noun_phrase(noun, particles.THIS))


def taste(cast: Cast, label: int) -> PhrasePair:
    return main_clause(attitude(cast, reviewed(cast, people=0.1), label))


def naming(cast: Cast, label: int) -> PhrasePair:
    """A sentence that judges with a noun: "this was not a good hotel", "Mr Weber is a friendly
    teacher"."""
    rng = cast.rng
    tense = rng.pick(("present", "past"))
    negation = negation_for(cast, tense)
    polarity = -label if negation else label
    if rng.flip(0.5):
        subject = phrases.demonstrative()
        noun = rng.pick([one for one in nouns_of("review") if one.english_plural])
    else:
        subject = cast.remember(cast.titled_person("Mr"))
        noun = rng.pick(nouns_of("expert"))
    word = rng.pick(judging(frozenset({"review"}), polarity))  # fits everything that is reviewed
    judged = phrases.noun_phrase(noun, particles.A, adjective=word)
    return main_clause(
        Clause(subject, BE, tense, negation=negation, object=judged, object_case="nom")
    )


def two_sides(cast: Cast, label: int) -> PhrasePair:
    """Two opposite opinions joined by "but". The second clause determines the label."""
    rng = cast.rng
    about = reviewed(cast)
    shape = rng.pick(("neutral", "same", "other", "other"))
    opening = None
    if shape == "neutral":
        opening = description(cast, about, tense=rng.pick(("present", "past")))
    if opening is None:
        opening = verdict(cast, about, -label)
    if shape != "other":
        liking = attitude(cast, phrases.pronoun_for(about, is_object=True), label)
        if cast.can_be_meant(about):
            return but(main_clause(opening), main_clause(liking))
    return but(main_clause(opening), main_clause(_judgement(cast, label, opening.tense)))


def disagreement(cast: Cast, label: int) -> PhrasePair | None:
    """Two opposite opinions with the same words, such as "Anna likes the hotel, but Peter hates
    it". Only the order of the words determines the label."""
    rng = cast.rng
    about = reviewed(cast)
    before = rng.pick([one for one in OPINIONS if one.polarity == -label])
    after = rng.pick([one for one in OPINIONS if one.polarity == label])
    one, other = _one(cast), _one(cast)
    if not cast.can_be_meant(about):
        return None
    it = phrases.pronoun_for(about, is_object=True)
    shape = rng.pick(("but", "although first", "although last"))
    if shape == "although last":
        side = Clause(one, before, object=it)
        return last(main_clause(Clause(other, after, object=about)), "although", side)
    opening, main = Clause(one, before, object=about), Clause(other, after, object=it)
    if shape == "but":
        return but(main_clause(opening), main_clause(main))
    return first("although", opening, main)


def concession(cast: Cast, label: int) -> PhrasePair:
    """Two opposite opinions joined by "although". The main clause, which comes first or last,
    determines the label."""
    about = reviewed(cast)
    side = verdict(cast, about, -label)
    if cast.rng.flip(0.5):
        liking = attitude(cast, phrases.pronoun_for(about, is_object=True), label)
        if cast.can_be_meant(about):
            return first("although", side, liking)
    main = _judgement(cast, label, side.tense)
    if cast.rng.flip(0.5):
        return first("although", side, main)
    return last(main_clause(main), "although", side)


def _judgement(cast: Cast, label: int, tense: str) -> Clause:
    """A clause in this tense that judges something: positively or negatively, as `label`
    requires."""
    return verdict(cast, reviewed(cast, liked=False), label, tense)


def grounds(cast: Cast, label: int) -> PhrasePair | None:
    """Two clauses joined by "because" that express the same opinion. Each may be negated."""
    about = reviewed(cast)
    main = attitude(cast, about, label)
    if not cast.can_be_meant(about):
        return None
    tense = "present" if main.tense == "present" else "past"
    if cast.rng.flip(0.35):
        main.object = phrases.pronoun_for(about, is_object=True)
        return first("because", verdict(cast, about, label, tense), main)
    it = phrases.pronoun_for(about)
    return last(main_clause(main), "because", verdict(cast, it, label, tense))


def hearsay(cast: Cast, label: int) -> PhrasePair:
    """A sentence that reports an opinion: "Anna says that the food was good", "Anna does not
    believe that it was bad"."""
    rng = cast.rng
    verb = rng.pick(CRITICS)
    stream = cast.actor(("person",), plain=True)
    telling, about = Clause(stream, verb), reviewed(cast, people=0.1, liked=False)
    if verb.english == "say":
        return that(main_clause(telling), verdict(cast, about, label))
    # In half of the sentences, one of the two clauses is negated.
    if rng.flip(0.3):
        telling = Clause(stream, verb, negation="not")
        return that(main_clause(telling), verdict(cast, about, -label, negated=0))
    return that(main_clause(telling), verdict(cast, about, label, negated=0.2 / 0.7))


def reputation(cast: Cast, label: int) -> PhrasePair:
    """An opinion, and a relative clause with the opposite opinion: "the film that Peter hated was
    good". The main clause determines the label."""
    about = reviewed(cast)
    whom = phrases.relative_phrase(about, "that")
    opinion = Clause(
        cast.actor(("person",), plain=True),
        cast.rng.pick(OPINIONS),
        cast.rng.pick(("present", "past")),
        object=whom,
    )
    if opinion.tense == "past" and not opinion.verb.past:
        opinion.tense = "perfect"
        opinion.conjugate()
    about.relative = relative_clause(opinion, whom, "acc")
    return main_clause(verdict(cast, about, label))
