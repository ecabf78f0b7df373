"""German inflection: articles, endings, pronouns, verb forms.

Cases are "nom", "acc" and "dat". A slot is a gender ("m", "f" or "n"), or "p" for the plural of all
genders.
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
# The endings, by the style of the determiner.
_DETERMINER = {
    "the": _DEFINITE, "der-word": _DER_WORD, "strong-word": _DER_WORD, "ein-word": _EIN_WORD,
}  # fmt: skip
_ADJECTIVE = {"the": _WEAK, "der-word": _WEAK, "ein-word": _MIXED}  # others: strong

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


def determiner(style: str, stem: str, case: str, slot: str) -> str:
    """The inflected determiner. style: a style that occurs in `particles`; numerals have no
    endings."""
    return stem + (_DETERMINER[style][case][_COLUMNS.index(slot)] if style in _DETERMINER else "")


def definite(case: str, slot: str) -> str:
    return determiner("the", "", case, slot)


def inflected(adjective: Adjective, style: str, case: str, slot: str) -> str:
    """The inflected form of an adjective after a determiner of this style."""
    return adjective.stem + _ADJECTIVE.get(style, _DER_WORD)[case][_COLUMNS.index(slot)]


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
    """The contraction of a preposition and an article (im, ins, am, zum, zur, vom); empty if the
    two words are not contracted."""
    return _CONTRACTIONS.get((preposition, article), "")


def finite(verb: Verb, tense: str, person: int, plural: bool) -> str:
    """The form of a verb in the present or simple past, without its separable prefix."""
    if tense == "past":
        ending = "n" if verb.german_past.endswith("e") else "en"
        return verb.german_past + (ending if plural else "")
    if plural:
        return "sind" if verb.infinitive == "sein" else verb.infinitive
    return verb.german_first if person == 1 else verb.german_third


def auxiliary(verb: Verb, person: int, plural: bool) -> str:
    """The form of haben or sein with which a verb forms its perfect."""
    return finite(BE if verb.is_movement else HAVE, "present", person, plural)


def modal(name: str, plural: bool) -> str:
    return MODALS[name][plural]
