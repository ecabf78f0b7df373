"""The function words of Toyland: determiners, adverbs, conjunctions, modal verbs, numerals,
prepositions of place."""

from dataclasses import dataclass

from translucid.data.toyland.lexicon import ADVERBS, Adverb


def _adverbs(names: str) -> tuple[Adverb, ...]:
    return tuple(ADVERBS[name] for name in names.split(", "))


PRESENT_TIMES = _adverbs("today, now, every day, in the morning, in the evening, in the summer")
PERFECT_TIMES = _adverbs("today")
MODAL_TIMES = _adverbs("today, tomorrow")
PAST_TIMES = _adverbs("yesterday, last week")
FREQUENCIES = _adverbs("often, always, sometimes, rarely")
PERFECT_ADVERBS = _adverbs("already, just")
MANNERS = {
    "sing": _adverbs("loudly, softly, alone"),
    "laugh": _adverbs("loudly, softly"),
    "bark": _adverbs("loudly"),
    "swim": _adverbs("quickly, slowly, alone"),
    "work": _adverbs("quickly, slowly, alone"),
    "dance": _adverbs("alone, slowly"),
    "wait": _adverbs("patiently, alone"),
}
SPOTS = _adverbs("here, there, outside, at home")
VERY = ADVERBS["very"]

# English and German prepositions. The German case is dative for a location, accusative for a
# direction.
SURFACES = (("on", "auf"), ("under", "unter"), ("behind", "hinter"), ("next to", "neben"))

CONJUNCTIONS = {
    "because": "weil",
    "although": "obwohl",
    "when": "wenn",
    "if": "wenn",
    "while": "während",
    "before": "bevor",
    "that": "dass",
    "and": "und",
    "but": "aber",
}


MODALS = {  # singular (ich, er), plural (wir, sie)
    "can": ("kann", "können"),
    "must": ("muss", "müssen"),
    "should": ("sollte", "sollten"),
    "may": ("darf", "dürfen"),
    "want": ("will", "wollen"),
}


@dataclass(frozen=True, slots=True)
class Determiner:
    english: str  # empty for none
    style: str  # the, der-word, ein-word, numeral, bare
    german: str  # a stem, or the whole word of a numeral
    definite: bool


THE = Determiner("the", "the", "", True)
A = Determiner("a", "ein-word", "ein", False)
THIS = Determiner("this", "der-word", "dies", True)
THESE = Determiner("these", "der-word", "dies", True)
EVERY = Determiner("every", "der-word", "jed", False)  # English does not negate "every man"
MY = Determiner("my", "ein-word", "mein", True)
MANY = Determiner("many", "strong-word", "viel", False)
SOME = Determiner("some", "strong-word", "einig", False)
NO = Determiner("no", "ein-word", "kein", True)  # definite, so that it is not negated again
BARE = Determiner("", "bare", "", False)
POSSESSIVES = {
    "he": Determiner("his", "ein-word", "sein", True),
    "she": Determiner("her", "ein-word", "ihr", True),
    "they": Determiner("their", "ein-word", "ihr", True),
    "I": MY,
    "we": Determiner("our", "ein-word", "unser", True),
}
NUMERALS = tuple(
    Determiner(english, "numeral", german, False)
    for english, german in (
        ("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf"), ("ten", "zehn"),
    )
)  # fmt: skip
