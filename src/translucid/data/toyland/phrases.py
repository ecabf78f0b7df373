"""Noun phrases, names, pronouns and prepositional phrases, in both languages."""

from collections.abc import Callable
from dataclasses import dataclass

from translucid.data.toyland import german
from translucid.data.toyland.lexicon import Adjective, Adverb, Name, Noun
from translucid.data.toyland.particles import A, Determiner
from translucid.data.toyland.words import English, German, PhrasePair

# (case, English negation that "kein" would translate) -> German words
Declension = Callable[[str, English | None], list[German]]


@dataclass(eq=False, slots=True)
class Phrase:
    """A phrase that can be the subject or object of a verb, in both languages."""

    words: list[English]
    head: English
    german: Declension
    plural: bool
    slot: str  # German gender, or "p" for plural: determines the pronoun (er, sie, es)
    person: int = 3
    definite: bool = True
    is_pronoun: bool = False
    refers: str = ""  # the English pronoun that may replace it
    rivals: frozenset[str] = frozenset()  # all pronouns that a reader might relate to this phrase
    kinds: frozenset[str] = frozenset()
    relative: PhrasePair | None = None  # its relative clause; German may move it to the end

    def english(self) -> list[English]:
        return [*self.words, *(self.relative.english if self.relative else [])]


