"""Translate HTML: only its texts are translated, and markup keeps its place around the right words.

Elements such as <p> separate texts; elements such as <b> are part of a text. The words inside a <b>
are found in the translation by the word alignment.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape, unescape

from translucid.core.errors import InputError

# Elements that do not separate texts.
INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
    ]
)
UNTRANSLATED = frozenset(("script", "style", "code", "pre", "kbd", "samp", "var", "textarea"))
MOST_TAGS = 200  # inline elements in one text: the time to place them grows with their square

# A comment, a tag, a declaration, or text. Each alternative consumes what it has read, so that the
# time to split a document is linear, which it is not with `html.parser` (100,000 times "<a ").
_TOKEN = re.compile(
    r"""
    (?P<comment> <!-- .*? (?: --> | \Z ) )
    | < (?P<end> /? ) (?P<name> [a-zA-Z] [^\s/>]*+ )
        (?: = \s*+ (?: "[^"]*+"?+ | '[^']*+'?+ ) | [^>=]++ | = )*+ (?P<closed> >?+ )
    | (?P<declaration> < [!?/] [^>]*+ >?+ )
    | (?P<text> <? [^<]*+ )
    """,
    re.DOTALL | re.VERBOSE,
)
_HUGE = re.compile(r"&#\d{8,};?")  # references to no character, which `unescape` may not read

# For each word of a translation (separated by spaces), the indices of the source words that it
# translates.
Alignment = Sequence[Sequence[int]]
# Translates texts; returns each translation with its word alignment.
TranslateTexts = Callable[[list[str]], list[tuple[str, Alignment]]]


@dataclass
class Tag:
    """An inline element around the words from `first` up to but not including `last`. An empty
    element, such as <br>, has first == last."""

    opening: str
    closing: str
    first: int
    last: int = -1


@dataclass
class Segment:
    """A text with the inline elements inside it."""

    words: list[str] = field(default_factory=list)
    glued: list[bool] = field(default_factory=list)  # whether no space separates it from the last
    tags: list[Tag] = field(default_factory=list)
    before: str = ""  # white space before and after the text
    after: str = ""

    @property
    def text(self) -> str:
        parts: list[str] = []
        for word, glued in zip(self.words, self.glued, strict=True):
            parts += [word] if glued or not parts else [" ", word]
        return "".join(parts)

    def spans(self) -> list[int]:
        """For each piece of `words`, the index of its word in `text` split at spaces."""
        number, numbers = -1, []
        for glued in self.glued:
            number += not glued or number < 0
            numbers.append(number)
        return numbers


def split(html: str) -> list[str | Segment]:
    """Split HTML into markup (strings, kept as they are) and texts (segments)."""
    splitter = _Splitter()
    splitter.read(html)
    splitter.end_segment()
    return splitter.parts


def translate_html(htmls: Sequence[str], translate: TranslateTexts) -> list[str]:
    """Translate the texts in each HTML document."""
    documents = [split(html) for html in htmls]
    segments = [part for parts in documents for part in parts if isinstance(part, Segment)]
    translated = iter(translate([segment.text for segment in segments]))
    results = []
    for parts in documents:
        pieces = []
        for part in parts:
            pieces.append(part if isinstance(part, str) else joined(part, *next(translated)))
        results.append("".join(pieces))
    return results


def joined(segment: Segment, translation: str, alignment: Alignment) -> str:
    """The translation of a segment with its inline elements around the words that are aligned with
    theirs. The words of one element stay together: it reaches from its first aligned word to the
    last. An element without an aligned word is kept, at the corresponding place and empty."""
    words = translation.split()
    numbers = segment.spans()
    count = max(numbers, default=-1) + 1
    starts: dict[int, list[tuple[int, str]]] = {}
    ends: dict[int, list[tuple[int, str]]] = {}
    placed: list[tuple[int, int, Tag]] = []
    for tag in segment.tags:
        inside = {numbers[i] for i in range(tag.first, tag.last)}
        own = [i for i, sources in enumerate(alignment[: len(words)]) if inside & {*sources}]
        if inside and len(inside) == count:  # around everything
            placed.append((0, len(words), tag))
        elif own:
            placed.append((min(own), max(own) + 1, tag))
        else:
            at = round(len(words) * _number(numbers, tag.first, count) / max(count, 1))
            placed.append((at, at, tag))
    for order, (first, last, tag) in enumerate(_nested(placed)):
        starts.setdefault(first, []).append((order, tag.opening))
        ends.setdefault(last, []).append((-order, tag.closing))
        if first == last:  # opened and closed at the same place
            starts[first][-1] = (order, tag.opening + tag.closing)
            ends[last].pop()
    pieces = [segment.before]
    for place in range(len(words) + 1):
        pieces += [closing for _, closing in sorted(ends.get(place, []))]
        if 0 < place < len(words):
            pieces.append(" ")
        pieces += [opening for _, opening in sorted(starts.get(place, []))]
        if place < len(words):
            pieces.append(escape(words[place], quote=False))
    pieces.append(segment.after)
    return "".join(pieces)


def _nested(placed: list[tuple[int, int, Tag]]) -> list[tuple[int, int, Tag]]:
    """Widen elements until none overlaps another without containing it, outer ones first."""
    kept: list[tuple[int, int, Tag]] = []
    for first, last, tag in sorted(placed, key=lambda one: (one[0] - one[1], one[0])):
        for outer_first, outer_last, _ in reversed(kept):
            if first < outer_first < last <= outer_last:
                first = outer_first
            elif outer_first <= first < outer_last < last:
                last = outer_last
        kept.append((first, last, tag))
    return kept


def _number(numbers: Sequence[int], index: int, count: int) -> int:
    return numbers[index] if index < len(numbers) else count


class _Splitter:
    def __init__(self) -> None:
        self.parts: list[str | Segment] = []
        self.segment: Segment | None = None
        self.open: list[Tag] = []  # inline elements that are not closed
        self.space = False  # white space before what comes next

    def read(self, html: str) -> None:
        at = 0
        while at < len(html):
            token = _TOKEN.match(html, at)
            assert token is not None
            name = (token["name"] or "").lower()
            if token["text"] is not None:
                self.text(token[0])
            elif not name:
                self.markup(token[0])
            elif not token["closed"]:  # no tag follows: the rest is text
                self.text(html[at:])
                return
            elif token["end"]:
                self.end(token[0], name)
            elif name in UNTRANSLATED and not token[0].endswith("/>"):
                end = re.compile(rf"</{name}(?=[\s/>])[^>]*+>?+|\Z", re.IGNORECASE)
                after = end.search(html, token.end())
                assert after is not None
                self.markup(html[at : after.end()])
                at = after.end()
                continue
            else:
                self.start(token[0], name)
            at = token.end()

    def end_segment(self) -> None:
        if self.segment is None:
            return
        segment, self.segment = self.segment, None
        for tag in self.open:  # closed by the end of the text, and not reopened
            tag.last = len(segment.words)
        self.open = []
        segment.after = " " * self.space
        self.space = False
        if segment.words:
            self.parts.append(segment)
        else:
            self.parts += [segment.before, *(t.opening + t.closing for t in segment.tags)]
            self.parts.append(segment.after)

    def markup(self, text: str) -> None:
        self.end_segment()
        self.parts.append(text)

    def inside(self) -> Segment:
        if self.segment is None:
            self.segment = Segment()
        return self.segment

    def start(self, tag: str, name: str) -> None:
        if name not in INLINE or tag.endswith("/>"):
            self.markup(tag)
            return
        segment = self.inside()
        if len(segment.tags) == MOST_TAGS:
            raise InputError(
                f"q: a text has more than {MOST_TAGS} inline elements, such as {tag[:50]}; send "
                "shorter texts"
            )
        self.open.append(Tag(tag, f"</{name}>", len(segment.words)))
        segment.tags.append(self.open[-1])

    def end(self, tag: str, name: str) -> None:
        if name not in INLINE:
            self.markup(tag)
            return
        closing = f"</{name}>"
        number = next((i for i in reversed(range(len(self.open)))
                       if self.open[i].closing == closing), None)  # fmt: skip
        if number is not None:  # an end tag without a start tag is dropped, as browsers do
            self.open.pop(number).last = len(self.inside().words)

    def text(self, text: str) -> None:
        for word in re.findall(r"\s+|\S+", unescape(_HUGE.sub("\ufffd", text))):
            if word.isspace():
                self.space = True
                continue
            segment = self.inside()
            if self.space and not segment.words:
                segment.before = " "
            segment.glued.append(bool(segment.words) and not self.space)
            segment.words.append(word)
            self.space = False
