"""The German of Toyland, checked by a reader that knows nothing of the generator."""

from itertools import pairwise

import pytest
from tests.toyland.german_reader import (
    CONTRACTIONS,
    DEFINITE,
    GENDER,
    NOUNS,
    OPENERS,
    PREFIXES,
    PREPOSITIONS,
    PRONOUNS,
    adjective_ending,
    determiner,
    is_plural_verb,
    noun_phrases,
    pieces,
)

from translucid.data.toyland import Sentence, generate

DATIVE_VERBS = ("help", "thank", "follow", "listen")
BE = ("am", "is", "are", "was", "were")
MODALS = ("can", "cannot", "must", "should", "may", "want", "wants")
HELPERS = (*BE, "has", "have", "had", "do", "does", "did", *MODALS)
SMALL = ("not", "never", "to", "want", "already", "just", "often", "always", "sometimes", "rarely")
TIMES = ("Tag", "Morgen", "Abend", "Sommer", "Woche")
GIVING = ("give", "show", "sen", "br", "tell", "told")


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    return [*generate(6000, seed=0), *generate(500, seed=1, split="test")]


def german_of(sentence: Sentence, english: int) -> list[int]:
    return [german for one, german in sentence.alignment if one == english]


def english_of(sentence: Sentence, german: int) -> list[int]:
    return [one for one, other in sentence.alignment if other == german]


def finite_verbs(sentence: Sentence) -> list[tuple[int, int]]:
    """(verb, subject) for the verbs that carry the person: the first one of each group."""
    found: list[tuple[int, int]] = []
    for verb, subject in sentence.subjects:
        before = [other for other, same in found if same == subject and other < verb]
        words = sentence.english
        helped = before and words[before[-1]] in HELPERS and _close(words, before[-1], verb)
        if not helped:
            found.append((verb, subject))
    return found


def _close(words: tuple[str, ...], helper: int, verb: int) -> bool:
    """Only negation, adverbs and another part of the verb stand between."""
    between = words[helper + 1 : verb]
    return all(word in SMALL for word in between) and words[verb] not in BE


@pytest.mark.slow
def test_article_adjective_and_noun_agree(sentences: list[Sentence]) -> None:
    seen = set()
    for sentence in sentences:
        for phrase in noun_phrases(sentence.german):
            assert phrase.readings, (sentence.german[phrase.start : phrase.noun + 1], sentence)
            seen.add(sentence.german[phrase.noun])
    assert len(seen) > 120  # the reader found the nouns at all


