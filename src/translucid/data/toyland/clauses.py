"""Build clauses (who does what to whom) in English word order and in the three German ones.

German puts the finite verb second in a main clause and last in a subordinate clause; participles,
infinitives and separable prefixes come at the end. Before the end is the middle field, in this
order:

    subject · pronouns · time · receiver · oft · known object · nicht, schon · manner · place · new
"""

from dataclasses import dataclass, field

from translucid.data.toyland import german
from translucid.data.toyland.lexicon import Verb
from translucid.data.toyland.particles import CONJUNCTIONS
from translucid.data.toyland.phrases import Phrase
from translucid.data.toyland.words import English, German, PhrasePair

EMPTY = PhrasePair([], [])


@dataclass(eq=False, slots=True)
class Clause:
    """The plan of a clause: verb, tense, subject, objects and so on. Its phrases may occur in a
    sentence only once, so a clause is turned into words only once."""

    subject: Phrase
    verb: Verb
    tense: str = "present"  # present, past, perfect, or the name of a modal verb
    negation: str = ""  # not, never
    adverb: PhrasePair = EMPTY  # often, already
    time: PhrasePair = EMPTY
    recipient: Phrase | None = None  # dative
    object: Phrase | None = None
    object_case: str = "acc"
    complement: PhrasePair = EMPTY  # predicate, direction, prepositional object
    manner: PhrasePair = EMPTY
    place: PhrasePair = EMPTY
    spoken: "Spoken" = field(init=False)

    def __post_init__(self) -> None:
        self.conjugate()

    def conjugate(self) -> None:
        """Conjugate the verb; call this again when the subject or tense has changed."""
        self.spoken = _conjugated(self)

    def objects(self) -> list[tuple[Phrase, str]]:
        both = ((self.recipient, "dat"), (self.object, self.object_case))
        return [(phrase, case) for phrase, case in both if phrase is not None]


@dataclass(slots=True)
class Spoken:
    """The words of the verb in both languages, before they are put in order."""

    before: list[English]  # has, does not, never
    lexical: list[English]  # the verb and its particle
    finite: list[English]  # the words that the German finite verb translates
    finite_text: str
    prefix: str = ""
    prefix_links: tuple[English, ...] = ()
    nonfinite: list[German] = field(default_factory=list)
    no: English | None = None  # the negation that "nicht" or "kein" translates
    never: PhrasePair = EMPTY


def _conjugated(clause: Clause) -> Spoken:
    """The English and the German verb of a clause, its auxiliary and its negation."""
    verb, subject, tense = clause.verb, clause.subject, clause.tense
    third = subject.person == 3 and not subject.plural
    not_ = [English("not")] if clause.negation == "not" else []
    never = EMPTY
    if clause.negation == "never":
        word = English("never")
        never = PhrasePair([word], [German("nie", (word,))])
    adverbs = [*never.english, *clause.adverb.english]

    particle = [English(verb.particle)] if verb.particle else []
    if verb.frame == "be":
        lexical = English(_form_of_be(subject, tense))
        text = german.finite(verb, tense, subject.person, subject.plural)
        spoken = Spoken([lexical, *not_, *adverbs], [], [lexical], text)
    elif tense == "perfect":
        helper, lexical = English("has" if third else "have"), English(verb.participle.split()[0])
        text = german.auxiliary(verb, subject.person, subject.plural)
        participle = German(verb.german_participle, (lexical, *particle))
        spoken = Spoken([helper, *not_, *adverbs], [lexical, *particle], [helper], text)
        spoken.nonfinite = [participle]
    elif tense in ("present", "past"):
        spoken = _simple(clause, third, not_, adverbs, particle)
    else:
        spoken = _modal(clause, third, not_, adverbs, particle)

    spoken.never = never
    if not_:
        spoken.no = not_[0]
    for word in (*spoken.before, *spoken.lexical[:1]):
        if word.text not in ("not", "never", "to") and word not in clause.adverb.english:
            word.subject = subject.head
    return spoken


def _simple(
    clause: Clause,
    third: bool,
    not_: list[English],
    adverbs: list[English],
    particle: list[English],
) -> Spoken:
    verb, subject, past = clause.verb, clause.subject, clause.tense == "past"
    text = german.finite(verb, clause.tense, subject.person, subject.plural)
    if not_:
        helper = English("did" if past else "does" if third else "do")
        lexical = English(verb.english)
        before, finite = [helper, *not_], [helper, lexical]
    else:
        lexical = English(verb.past if past else verb.third if third else verb.english)
        before, finite = adverbs, [lexical]
    spoken = Spoken(before, [lexical, *particle], finite, text)
    if verb.prefix:
        spoken.prefix = verb.prefix
        spoken.prefix_links = tuple(particle) or (lexical,)
    else:
        spoken.finite = [*finite, *particle]
    return spoken


def _modal(
    clause: Clause,
    third: bool,
    not_: list[English],
    adverbs: list[English],
    particle: list[English],
) -> Spoken:
    verb, name = clause.verb, clause.tense
    lexical = English(verb.english)
    to: list[English] = []
    if name == "want":
        to = [English("to")]
        if not_:
            helper, want = English("does" if third else "do"), English("want")
            before, finite = [helper, *not_, want], [helper, want]
        else:
            want = English("wants" if third else "want")
            before, finite = [*adverbs, want], [want]
    elif name == "can" and not_:
        not_[0].text = "cannot"
        before, finite = [*not_], [*not_]
    else:
        helper = English(name)
        before, finite = [helper, *not_, *adverbs], [helper]
    text = german.modal(name, clause.subject.plural)
    spoken = Spoken([*before, *to], [lexical, *particle], finite, text)
    spoken.nonfinite = [German(verb.prefix + verb.infinitive, (*to, lexical, *particle))]
    return spoken


