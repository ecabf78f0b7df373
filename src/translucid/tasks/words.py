"""Token labels for the axes of traced values."""

from collections.abc import Sequence
from dataclasses import dataclass

from translucid.data.tokenizers.tokenizer import Tokenizer

ALONG_TEXT = ("length", "queries", "keys")  # axes with one entry for each token
ACROSS = ("cross_attention", "alignment")  # parts whose keys are source tokens
INNER = "·"  # before a token that continues a word
WHITE = {" ": "␣", "\n": "⏎", "\t": "⇥"}


@dataclass(frozen=True)
class Words:
    """Labels of the tokens and outputs of one example."""

    source: tuple[str, ...] = ()  # tokens read by the encoder
    target: tuple[str, ...] = ()  # tokens read by the decoder, including its start
    follows: tuple[str, ...] = ()  # the token to predict after each, ending with the end
    outputs: tuple[str, ...] = ()  # classes or tags
    features: tuple[str, ...] = ()  # numbers read by a network without text

    @property
    def last(self) -> tuple[str, ...]:
        """The tokens of the sequence that the output head reads."""
        return self.target or self.source

    def along(self, name: str, axis: str) -> tuple[str, ...]:
        """The labels along an axis of the trace point `name`; empty if there are none."""
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
        """A label for each decoder step: the token it reads and the token it should predict."""
        return tuple(f"{a} → {b}" for a, b in zip(self.target, self.follows, strict=True))


def of_text(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    """The tokens of a text as labels; unknown words keep their spelling."""
    ids, places = tokenizer.encode(text), tokenizer.offsets(text)
    return tuple(
        text[first:last].strip() or label if number == tokenizer.unk_id else label
        for number, label, (first, last) in zip(ids, readable(tokenizer, ids), places, strict=True)
    )


def readable(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """Format tokens as labels: `·` marks one that continues a word; whitespace is made visible."""
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
    """Format one token as a label, as it looks inside a text."""
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
