"""What each task needs of a sentence, as plain records."""

from collections.abc import Iterable, Iterator

from translucid.data.toyland.words import Links, Sentence


def translation_pairs(sentences: Iterable[Sentence]) -> Iterator[tuple[str, str]]:
    """English text, German text."""
    return ((one.source, one.target) for one in sentences)


def sentiment_records(sentences: Iterable[Sentence]) -> Iterator[tuple[str, str]]:
    """English text, and positive, negative or neutral."""
    return ((one.source, one.sentiment) for one in sentences)


def entity_records(
    sentences: Iterable[Sentence],
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """English words, and a BIO tag for each."""
    return ((one.english, one.entities) for one in sentences)


def language_lines(sentences: Iterable[Sentence]) -> Iterator[str]:
    """English text alone, for a language model."""
    return (one.source for one in sentences)


def pharaoh(alignment: Links) -> str:
    """ "0-0 1-2": the usual way to write a word alignment, source index first."""
    return " ".join(f"{english}-{german}" for english, german in alignment)
