"""Which words stand along the axes of what a model has computed."""

from collections.abc import Sequence
from dataclasses import dataclass

from translucid.data.tokenizers.tokenizer import Tokenizer

ALONG_TEXT = ("length", "queries", "keys")  # axes with one entry for each token
ACROSS = ("cross_attention", "alignment")  # parts that look at another text
INNER = "·"  # in front of a token that goes on with a word
WHITE = {" ": "␣", "\n": "⏎", "\t": "⇥"}


@dataclass(frozen=True)
class Words:
    """What a model has read, token by token, as people write it."""

    source: tuple[str, ...] = ()  # by the encoder
    target: tuple[str, ...] = ()  # by the decoder, what it starts with included
    follows: tuple[str, ...] = ()  # what should be written after each of those; the end at last
    outputs: tuple[str, ...] = ()  # classes or tags
    features: tuple[str, ...] = ()  # numbers that a network without text has read

    @property
    def last(self) -> tuple[str, ...]:
        """What the output head stands on."""
        return self.target or self.source

    def along(self, name: str, axis: str) -> tuple[str, ...]:
        """What stands along an axis of the point `name`; nothing, if nobody has a word for it."""
        if axis in ("outputs", "vocab"):
            return self.outputs
        if axis == "features":
            return self.features
        if axis not in ALONG_TEXT:
            return ()
        scopes = name.split(".")[:-1]
        if "encoder" in scopes:
            return self.source
        if scopes[-1] in ACROSS:
            return self.source if axis == "keys" else self.steps
        return self.last

    @property
    def steps(self) -> tuple[str, ...]:
        """Each row of a decoder: the word it reads, and the word that should follow."""
        return tuple(f"{a} → {b}" for a, b in zip(self.target, self.follows, strict=True))


def of_text(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    """The tokens of a text as labels; a word that the vocabulary lacks as it stands there."""
    ids, places = tokenizer.encode(text), tokenizer.offsets(text)
    return tuple(
        text[first:last].strip() or label if number == tokenizer.unk_id else label
        for number, label, (first, last) in zip(ids, readable(tokenizer, ids), places, strict=True)
    )


def readable(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """Tokens as labels: `·` before one that goes on with a word, blanks made visible."""
    pieces = tokenizer.pieces(ids)
    if tokenizer.unit == "word":
        return tuple(pieces)
    if tokenizer.unit == "character":
        return tuple(_visible(piece) for piece in pieces)
    special = tokenizer.special_ids
    return tuple(
        piece
        if number in special
        else _subword(piece, first=place == 0 or ids[place - 1] in special)
        for place, (number, piece) in enumerate(zip(ids, pieces, strict=True))
    )


def in_a_text(tokenizer: Tokenizer, token: int) -> str:
    """One token as a label, wherever in a text it may stand."""
    (piece,) = tokenizer.pieces([token])
    if tokenizer.unit != "subword" or token in tokenizer.special_ids:
        return readable(tokenizer, [token])[0]
    return _subword(piece, first=False)


def _subword(piece: str, *, first: bool) -> str:
    inner = not first and not piece.startswith(" ") and piece[:1].isalnum()
    return (INNER if inner else "") + _visible(piece.removeprefix(" ") or piece)


def _visible(piece: str) -> str:
    return (
        "".join(WHITE.get(character, character) for character in piece)
        if not piece.strip()
        else piece
    )