def test_every_capitalised_word_is_a_noun_or_a_name(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        for index, word in enumerate(sentence.german[1:], start=1):
            if not word[0].isupper() or word in NOUNS or word in ("Herr", "Herrn", "Hause"):
                continue
            assert any(sentence.entities[one] != "O" for one in english_of(sentence, index)), word


def test_prepositions_govern_their_case(sentences: list[Sentence]) -> None:
    checked = 0
    for sentence in sentences:
        for phrase in noun_phrases(sentence.german):
            before = sentence.german[phrase.start - 1] if phrase.start else ""
            cases = PREPOSITIONS.get(before.lower())
            if cases and sentence.german[phrase.start].lower() not in CONTRACTIONS:
                assert {case for _, case in phrase.readings} & cases, sentence
                checked += 1
    assert checked > 300


def test_going_takes_the_accusative_and_being_the_dative(sentences: list[Sentence]) -> None:
    checked = 0
    for sentence in sentences:
        for verb, _ in sentence.subjects:
            word = sentence.english[verb]
            case = {"lies": "dat", "lie": "dat", "stands": "dat", "puts": "acc"}.get(word)
            surfaces = ("auf", "unter", "hinter", "neben")
            if case is None or "on" in sentence.english[verb + 1 : verb + 2]:
                continue
            phrases = [
                phrase
                for phrase in noun_phrases(sentence.german)
                if phrase.start and sentence.german[phrase.start - 1] in surfaces
            ]
            if len(phrases) == 1:
                assert case in {case for _, case in phrases[0].readings}, sentence
                checked += 1
    assert checked > 100


def test_subjects_are_nominative_and_verbs_agree_with_them(sentences: list[Sentence]) -> None:
    checked = 0
    for sentence in sentences:
        phrases = {phrase.noun: phrase for phrase in noun_phrases(sentence.german)}
        for verb, subject in finite_verbs(sentence):
            nouns = [one for one in german_of(sentence, subject) if one in phrases]
            if not nouns or sentence.entities[subject] != "O":
                continue
            phrase = phrases[nouns[0]]
            forms = [
                sentence.german[one]
                for one in german_of(sentence, verb)
                if sentence.german[one] not in (*PREFIXES, "nicht", "kein")
            ]
            joined = sentence.english[subject + 1] == "and"
            plural = joined or {slot for slot, _ in phrase.readings} == {"p"}
            if not joined and {"p"} < {slot for slot, _ in phrase.readings}:
                continue  # "die Mädchen" cannot be mistaken, "Lehrer" alone can
            assert is_plural_verb(forms[0]) == plural, (forms, sentence)
            checked += 1
    assert checked > 3000


def test_subject_phrases_can_be_nominative_unless_the_clause_is_relative(
    sentences: list[Sentence],
) -> None:
    for sentence in sentences:
        phrases = {phrase.noun: phrase for phrase in noun_phrases(sentence.german)}
        relatives = {"who", "that"}
        for verb, subject in finite_verbs(sentence):
            if relatives & set(sentence.english[subject + 1 : verb]) or subject > verb:
                continue
            for noun in german_of(sentence, subject):
                if noun in phrases:
                    assert "nom" in {case for _, case in phrases[noun].readings}, sentence


def test_dative_verbs_take_the_dative_and_others_the_accusative(
    sentences: list[Sentence],
) -> None:
    datives = accusatives = 0
    for sentence in sentences:
        verbs = {verb for verb, _ in sentence.subjects}
        heads = {subject for _, subject in sentence.subjects}
        lexical = [
            sentence.english[verb] for verb in verbs if sentence.english[verb] not in HELPERS
        ]
        if (
            len(lexical) != 1
            or len(finite_verbs(sentence)) != 1
            or sentence.structure == "coordination"
        ):
            continue
        dative = lexical[0].startswith(DATIVE_VERBS)
        for phrase in noun_phrases(sentence.german):
            english = [one for one in english_of(sentence, phrase.noun) if one not in heads]
            after_preposition = (
                phrase.start and sentence.german[phrase.start - 1].lower() in PREPOSITIONS
            )
            own = sentence.german[phrase.start].lower() in CONTRACTIONS
            if not english or after_preposition or own or sentence.german[phrase.noun] in TIMES:
                continue
            cases = {case for _, case in phrase.readings}
            ditransitive = lexical[0].startswith(GIVING)
            if dative:
                assert "dat" in cases, sentence
                datives += 1
            elif not ditransitive:
                assert "acc" in cases, sentence
                accusatives += 1
    assert datives > 40
    assert accusatives > 300


def test_subordinate_clauses_end_in_the_finite_verb(sentences: list[Sentence]) -> None:
    conjunctions = relatives = 0
    for sentence in sentences:
        finite = {verb for verb, _ in finite_verbs(sentence)}
        for start, end in pieces(sentence.german):
            first = sentence.german[start].lower()
            is_relative = start > 0 and _opens_relative(sentence, start)
            if first not in OPENERS and not is_relative:
                continue
            last = sentence.german[end - 1]
            assert finite & set(english_of(sentence, end - 1)), (last, sentence)
            assert last not in PREFIXES, sentence
            conjunctions += not is_relative
            relatives += is_relative
    assert conjunctions > 1500
    assert relatives > 800


def _opens_relative(sentence: Sentence, start: int) -> bool:
    words = {sentence.english[one] for one in english_of(sentence, start)}
    return sentence.german[start] in (*DEFINITE, "denen") and bool(words & {"who", "that"})


def test_main_clauses_have_the_finite_verb_second(sentences: list[Sentence]) -> None:
    """A clause first, or time or place: then the verb, then the subject."""
    after_clause = after_adverb = 0
    for sentence in sentences:
        words = sentence.german
        finite = finite_verbs(sentence)
        verbs = {one: verb for verb, _ in finite for one in german_of(sentence, verb)}
        if words[0].lower() in OPENERS:
            comma = words.index(",")
            assert comma + 1 in verbs, sentence
            after_clause += 1
        elif sentence.english[0] in (
            "Today",
            "Now",
            "Yesterday",
            "Last",
            "In",
            "On",
            "At",
            "Every",
        ):
            verb, subject = finite[0]
            subject_at = min(german_of(sentence, subject))
            verb_at = min(german_of(sentence, verb))
            if sentence.english[0] == "Every" and sentence.english[1] != "day":
                assert subject_at < verb_at, sentence
                continue
            assert verb_at < subject_at, sentence
            adverbial = words[:verb_at]
            assert len(adverbial) <= 4, sentence  # one constituent: "in dem großen Garten"
            after_adverb += 1
    assert after_clause > 300
    assert after_adverb > 200


def test_separable_prefixes_stand_alone_at_the_end_of_a_main_clause(
    sentences: list[Sentence],
) -> None:
    apart = 0
    for sentence in sentences:
        words = sentence.german
        verbs = {verb for verb, _ in sentence.subjects}
        for index, word in enumerate(words):
            if word not in PREFIXES or words[index + 1] not in (",", ".", "und"):
                continue
            sources = english_of(sentence, index)
            assert any(one in verbs or one - 1 in verbs for one in sources), sentence
            apart += 1
        for start, end in pieces(words):
            inner = [word for word in words[start:end] if word in ("ab", "her", "weg", "zurück")]
            ends = {words[end - 1], *(words[i - 1] for i in range(start, end) if words[i] == "und")}
            assert set(inner) <= ends, sentence
    assert apart > 250


SEPARABLE = {  # the English verb, its particle, the German prefix
    ("call", ""): "an", ("invite", ""): "ein", ("pick", "up"): "ab", ("turn", "on"): "ein",
    ("put", "on"): "an", ("throw", "away"): "weg", ("hire", ""): "ein", ("produce", ""): "her",
    ("listen", "to"): "zu", ("reject", ""): "ab", ("get", "up"): "auf", ("wake", "up"): "auf",
    ("fall", "asleep"): "ein", ("come", "back"): "zurück",
}  # fmt: skip


def test_separable_verbs_always_have_their_prefix(sentences: list[Sentence]) -> None:
    """ruft ... an, anruft, anrufen, angerufen; in a subordinate clause in one word."""
    joined = apart = 0
    for sentence in sentences:
        inside = {
            index
            for start, end in pieces(sentence.german)
            if _verb_last(sentence, start)
            for index in range(start, end)
        }
        for verb, _ in sentence.subjects:
            word, after = sentence.english[verb : verb + 2]
            key = next((key for key in SEPARABLE if word in (key[0], key[0] + "s")), None)
            if key is None or (key[1] and after != key[1]):
                continue
            own = {verb, verb + 1} if key[1] else {verb}
            places = {german for english, german in sentence.alignment if english in own}
            forms = {sentence.german[one] for one in places}
            if {"legt", "legen"} & forms:  # puts on the table, not puts on a coat
                continue
            prefix = SEPARABLE[key]
            assert any(form.startswith(prefix) for form in forms), sentence
            if places & inside:
                assert prefix not in forms, sentence
                joined += 1
            else:
                apart += prefix in forms
    assert joined > 100
    assert apart > 250


def _verb_last(sentence: Sentence, start: int) -> bool:
    opens = sentence.german[start].lower() in OPENERS
    return opens or (start > 0 and _opens_relative(sentence, start))


def test_participles_and_infinitives_close_the_clause(sentences: list[Sentence]) -> None:
    checked = 0
    for sentence in sentences:
        words = sentence.german
        for verb, _ in sentence.subjects:
            if sentence.english[verb] not in ("has", "have", "can", "must", "should", "may"):
                continue
            if "and" in sentence.english or "but" in sentence.english:
                continue
            helper = german_of(sentence, verb)[0]
            main = [
                german_of(sentence, other)[0]
                for other, _ in sentence.subjects
                if other > verb and _close(sentence.english, verb, other)
            ]
            if not main:
                continue  # "has a dog"
            follower = words[main[0] + 1]
            assert follower in (",", ".") or main[0] + 1 == helper, sentence
            checked += 1
    assert checked > 800


def test_negation_is_said_once_by_nicht_or_kein(sentences: list[Sentence]) -> None:
    kein = 0
    for sentence in sentences:
        for index, word in enumerate(sentence.english):
            if word in ("not", "cannot"):
                said = [sentence.german[one] for one in german_of(sentence, index)]
                said = [one for one in said if one == "nicht" or one.startswith("kein")]
                assert len(said) == 1, sentence
                kein += said[0] != "nicht"
        for one, two, three in zip(
            sentence.german, sentence.german[1:], sentence.german[2:], strict=False
        ):
            article = two in ("ein", "eine", "einen", "einem") and three not in (",", ".", "und")
            assert not (one == "nicht" and article), sentence
    assert kein > 100


def test_contractions_are_always_used(sentences: list[Sentence]) -> None:
    apart = {("in", "dem"), ("in", "das"), ("an", "dem"), ("zu", "dem"), ("zu", "der")}
    apart |= {("von", "dem")}
    for sentence in sentences:
        lower = [word.lower() for word in sentence.german]
        assert not apart & set(pairwise(lower)), sentence


def test_pronouns_take_the_gender_of_their_german_noun(sentences: list[Sentence]) -> None:
    seen = set()
    for sentence in sentences:
        for pronoun, antecedent in sentence.antecedents:
            (german,) = german_of(sentence, pronoun)
            form = sentence.german[german]
            noun = sentence.german[german_of(sentence, antecedent)[0]]
            english = sentence.english[pronoun]
            after = sentence.german[german + 1]
            if english in ("his", "her", "their") and (after in NOUNS or adjective_ending(after)):
                stem = "sein" if english == "his" else "ihr"
                assert determiner(form), sentence
                assert form.startswith(stem), sentence
                continue
            if english in ("they", "them"):
                assert "p" in PRONOUNS[form], sentence
            elif noun in GENDER:
                assert GENDER[noun] in PRONOUNS[form], sentence
            seen.add((english, form))
    expected = {("it", "er"), ("it", "sie"), ("it", "es"), ("it", "ihn"), ("he", "er")}
    assert expected | {("she", "sie"), ("they", "sie"), ("him", "ihm"), ("her", "ihr")} <= seen


def test_predicate_adjectives_have_no_ending(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        for index, word in enumerate(sentence.german[:-1]):
            if adjective_ending(word) and word != "müde":
                follower = sentence.german[index + 1]
                assert follower in NOUNS or adjective_ending(follower), (word, sentence)
