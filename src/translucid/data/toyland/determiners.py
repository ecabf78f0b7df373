"""What stands before a noun, and how it makes German decline."""

from dataclasses import dataclass


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
EVERY = Determiner("every", "der-word", "jed", False)  # "every man does not" is no English
MY = Determiner("my", "ein-word", "mein", True)
MANY = Determiner("many", "strong-word", "viel", False)
SOME = Determiner("some", "strong-word", "einig", False)
NO = Determiner("no", "ein-word", "kein", True)  # already negated: nothing left for "kein" to do
BARE = Determiner("", "bare", "", False)
POSSESSIVES = {
    "he": Determiner("his", "ein-word", "sein", True),
    "she": Determiner("her", "ein-word", "ihr", True),
    "they": Determiner("their", "ein-word", "ihr", True),
    "I": MY,
    "we": Determiner("our", "ein-word", "unser", True),
}


def numeral(english: str, german_word: str) -> Determiner:
    return Determiner(english, "numeral", german_word, False)
