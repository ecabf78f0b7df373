"""Binary labels for each English word of a sentence, to test what the units of a model detect."""

from collections.abc import Callable, Mapping

from translucid.data.toyland.lexicon import NOUNS
from translucid.data.toyland.words import Sentence

NEGATIONS = ("not", "never", "no")
PLURALS = frozenset(noun.english_plural for noun in NOUNS.values()) - {*NOUNS}
PERFECT = ("has", "have")
Flags = tuple[bool, ...]


def _word(is_so: Callable[[str], bool]) -> Callable[[Sentence], Flags]:
    return lambda sentence: tuple(is_so(word.lower()) for word in sentence.english)


def _after_negation(sentence: Sentence) -> Flags:
    """For each word, whether it is a negation or comes after one. A left-to-right model may
    remember this."""
    seen, flags = False, []
    for word in sentence.english:
        seen = seen or word.lower() in NEGATIONS
        flags.append(seen)
    return tuple(flags)


def _all(is_so: Callable[[Sentence], bool]) -> Callable[[Sentence], Flags]:
    return lambda sentence: (is_so(sentence),) * len(sentence.english)


def _tagged(tag: str) -> Callable[[Sentence], Flags]:
    return lambda sentence: tuple(label.endswith(tag) for label in sentence.entities)


def _at(places: Callable[[Sentence], set[int]]) -> Callable[[Sentence], Flags]:
    return lambda sentence: tuple(
        place in places(sentence) for place in range(len(sentence.english))
    )


def _auxiliaries(sentence: Sentence) -> set[int]:
    """The indices of "has" and "have" that are auxiliaries of the perfect. A second verb with the
    same subject follows them."""
    subject = dict(sentence.subjects)
    return {
        verb
        for verb, head in sentence.subjects
        if sentence.english[verb].lower() in PERFECT
        and any(other > verb and subject[other] == head for other in subject)
    }


FEATURES: Mapping[str, Callable[[Sentence], Flags]] = {
    "a negation": _word(lambda word: word in NEGATIONS),
    "after a negation": _after_negation,
    "a negated sentence": _all(lambda one: any(w.lower() in NEGATIONS for w in one.english)),
    "a plural noun": _word(lambda word: word in PLURALS),
    "a verb": _at(lambda one: {verb for verb, _ in one.subjects}),
    "the head of a subject": _at(lambda one: {head for _, head in one.subjects}),
    "a pronoun": _at(lambda one: {pronoun for pronoun, _ in one.antecedents}),
    "the perfect": _at(_auxiliaries),
    "a person": _tagged("PER"),
    "a place": _tagged("LOC"),
    "a company": _tagged("ORG"),
    "a positive sentence": _all(lambda one: one.sentiment == "positive"),
    "a negative sentence": _all(lambda one: one.sentiment == "negative"),
}


def starts(sentence: Sentence) -> list[int]:
    """The character offset of each English word in `sentence.source`."""
    places, text, at = [], sentence.source, 0
    for word in sentence.english:
        at = text.index(word, at)
        places.append(at)
        at += len(word)
    return places