def _form_of_be(subject: Phrase, tense: str) -> str:
    if tense == "past":
        return "were" if subject.plural else "was"
    return "are" if subject.plural else {1: "am", 3: "is"}[subject.person]


def english_clause(clause: Clause, front: str = "") -> list[English]:
    """The English words of a clause. front: "time" or "place" if this phrase comes first."""
    verb = clause.spoken
    inner = [phrase for phrase, _ in clause.objects() if not _is_relative(phrase)]
    return [
        *(clause.time.english if front == "time" else []),
        *(clause.place.english if front == "place" else []),
        *clause.subject.english(),
        *verb.before,
        *verb.lexical,
        *(word for phrase in inner for word in phrase.english()),
        *clause.complement.english,
        *clause.manner.english,
        *(clause.place.english if front != "place" else []),
        *(clause.time.english if front != "time" else []),
    ]


def _is_relative(phrase: Phrase) -> bool:
    return phrase.is_pronoun and bool(phrase.words) and phrase.head is not phrase.words[0]


def _subject(clause: Clause) -> list[German]:
    return [*clause.subject.german("nom", None), *set_off(clause.subject.relative)]


def set_off(relative: PhrasePair | None) -> list[German]:
    """A relative clause between commas, as German words; empty if there is none."""
    return [German(","), *relative.german, German(",")] if relative else []


def _middle(clause: Clause, front: str) -> list[German]:
    """The German words between the finite verb and the end of the clause, without the subject."""
    spoken = clause.spoken
    pronouns: list[German] = []
    receiver: list[German] = []
    settled: list[German] = []
    new: list[German] = []
    no = spoken.no
    for phrase, case in clause.objects():
        if _is_relative(phrase):
            continue
        if phrase.is_pronoun:
            pronouns += phrase.german(case, None)
        elif phrase.definite:
            place = receiver if phrase is clause.recipient else settled
            place += phrase.german(case, None)
        else:
            new += phrase.german(case, no)
            no = None  # the negation is translated by "kein"
    nicht = [German("nicht", (no,))] if no else []
    late = any(word.text == "schon" for word in clause.adverb.german)
    return [
        *pronouns,
        *(clause.time.german if front != "time" else []),
        *receiver,
        *([] if late else clause.adverb.german),  # oft ein Buch, oft das Buch
        *settled,
        *(clause.adverb.german if late else []),  # das Buch schon
        *spoken.never.german,
        *nicht,
        *clause.manner.german,
        *(clause.place.german if front != "place" else []),
        *new,
        *clause.complement.german,
    ]


def _end(clause: Clause) -> list[German]:
    """The German relative clauses of objects, which follow the verb."""
    return [word for phrase, _ in clause.objects() for word in set_off(phrase.relative)]


def main_clause(clause: Clause, front: str = "subject") -> PhrasePair:
    """A main clause, in which the German verb is in second position. front: what comes first:
    "subject", "time", "place", or "clause" if a subordinate clause comes before the main clause."""
    spoken = clause.spoken
    finite = German(spoken.finite_text, tuple(spoken.finite))
    prefix = [German(spoken.prefix, spoken.prefix_links)] if spoken.prefix else []
    if front == "subject":
        opening = _subject(clause)
    elif front == "clause":
        opening = []
    else:
        opening = clause.time.german if front == "time" else clause.place.german
    words = [
        *opening,
        finite,
        *([] if front == "subject" else _subject(clause)),
        *_middle(clause, front),
        *prefix,
        *spoken.nonfinite,
        *_end(clause),
    ]
    return PhrasePair(english_clause(clause, front), words)


def verb_last(clause: Clause) -> list[German]:
    """The German words of a subordinate clause, in which the finite verb comes last. The word that
    opens the clause is not included."""
    spoken = clause.spoken
    links = (*spoken.finite, *spoken.prefix_links)
    finite = German(spoken.prefix + spoken.finite_text, tuple(dict.fromkeys(links)))
    return [
        *([] if _is_relative(clause.subject) else _subject(clause)),
        *_middle(clause, front=""),
        *spoken.nonfinite,
        finite,
        *_end(clause),
    ]


def subordinate(conjunction: str, clause: Clause) -> PhrasePair:
    """A subordinate clause that begins with its conjunction (because, although, that, ...), without
    commas around it. The German verb comes last."""
    word = English(conjunction)
    opening = German(CONJUNCTIONS[conjunction], (word,))
    return PhrasePair([word, *english_clause(clause)], [opening, *verb_last(clause)])


def relative_clause(clause: Clause, pronoun: Phrase, case: str) -> PhrasePair:
    """A relative clause. It begins with the pronoun, which is its subject or object. case: the
    German case of the pronoun."""
    opening = [] if pronoun is clause.subject else pronoun.words
    return PhrasePair(
        [*opening, *english_clause(clause)], [*pronoun.german(case, None), *verb_last(clause)]
    )


def join_pairs(*parts: PhrasePair) -> PhrasePair:
    return PhrasePair(
        [word for part in parts for word in part.english],
        [word for part in parts for word in part.german],
    )
