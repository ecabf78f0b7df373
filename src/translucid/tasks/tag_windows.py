"""The items of a tagger: a sentence as one item, or a long sentence as overlapping windows.

In training, evaluation and prediction, each word is tagged in exactly one window; the other words
of the window are context.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from translucid.data.tokenizers.special_tokens import Frame
from translucid.tasks.batch import IGNORE

OVERLAP = 4  # a window shares a quarter of its tokens with its neighbour


@dataclass(frozen=True, slots=True)
class TagItem:
    ids: list[int]
    tags: list[int]  # one per id; IGNORE except at a word's first subword
    firsts: list[int]  # the position of each word's first subword
    line: int
    characters: tuple[bytes, ...] = ()  # of the word of each id, if the model reads them
    # In a window of a long sentence, the range of words tagged here; the others are context.
    window: tuple[int, int] | None = None
    continues: bool = False  # belongs to the same sentence as the item before

    @property
    def places(self) -> list[int]:
        """The positions of the words that are tagged in this window."""
        return self.firsts if self.window is None else self.firsts[slice(*self.window)]


def sentences(items: Sequence[TagItem]) -> list[list[TagItem]]:
    """Group the items by sentence: one item, or the windows of a long sentence."""
    groups: list[list[TagItem]] = []
    for item in items:
        if item.continues and groups:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def beginning(item: TagItem, frame: Frame, max_length: int) -> TagItem:
    """Truncate an item to the words that begin within `max_length` tokens, including special
    tokens."""
    room = max_length - len(frame.prefix) - len(frame.suffix)
    words = sum(place - len(frame.prefix) < room for place in item.firsts)
    return _part(item, frame, 0, words, room)


def windows(item: TagItem, frame: Frame, max_length: int) -> list[TagItem]:
    """Windows of at most `max_length` tokens, cut between words. Each word is tagged in one of
    them; a word longer than a window is truncated."""
    prefix, suffix = len(frame.prefix), len(frame.suffix)
    room = max(max_length - prefix - suffix, 1)
    starts = [place - prefix for place in item.firsts]
    ends = [*starts[1:], len(item.ids) - prefix - suffix]
    overlap, done, made = room // OVERLAP, 0, list[TagItem]()
    while done < len(starts):
        first = done  # move back for context while the next word still fits
        while (
            first > 0
            and starts[done] - starts[first - 1] <= overlap
            and ends[done] - starts[first - 1] <= room
        ):
            first -= 1
        last = max(bisect_right(ends, starts[first] + room), done + 1)
        # Words near the end of a window are tagged in the next one, which has more context.
        tagged = bisect_right(ends, starts[first] + room - overlap)
        until = last if last == len(ends) else max(tagged, done + 1)
        part = _part(item, frame, first, last, room)
        tags = [IGNORE] * len(part.ids)
        for place in part.firsts[done - first : until - first]:
            tags[place] = part.tags[place]
        here = (done - first, until - first)
        made.append(replace(part, tags=tags, window=here, continues=done > 0))
        done = until
    return made


def _part(item: TagItem, frame: Frame, first: int, last: int, room: int) -> TagItem:
    """A window with the words from `first` to `last`, at most `room` tokens, and the special
    tokens."""
    prefix, suffix = len(frame.prefix), len(frame.suffix)
    places = [*item.firsts, len(item.ids) - suffix]
    start = places[first]
    stop = min(places[last], start + room)
    firsts = [place - start + prefix for place in item.firsts[first:last]]
    ids = [*item.ids[:prefix], *item.ids[start:stop], *item.ids[len(item.ids) - suffix :]]
    tags = [*[IGNORE] * prefix, *item.tags[start:stop], *[IGNORE] * suffix]
    none = (b"",) if item.characters else ()
    characters = (*none * prefix, *item.characters[start:stop], *none * suffix)
    return TagItem(ids, tags, firsts, item.line, characters)
