"""Map word labels to subwords, and tags to spans of characters.

The first subword of a word has the word's label; the other subwords are ignored by the loss and in
predictions.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from translucid.core.errors import InputError

_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
_TAG = re.compile(r"O|[BIESLU]-.+", re.DOTALL)
# The marks L (last) and U (unit) of BILOU correspond to E (end) and S (single) of BIOES.
_SAME = {"L": "E", "U": "S"}


@dataclass(frozen=True, slots=True)
class Span:
    """A labelled part of a text: characters `start` to `end` (exclusive)."""

    start: int
    end: int
    label: str
    text: str


def first_subwords(word_index: Sequence[int | None]) -> list[int]:
    """The index of the first subword of each word."""
    places: dict[int, int] = {}
    for place, word in enumerate(word_index):
        if word is not None:
            places.setdefault(word, place)
    return [places[word] for word in sorted(places)]


def split_words(text: str) -> list[tuple[int, int]]:
    """Split a text into words: (start, end) of each in characters. Punctuation marks are words."""
    return [match.span() for match in _WORD.finditer(text)]


def mark_and_label(tag: str) -> tuple[str, str]:
    """Split a tag into mark and label: B-PER -> B, PER. BILOU's marks become those of BIOES."""
    mark, dash, label = tag.partition("-")
    return (_SAME.get(mark, mark), label) if dash else ("", tag)


def scheme_of(tags: Collection[str]) -> str | None:
    """The tagging scheme of a set of tags. None if the tags mark no spans, as parts of speech do.
    Tags alone do not show whether the scheme is IOB1 or IOB2."""
    if not all(_TAG.fullmatch(tag) for tag in tags):
        return None
    marks = {tag[0] for tag in tags if tag != "O"}
    if not marks:
        return None
    if marks & {"L", "U"}:
        return "BILOU"
    if marks & {"E", "S"}:
        return "BIOES"
    return "IO" if marks == {"I"} else "IOB1 or IOB2"


def chunks(tags: Sequence[str], strict: bool = False) -> list[tuple[int, int, str]]:
    """The first word, the last word + 1 and the label of each chunk in IOB, BIOES or BILOU tags.

    An I- tag after a different label begins a chunk, as in conlleval; with `strict`, it is ignored.
    """
    opening = ("B", "S") if strict else ("B", "S", "I", "E")
    spans: list[tuple[int, int, str]] = []
    start, open_label = 0, ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, label = mark_and_label(tag)
        if open_label and (prefix not in ("I", "E") or label != open_label):
            spans.append((start, i, open_label))
            open_label = ""
        if prefix in opening and label and not open_label:
            start, open_label = i, label
        if prefix in ("S", "E") and open_label:
            spans.append((start, i + 1, open_label))
            open_label = ""
    return spans


def tag_spans(text: str, places: Sequence[tuple[int, int]], tags: Sequence[str]) -> list[Span]:
    """The chunks of a tagged text as spans of characters. places: (start, end) of each word.

    Tags that have no marks such as B- and I- (for example parts of speech) give one span per word.
    """
    if len(places) != len(tags):
        raise InputError(
            f"there are {len(tags)} tags for {len(places)} words; pass one tag for each word"
        )
    in_chunks = all(_TAG.fullmatch(tag) for tag in tags)
    spans = chunks(tags) if in_chunks else [(i, i + 1, tag) for i, tag in enumerate(tags)]
    return [
        Span(places[a][0], places[b - 1][1], label, text[places[a][0] : places[b - 1][1]])
        for a, b, label in spans
    ]