def article_for(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def noun_phrase(
    noun: Noun,
    determiner: Determiner,
    plural: bool = False,
    adjective: Adjective | None = None,
    owner: Phrase | None = None,
) -> Phrase:
    """A noun with its determiner and adjective. owner: the person that a possessive refers to, such
    as Peter in "his dog"."""
    head = English(noun.english_plural if plural else noun.english)
    quality = English(adjective.english) if adjective else None
    article: English | None = None
    if determiner.english:
        follower = quality.text if quality else head.text
        text = article_for(follower) if determiner is A else determiner.english
        article = English(text, antecedent=owner.head if owner and owner.refers else None)
    slot = "p" if plural else noun.gender

    def decline(case: str, no: English | None) -> list[German]:
        links = tuple(word for word in (no, article) if word is not None)
        words: list[German] = []
        style, stem = determiner.style, determiner.german
        if no is not None and not determiner.definite:
            style, stem = "ein-word", "kein"
        if style != "bare":
            words.append(German(german.determiner(style, stem, case, slot), links))
        if adjective and quality:
            words.append(German(german.inflected(adjective, style, case, slot), (quality,)))
        words.append(German(german.noun_form(noun, case, plural), (head,)))
        return words

    pronoun = "they" if plural else noun.pronoun
    rivals = {pronoun} if pronoun else {"he", "she", "it"}
    return Phrase(
        words=[word for word in (article, quality, head) if word is not None],
        head=head,
        german=decline,
        plural=plural,
        slot=slot,
        definite=determiner.definite,
        refers=pronoun,
        rivals=frozenset(rivals),
        kinds=noun.kinds,
    )


def proper_name(name: Name, last: str = "", title: Noun | None = None) -> Phrase:
    """A name, optionally with a family name (`last`) or a title such as Mr."""
    texts = [*name.english, *([last] if last else [])]
    words = [
        English(text, f"{'I' if index else 'B'}-{name.tag}") for index, text in enumerate(texts)
    ]
    spoken = [*name.german, *([last] if last else [])]
    address = English(title.english) if title else None

    def decline(case: str, no: English | None) -> list[German]:
        own = [German(text, (word,)) for text, word in zip(spoken, words, strict=True)]
        if title and address:
            own.insert(0, German(german.noun_form(title, case, plural=False), (address,)))
        return own

    pronoun = {"m": "he", "f": "she", "": "it"}[name.gender]
    return Phrase(
        words=[*([address] if address else []), *words],
        head=words[0],
        german=decline,
        plural=False,
        slot=name.gender or "n",
        refers=pronoun if name.gender else "",
        rivals=frozenset({pronoun}),
        kinds=name.kinds,
    )


def titled_name(noun: Noun, middle: str, name: Name) -> Phrase:
    """A noun and a name, such as "the company Jordan" or "the city of Florence". The noun is
    declined, the name is not. middle: the words between them."""
    article, head, own = English("the"), English(noun.english), proper_name(name)
    link = [English(middle)] if middle else []

    def decline(case: str, no: English | None) -> list[German]:
        return [
            German(german.definite(case, noun.gender), (article,)),
            German(german.noun_form(noun, case, plural=False), (head,)),
            *own.german(case, None),
        ]

    return Phrase(
        words=[article, head, *link, *own.words],
        head=head,
        german=decline,
        plural=False,
        slot=noun.gender,
        refers="it",
        rivals=frozenset({"it"}),
        kinds=name.kinds | noun.kinds,
    )


def _pronoun(word: English, decline: Declension, like: Phrase) -> Phrase:
    """A pronoun with the number, gender and kinds of the phrase `like`."""
    return Phrase(
        words=[word],
        head=word,
        german=decline,
        plural=like.plural,
        slot=like.slot,
        is_pronoun=True,
        kinds=like.kinds,
    )


def speaker(text: str, is_object: bool = False) -> Phrase:
    """A pronoun of the first person: I or we or, as an object, me or us."""
    word = English({"I": "me", "we": "us"}[text] if is_object else text)
    return Phrase(
        words=[word],
        head=word,
        german=lambda case, no: [German(german.SPEAKERS[text][case], (word,))],
        plural=text == "we",
        slot="p" if text == "we" else "m",
        person=1,
        is_pronoun=True,
        kinds=frozenset({"person"}),
    )


_OBJECT_FORMS = {"he": "him", "she": "her", "it": "it", "they": "them"}


def pronoun_for(target: Phrase, is_object: bool = False) -> Phrase:
    """The pronoun he, she, it or they for a phrase that occurs in a different clause."""
    text = _OBJECT_FORMS[target.refers] if is_object else target.refers
    word = English(text, antecedent=target.head)
    return _pronoun(
        word,
        lambda case, no: [German(german.personal_pronoun(case, target.slot), (word,))],
        target,
    )


def demonstrative() -> Phrase:
    """The pronoun "this", as in "this is a good hotel". The German pronoun is always "das"."""
    word = English("this")
    return Phrase(
        [word], word, lambda case, no: [German("das", (word,))], plural=False, slot="n",
        is_pronoun=True,
    )  # fmt: skip


def relative_phrase(target: Phrase, text: str) -> Phrase:
    """The pronoun "who" or "that", as subject or object of a relative clause about `target`."""
    word = English(text)
    phrase = _pronoun(
        word,
        lambda case, no: [German(german.relative_pronoun(case, target.slot), (word,))],
        target,
    )
    phrase.head = target.head  # the verb agrees with the noun
    return phrase


def silent(target: Phrase) -> Phrase:
    """A subject that is not repeated, such as the second Anna in "Anna reads a book and [Anna]
    drinks a coffee"."""
    phrase = _pronoun(target.head, lambda case, no: [], target)
    phrase.words, phrase.person = [], target.person
    return phrase


def together(first: Phrase, second: Phrase) -> Phrase:
    """Two phrases joined by "and". The result is plural; its head is that of the first phrase, as
    in treebanks."""
    word = English("and")
    return Phrase(
        words=[*first.words, word, *second.words],
        head=first.head,
        german=lambda case, no: [
            *first.german(case, None),
            German("und", (word,)),
            *second.german(case, None),
        ],
        plural=True,
        slot="p",
        refers="they",
        rivals=frozenset({"they"}),
        kinds=first.kinds & second.kinds,
    )


def prepositional(english: str, german_word: str, case: str, inner: Phrase) -> PhrasePair:
    """A preposition and its phrase. In German, words such as "in dem" are contracted to "im"."""
    before = [English(text) for text in english.split()]
    declined = inner.german(case, None)
    short = german.contracted(german_word, declined[0].text)
    if short and inner.words[0].text == "the":
        first = [German(short, (*before, *declined[0].links))]
        declined = declined[1:]
    else:
        first = [German(german_word, tuple(before))]
    return PhrasePair([*before, *inner.english()], [*first, *declined])


def adverbial(adverb: Adverb) -> PhrasePair:
    words = [English(text) for text in adverb.english]
    spoken = [
        German(text, tuple(words[index] for index in links))
        for text, links in zip(adverb.german, adverb.links, strict=True)
    ]
    return PhrasePair(words, spoken)


def quality(adjective: Adjective, intensifier: PhrasePair | None = None) -> PhrasePair:
    """A predicate adjective. In German, it has no ending."""
    word = English(adjective.english)
    before = intensifier or PhrasePair([], [])
    return PhrasePair([*before.english, word], [*before.german, German(adjective.german, (word,))])
