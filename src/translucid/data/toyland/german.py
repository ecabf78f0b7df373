"""German inflection: articles, endings, pronouns, verb forms.

Cases are "nom", "acc", "dat". A slot is a gender, "m" "f" "n", or "p" for every plural.
"""

from translucid.data.toyland.lexicon import BE, HAVE, Adjective, Noun, Verb
from translucid.data.toyland.particles import MODALS

# Rows: cases. Columns: m, f, n, p.
_COLUMNS = "mfnp"
_DEFINITE = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
}
_DER_WORD = {  # dies-, jed-, viel-, einig-; also the strong adjective
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
}
_EIN_WORD = {  # ein-, kein-, mein-
    "nom": ("", "e", "", "e"),
    "acc": ("en", "e", "", "e"),
    "dat": ("em", "er", "em", "en"),
}
_WEAK = {
    "nom": ("e", "e", "e", "en"),
    "acc": ("en", "e", "e", "en"),
    "dat": ("en", "en", "en", "en"),
}
_MIXED = {
    "nom": ("er", "e", "es", "en"),
    "acc": ("en", "e", "es", "en"),
    "dat": ("en", "en", "en", "en"),
}
_ADJECTIVE = {"weak": _WEAK, "mixed": _MIXED, "strong": _DER_WORD}

_PERSONAL = {
    "m": {"nom": "er", "acc": "ihn", "dat": "ihm"},
    "f": {"nom": "sie", "acc": "sie", "dat": "ihr"},
    "n": {"nom": "es", "acc": "es", "dat": "ihm"},
    "p": {"nom": "sie", "acc": "sie", "dat": "ihnen"},
}
SPEAKERS = {
    "I": {"nom": "ich", "acc": "mich", "dat": "mir"},
    "we": {"nom": "wir", "acc": "uns", "dat": "uns"},
}
_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


def definite(case: str, slot: str) -> str:
    return _DEFINITE[case][_COLUMNS.index(slot)]


def der_word(stem: str, case: str, slot: str) -> str:
    return stem + _DER_WORD[case][_COLUMNS.index(slot)]


def ein_word(stem: str, case: str, slot: str) -> str:
    return stem + _EIN_WORD[case][_COLUMNS.index(slot)]


def inflected(adjective: Adjective, declension: str, case: str, slot: str) -> str:
    return adjective.stem + _ADJECTIVE[declension][case][_COLUMNS.index(slot)]


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    if not plural:
        return noun.german if case == "nom" else noun.oblique
    if case == "dat" and not noun.german_plural.endswith(("n", "s")):
        return noun.german_plural + "n"
    return noun.german_plural


def relative_pronoun(case: str, slot: str) -> str:
    return "denen" if (case, slot) == ("dat", "p") else definite(case, slot)


def personal_pronoun(case: str, slot: str) -> str:
    return _PERSONAL[slot][case]


def contracted(preposition: str, article: str) -> str:
    """im, ins, am, zum, zur, vom; empty where the two words stay apart."""
    return _CONTRACTIONS.get((preposition, article), "")


def finite(verb: Verb, tense: str, person: int, plural: bool) -> str:
    """The form in the present or simple past, without its separable prefix."""
    if tense == "past":
        ending = "n" if verb.german_past.endswith("e") else "en"
        return verb.german_past + (ending if plural else "")
    if plural:
        return "sind" if verb.infinitive == "sein" else verb.infinitive
    return verb.german_first if person == 1 else verb.german_third


def auxiliary(verb: Verb, person: int, plural: bool) -> str:
    """The form of haben or sein for the perfect."""
    return finite(BE if verb.is_movement else HAVE, "present", person, plural)


def modal(name: str, plural: bool) -> str:
    return MODALS[name][plural]
