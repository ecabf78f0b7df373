"""An independent check of Toyland's German, written without looking at the generator.

The generator goes from meanings to forms; this file goes from forms back to meanings. It has its
own dictionary (gender and plural of every noun, typed in by hand) and its own tables of the cases
that an article or an ending can mark. A phrase is correct if some reading fits all of its words.
"""

from dataclasses import dataclass

MASCULINE = """Mann/Männer Junge/Jungen Vater/Väter Bruder/Brüder Lehrer/Lehrer Student/Studenten
    Arzt/Ärzte Bauer/Bauern Nachbar/Nachbarn Freund/Freunde Bäcker/Bäcker Koch/Köche Maler/Maler
    Kellner/Kellner Hund/Hunde Vogel/Vögel Bär/Bären Kuchen/Kuchen Apfel/Äpfel Käse Kaffee Tee Wein
    Roman/Romane Brief/Briefe Film/Filme Vortrag/Vorträge Plan/Pläne Schlüssel/Schlüssel
    Löffel/Löffel Computer/Computer Ball/Bälle Regenschirm/Regenschirme Mantel/Mäntel Tisch/Tische
    Stuhl/Stühle Bus/Busse Garten/Gärten Park/Parks Wald/Wälder Bahnhof/Bahnhöfe Markt/Märkte
    Strand/Strände Bauernhof/Bauernhöfe Service Morgen/Morgen Abend/Abende Sommer/Sommer
    Tag/Tage"""
FEMININE = """Frau/Frauen Mutter/Mütter Schwester/Schwestern Tochter/Töchter
    Krankenschwester/Krankenschwestern Katze/Katzen Kuh/Kühe Maus/Mäuse Birne/Birnen
    Kartoffel/Kartoffeln Suppe/Suppen Milch Zeitung/Zeitungen Geschichte/Geschichten Reise/Reisen
    Feier/Feiern Tasse/Tassen Flasche/Flaschen Lampe/Lampen Blume/Blumen Tasche/Taschen Tür/Türen
    Küche/Küchen Schule/Schulen Stadt/Städte Kirche/Kirchen Straße/Straßen Musik Zeit Firma/Firmen
    Woche/Wochen"""
NEUTER = """Kind/Kinder Mädchen/Mädchen Pferd/Pferde Kaninchen/Kaninchen Brot Ei/Eier Wasser
    Buch/Bücher Lied/Lieder Konzert/Konzerte Bild/Bilder Kleid/Kleider Bett/Betten Fenster/Fenster
    Auto/Autos Fahrrad/Fahrräder Haus/Häuser Dorf/Dörfer Museum/Museen Krankenhaus/Krankenhäuser
    Büro/Büros Restaurant/Restaurants Hotel/Hotels Zimmer/Zimmer Essen Wetter"""
WEAK = {  # nouns with weak declension: der Junge, but den Jungen
    "Junge": "Jungen", "Student": "Studenten", "Bauer": "Bauern", "Nachbar": "Nachbarn",
    "Bär": "Bären",
}  # fmt: skip

Reading = tuple[str, str]  # gender or "p" for plural; case
CASES = ("nom", "acc", "dat")


def noun_readings() -> dict[str, set[Reading]]:
    found: dict[str, set[Reading]] = {}
    for gender, words in (("m", MASCULINE), ("f", FEMININE), ("n", NEUTER)):
        for entry in words.split():
            singular, _, plural = entry.partition("/")
            for case in CASES:
                form = singular if case == "nom" else WEAK.get(singular, singular)
                found.setdefault(form, set()).add((gender, case))
            if plural:
                dative = plural if plural[-1] in "ns" else plural + "n"
                for form, cases in ((plural, ("nom", "acc")), (dative, ("dat",))):
                    found.setdefault(form, set()).update(("p", case) for case in cases)
    return found


NOUNS = noun_readings()
GENDER = {
    entry.partition("/")[0]: gender
    for gender, words in (("m", MASCULINE), ("f", FEMININE), ("n", NEUTER))
    for entry in words.split()
}


def table(text: str) -> dict[str, set[Reading]]:
    """Parse `form: m nom, f dat; form: ...` into the readings of each form."""
    found: dict[str, set[Reading]] = {}
    for entry in text.replace("\n", " ").split(";"):
        form, _, readings = entry.strip().partition(":")
        pairs = (reading.split() for reading in readings.split(","))
        found[form] = {(slot, case) for slot, case in pairs}
    return found


DEFINITE = table("""der: m nom, f dat; die: f nom, f acc, p nom, p acc; das: n nom, n acc;
    den: m acc, p dat; dem: m dat, n dat; im: m dat, n dat; am: m dat, n dat; zum: m dat, n dat;
    vom: m dat, n dat; zur: f dat; ins: n acc""")
ENDINGS = table("""er: m nom, f dat; e: f nom, f acc, p nom, p acc; es: n nom, n acc;
    en: m acc, p dat; em: m dat, n dat""")  # of dieser, jeder, viele; also the strong adjective
