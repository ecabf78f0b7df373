"""The small words of Toyland: determiners and how they decline, adverbs, conjunctions, modal
verbs, numerals, prepositions of place."""

from dataclasses import dataclass

from translucid.data.toyland.lexicon import adverb

PRESENT_TIMES = (
    adverb("today", "heute"),
    adverb("now", "jetzt"),
    adverb("every day", "jeden Tag"),
    adverb("in the morning", "am Morgen", "01 2"),
    adverb("in the evening", "am Abend", "01 2"),
    adverb("in the summer", "im Sommer", "01 2"),
)
PERFECT_TIMES = (adverb("today", "heute"),)
MODAL_TIMES = (adverb("today", "heute"), adverb("tomorrow", "morgen"))
PAST_TIMES = (adverb("yesterday", "gestern"), adverb("last week", "letzte Woche"))

FREQUENCIES = (
    adverb("often", "oft"),
    adverb("always", "immer"),
    adverb("sometimes", "manchmal"),
    adverb("rarely", "selten"),
)
PERFECT_ADVERBS = (adverb("already", "schon"), adverb("just", "gerade"))
MANNERS = {
    "sing": (adverb("loudly", "laut"), adverb("softly", "leise"), adverb("alone", "allein")),
    "laugh": (adverb("loudly", "laut"), adverb("softly", "leise")),
    "bark": (adverb("loudly", "laut"),),
    "swim": (adverb("quickly", "schnell"), adverb("slowly", "langsam"), adverb("alone", "allein")),
    "work": (adverb("quickly", "schnell"), adverb("slowly", "langsam"), adverb("alone", "allein")),
    "dance": (adverb("alone", "allein"), adverb("slowly", "langsam")),
    "wait": (adverb("patiently", "geduldig"), adverb("alone", "allein")),
}
SPOTS = (
    adverb("here", "hier"),
    adverb("there", "dort"),
    adverb("outside", "draußen"),
    adverb("at home", "zu Hause"),
)
VERY = adverb("very", "sehr")

# English and German preposition for where something is (dative) or is put (accusative).
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
NO = Determiner("no", "ein-word", "kein", True)  # not negated once more by kein
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
