"""The bytes of each token in an imported vocabulary.

Tokenizer files use different notations: printable characters for bytes (GPT-2), ▁ for a space and
<0x0A> for a byte (sentencepiece), ## at the continuation of a word (WordPiece), </w> at its end.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from translucid.data.tokenizers.pipelines import BYTE_OF, WORD_START

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# The replacements that WordPiece's decoder makes after it has joined tokens by spaces.
_CLEANED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


Unit = Literal["word", "subword", "character"]


class Spelling(NamedTuple):
    """The bytes of each token, and how tokens are joined to a text."""

    pieces: list[bytes]
    spaces: int  # number of spaces to remove from the beginning of a text
    unit: Unit


def steps(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer, pre-tokenizer or decoder. Nested sequences are flattened."""
    if isinstance(part, dict):
        inner = [part[key] for key in ("normalizers", "pretokenizers", "decoders") if key in part]
        if part.get("type") == "Sequence" and inner and isinstance(inner[0], list):
            for step in inner[0]:
                yield from steps(step)
        else:
            yield part


def spelt(spec: dict[str, Any], names: Sequence[str], plain: Collection[int]) -> Spelling:
    """How the tokens of a tokenizer are spelled. plain: ids of tokens (special and added ones) that
    are spelled like their names."""
    decoding = list(steps(spec.get("decoder")))
    kinds = {step.get("type"): step for step in decoding}
    splitting = list(steps(spec.get("pre_tokenizer"))) + list(steps(spec.get("normalizer")))
    byte_level = "ByteLevel" in kinds or any(s.get("type") == "ByteLevel" for s in splitting)
    drops = 0
    unit: Unit = "subword"
    read: Callable[[str], bytes]
    if byte_level:
        read = _byte_level
    elif "WordPiece" in kinds:
        step = kinds["WordPiece"]
        read, drops = _word_piece(step.get("prefix", "##"), bool(step.get("cleanup", True))), 1
    elif "BPEDecoder" in kinds or spec["model"].get("end_of_word_suffix"):
        suffix = kinds.get("BPEDecoder", {}).get("suffix") or spec["model"]["end_of_word_suffix"]
        read = _suffixed(suffix)
    elif any(_replaces_spaces(step) for step in (*decoding, *splitting)):
        read = _sentencepiece
        strip, space = kinds.get("Strip", {}), kinds.get("Metaspace", {})
        if strip.get("content") == " " and isinstance(strip.get("start"), int):
            drops = strip["start"]
        elif space:
            drops = int(space.get("prepend_scheme", "always") != "never")
    elif "Fuse" in kinds:
        read, unit = str.encode, "character"
    else:  # joined by spaces
        read, drops, unit = (lambda piece: f" {piece}".encode()), 1, "word"
    spelling = [piece.encode() if i in plain else read(piece) for i, piece in enumerate(names)]
    return Spelling(spelling, drops, unit)


def _replaces_spaces(step: dict[str, Any]) -> bool:
    return step.get("type") in ("Metaspace", "ByteFallback") or WORD_START in (
        step.get("content"), (step.get("pattern") or {}).get("String"),
    )  # fmt: skip


def _byte_level(piece: str) -> bytes:
    if all(character in BYTE_OF for character in piece):
        return bytes(BYTE_OF[character] for character in piece)
    return piece.encode()


def _sentencepiece(piece: str) -> bytes:
    if byte := _BYTE.fullmatch(piece):
        return bytes([int(byte[1], 16)])
    return piece.replace(WORD_START, " ").encode()


def _word_piece(prefix: str, cleanup: bool) -> Callable[[str], bytes]:
    def read(piece: str) -> bytes:
        text = piece.removeprefix(prefix) if piece.startswith(prefix) else f" {piece}"
        for spaced, plain in _CLEANED if cleanup else ():
            text = text.replace(spaced, plain)
        return text.encode()

    return read


def _suffixed(suffix: str) -> Callable[[str], bytes]:
    def read(piece: str) -> bytes:
        return piece.replace(suffix, " ").encode()

    return read