SHORT_ENDINGS = ENDINGS | {"": {("m", "nom"), ("n", "nom"), ("n", "acc")}}  # of ein, kein, mein
EVERY: set[Reading] = {(slot, case) for slot in "mfnp" for case in CASES}
WEAK_E: set[Reading] = {("m", "nom"), ("f", "nom"), ("n", "nom"), ("f", "acc"), ("n", "acc")}
ADJECTIVE = {  # readings of an ending, by the kind of word before it
    "definite": {"e": WEAK_E, "en": EVERY - WEAK_E},
    "ein": {
        "er": {("m", "nom")},
        "es": {("n", "nom"), ("n", "acc")},
        "e": {("f", "nom"), ("f", "acc")},
        "en": EVERY - WEAK_E,
    },
    "none": ENDINGS,
}
STEMS = tuple(
    word
    for line in (
        "groß klein alt neu jung müd hungrig durstig krank neugierig reich arm rot grün blau weiß",
        "schwarz lang kurz schwer warm kalt frisch wichtig kaputt gut schlecht großartig",
        "schrecklich wunderbar furchtbar ausgezeichnet entsetzlich lecker ekelhaft spannend",
        "langweilig schön hässlich freundlich unfreundlich letzt",
    )
    for word in line.split()
)
NUMERALS = ("zwei", "drei", "vier", "fünf", "zehn")
PREPOSITIONS = {
    "in": {"acc", "dat"}, "an": {"acc", "dat"}, "auf": {"acc", "dat"}, "unter": {"acc", "dat"},
    "hinter": {"acc", "dat"}, "neben": {"acc", "dat"}, "mit": {"dat"}, "von": {"dat"},
    "zu": {"dat"}, "nach": {"dat"}, "für": {"acc"},
}  # fmt: skip
CONTRACTIONS = ("im", "am", "zum", "vom", "zur", "ins")
OPENERS = ("weil", "obwohl", "wenn", "während", "bevor", "dass")
PREFIXES = ("an", "ab", "auf", "ein", "her", "weg", "zu", "zurück")
PRONOUNS = {
    "er": "m", "ihn": "m", "es": "n", "ihnen": "p",
    "ihm": "mn", "sie": "fp", "ihr": "f",
}  # fmt: skip


def determiner(word: str) -> tuple[str, set[Reading]] | None:
    """The kind of a word that precedes a noun, with its readings; None for other words."""
    if word in DEFINITE:
        return "definite", DEFINITE[word]
    for stem in ("dies", "jed"):
        if word.startswith(stem) and word[len(stem) :] in ENDINGS:
            return "definite", ENDINGS[word[len(stem) :]]
    for stem in ("viel", "einig"):
        if word.startswith(stem) and word[len(stem) :] in ENDINGS:
            return "none", {one for one in ENDINGS[word[len(stem) :]] if one[0] == "p"}
    for stem in ("ein", "kein", "mein", "sein", "ihr", "unser"):
        if word.startswith(stem) and word[len(stem) :] in SHORT_ENDINGS:
            readings = SHORT_ENDINGS[word[len(stem) :]]
            return "ein", {one for one in readings if stem != "ein" or one[0] != "p"}
    if word in NUMERALS:
        return "none", {("p", case) for case in CASES}
    return None


def adjective_ending(word: str) -> str | None:
    for stem in STEMS:
        ending = word[len(stem) :]
        if word.startswith(stem) and ending in ("e", "en", "er", "es", "em"):
            return ending
    return None


@dataclass(frozen=True)
class NounPhrase:
    start: int
    noun: int  # index of its noun
    readings: frozenset[Reading]  # all that fit every word; if empty, the phrase is wrong


def noun_phrases(words: tuple[str, ...]) -> list[NounPhrase]:
    """Every noun with its adjectives and its article, except titles before names."""
    lower = [words[0][0].lower() + words[0][1:], *words[1:]]
    lower[0] = words[0] if words[0] in NOUNS else lower[0]
    found = []
    for noun, word in enumerate(lower):
        after = words[noun + 1] if noun + 1 < len(words) else ""
        if word not in NOUNS or (word == "Frau" and after[:1].isupper()):
            continue
        start, endings = noun, []
        while start > 0 and (ending := adjective_ending(lower[start - 1])):
            endings.append(ending)
            start -= 1
        kind, readings = "none", EVERY
        before = determiner(lower[start - 1]) if start > 0 else None
        if before is not None:
            kind, readings = before
            start -= 1
        for ending in endings:
            readings = readings & ADJECTIVE[kind].get(ending, set())
        readings = readings & NOUNS[word]
        found.append(NounPhrase(start, noun, frozenset(readings)))
    return found


def is_plural_verb(form: str) -> bool:
    """Whether a verb form fits wir and sie: every finite plural ends in -en, except sind; no
    singular does."""
    return form.lower() == "sind" or form.endswith("en")


def pieces(words: tuple[str, ...]) -> list[tuple[int, int]]:
    """The parts of a sentence between commas, as (start, end) without the end."""
    ends = [index for index, word in enumerate(words) if word in (",", ".")]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return list(zip(starts, ends, strict=True))
