"""The ids of words one by one: sentences repeat their words, so each is tokenized once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenizers import Encoding

MOST = 1 << 16  # words remembered, some 30 MB


@dataclass(frozen=True)
class Pieces:
    ids: list[int]
    own: list[bool]  # whether each holds more of the word than the space before it


class WordPieces:
    """Words as they are behind others, after a space, or first in a sentence, without one."""

    def __init__(self, encode: Callable[[list[str]], Sequence[Encoding]], most: int = MOST) -> None:
        self._encode, self._most = encode, most
        self._known: dict[tuple[bool, str], Pieces] = {}

    def of(self, words: Sequence[str]) -> list[Pieces]:
        places = [(i == 0, word) for i, word in enumerate(words)]
        known = {place: self._known.get(place) for place in places}
        new = [place for place, pieces in known.items() if pieces is None]
        texts = [word if first else f" {word}" for first, word in new]
        made = {
            place: Pieces(encoding.ids, [place[0] or end > 1 for _, end in encoding.offsets])
            for place, encoding in zip(new, self._encode(texts) if texts else (), strict=True)
        }
        if len(self._known) > self._most:
            self._known = {}  # to begin again is simple, and common words are back at once
        self._known.update(made)
        return [known[place] or made[place] for place in places]
