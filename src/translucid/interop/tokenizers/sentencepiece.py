"""Read sentencepiece models: unigram (Kudo 2018, https://arxiv.org/abs/1804.10959) and BPE
(Sennrich et al. 2016, https://arxiv.org/abs/1508.07909) on text with ▁ for spaces.

As in the library, no text produces control pieces, and user-defined pieces are matched anywhere.
One difference: the character normalisation table is applied per grapheme cluster, so a character
with marks of six bytes or more (three accents, decomposed Hangul) may not be composed.

A .model file is a protocol buffer (https://protobuf.dev/programming-guides/encoding) with the
fields of sentencepiece_model.proto in https://github.com/google/sentencepiece. The package
sentencepiece gives access to neither the character table nor the normaliser's options without the
package protobuf, so the file is read here.
"""

import base64
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from translucid.core.errors import InputError
from translucid.core.untrusted_files import open_regular
from translucid.data.tokenizers.imported import Imported, check_pieces
from translucid.data.tokenizers.pipelines import WORD_START
from translucid.data.tokenizers.special_tokens import SpecialTokens
from translucid.interop.tokenizers.specs import (
    Part,
    bpe,
    replace_pattern,
    replace_text,
    spec_text,
    split_on,
)

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
MAX_FILE = 64 << 20
Piece = tuple[str, float, int]  # text, score, type
Value = int | bytes
ModelKind = Literal["unigram", "bpe", "word", "char"]
_ROLES = {"unk": 40, "bos": 41, "eos": 42, "pad": 43}  # fields of the trainer's options
_KINDS: dict[int, ModelKind] = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


@dataclass
class SentencePieceModel:
    """The pieces and options of a sentencepiece model, independent of the kind of file that stores
    it."""

    pieces: list[Piece] = field(default_factory=list)
    kind: ModelKind = "unigram"
    byte_fallback: bool = False
    space_behind: bool = False  # ▁ marks the end of a word
    charsmap: bytes = b""
    add_prefix: bool = True
    one_space: bool = True  # merge runs of spaces, strip those around a text
    escape: bool = True  # a space becomes ▁
    roles: dict[str, int] = field(default_factory=dict)  # unk, bos, eos, pad

    @property
    def names(self) -> list[str]:
        return [piece for piece, _, _ in self.pieces]

    @property
    def hidden(self) -> tuple[int, ...]:
        """Ids of the pieces that no text is split into."""
        return tuple(i for i, (_, _, kind) in enumerate(self.pieces) if kind == UNUSED)

    @property
    def unknown(self) -> int | None:
        """The id of the unknown piece, for text that cannot be split into pieces."""
        return next((i for i, (_, _, kind) in enumerate(self.pieces) if kind == UNKNOWN), None)


def read_model(path: Path) -> SentencePieceModel:
    """Read a .model file."""
    try:
        with open_regular(path, MAX_FILE) as file:
            return parse(file.read(), str(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def serialised(model: SentencePieceModel) -> bytes:
    """A unigram model as the bytes of a .model file."""
    body = b"".join(
        _field(1, _field(1, piece.encode()) + _field(2, score) + _field(3, kind))
        for piece, score, kind in model.pieces
    )
    ids = b"".join(_field(number, model.roles.get(name, -1)) for name, number in _ROLES.items())
    normalizer = _field(1, b"identity") + _field(2, model.charsmap)
    for number, flag in ((3, model.add_prefix), (4, model.one_space), (5, model.escape)):
        normalizer += _field(number, int(flag))
    return body + _field(2, _field(3, 1) + ids) + _field(3, normalizer)


def _field(number: int, value: bytes | float) -> bytes:
    if isinstance(value, bytes):
        return _number(number << 3 | 2) + _number(len(value)) + value
    if isinstance(value, float):
        return _number(number << 3 | 5) + struct.pack("<f", value)
    return _number(number << 3) + _number(value)


def _number(value: int) -> bytes:
    made = bytearray()
    value &= (1 << 64) - 1
    while value >= 128:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def parse(raw: bytes, where: str) -> SentencePieceModel:
    model = SentencePieceModel(roles={"unk": 0, "bos": 1, "eos": 2, "pad": -1})
    try:
        for number, value in _fields(raw):
            if number == 1 and isinstance(value, bytes):
                model.pieces.append(_piece(value))
            elif number == 2 and isinstance(value, bytes):
                _trainer(model, dict(_fields(value)))
            elif number == 3 and isinstance(value, bytes):
                _normalizer(model, dict(_fields(value)))
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise InputError(
            f"{where} is not a sentencepiece model that can be read ({error}); copy it again"
        ) from None
    if not model.pieces:
        raise InputError(f"{where} contains no pieces; it is not a sentencepiece .model file")
    names = model.names
    if "" in names or len(set(names)) < len(names):  # sentencepiece rejects these, too
        raise InputError(f"{where} has an empty or repeated piece; copy it again")
    kinds = [kind for _, _, kind in model.pieces]
    model.roles = {
        name: i
        for name, i in model.roles.items()
        if 0 <= i < len(kinds) and kinds[i] in (UNKNOWN, CONTROL)
    }
    return model


def _trainer(model: SentencePieceModel, fields: dict[int, Value]) -> None:
    if (kind := _int(fields.get(3, 1))) not in _KINDS:
        raise ValueError(f"unknown model type {kind}")
    model.kind = _KINDS[kind]
    model.space_behind, model.byte_fallback = bool(fields.get(24)), bool(fields.get(35))
    for name, number in _ROLES.items():
        if number in fields:
            model.roles[name] = _int(fields[number])


def _normalizer(model: SentencePieceModel, fields: dict[int, Value]) -> None:
    charsmap = fields.get(2, b"")
    model.charsmap = charsmap if isinstance(charsmap, bytes) else b""
    model.add_prefix, model.one_space, model.escape = (bool(fields.get(i, 1)) for i in (3, 4, 5))


def _piece(raw: bytes) -> Piece:
    fields = dict(_fields(raw))
    text, score = fields.get(1, b""), fields.get(2, b"\0" * 4)
    if not isinstance(text, bytes) or not isinstance(score, bytes):
        raise ValueError("the file contains a piece without text")
    return text.decode(), struct.unpack("<f", score)[0], _int(fields.get(3, NORMAL))


def _int(value: Value) -> int:
    """A field's value as a signed integer."""
    if isinstance(value, bytes):
        raise ValueError("the file contains text instead of a number")
    return value - (1 << 64) if value >> 63 else value


def _fields(raw: bytes) -> Iterator[tuple[int, Value]]:
    """The number and the value of each field in a protocol buffer message."""
    place = 0
    while place < len(raw):
        key, place = _varint(raw, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(raw, place)
            yield number, value
            continue
        if wire == 2:
            size, place = _varint(raw, place)
        else:
            size = {1: 8, 5: 4}[wire]
        if place + size > len(raw):
            raise ValueError("the file ends in the middle of a field")
        yield number, raw[place : place + size]
        place += size


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value & ((1 << 64) - 1), place
        if shift > 63:
            raise ValueError("the file contains a number of more than 64 bits")


AROUND = rf"\A +|(?<![ {WORD_START}])[ {WORD_START}]+\z"  # spaces that `one_space` strips


def with_mask_tokens(
    model: SentencePieceModel, sentence: str, token: str, offset: int
) -> SentencePieceModel:
    """Make the vocabulary of Pegasus. After the padding and end tokens, it contains `offset`
    pre-training tokens that are not in the .model file. sentence, token: the mask tokens for a
    sentence and for a token."""
    own = [sentence, token, *(f"<unk_{i}>" for i in range(2, offset))][:offset]
    pieces = [*model.pieces[:2], *((name, 0.0, CONTROL) for name in own), *model.pieces[2:]]
    roles = {role: i if i < 2 else i + len(own) for role, i in model.roles.items()}
    return replace(model, pieces=pieces, roles=roles)


def imported(
    model: SentencePieceModel, special: SpecialTokens, where: str, *, added: Iterable[Part] = ()
) -> Imported:
    return Imported(spec(model, where, added=added), special, model.hidden)


def spec(model: SentencePieceModel, where: str, *, added: Iterable[Part] = ()) -> str:
    """The tokenizer.json of a model."""
    check_pieces(model.names, where)  # merging time grows with the square of a piece's length
    if model.kind not in ("unigram", "bpe") or model.space_behind or not model.escape:
        raise InputError(
            f"{where} is a sentencepiece model of kind {model.kind}"
            f"{' with ▁ at the end of words' if model.space_behind else ''}"
            f"{'' if model.escape else ' without ▁ for spaces'}; supported: unigram and bpe models "
            "with ▁ at the start of words"
        )
    control = {i: piece for i, (piece, _, kind) in enumerate(model.pieces) if kind == CONTROL}
    user = [piece for piece, _, kind in model.pieces if kind == USER_DEFINED]
    if model.kind == "bpe":
        part = bpe_of(model.pieces, byte_fallback=model.byte_fallback)
        splits = [split_on("|".join(map(re.escape, by_length(user))))] if user else []
    else:
        part = unigram_of(model)
        # A text that contains "<0x41>" literally must not produce that byte token.
        splits = [split_on("<(?=0x[0-9A-F]{2}>)", "MergedWithPrevious")] if (
            model.byte_fallback
        ) else []  # fmt: skip
    return spec_text(
        part, normalizers=_normalizers(model), pre_tokenizers=splits, decoders=_decoders(model),
        control=control, added=added,
    )  # fmt: skip


def by_length(pieces: Sequence[str]) -> list[str]:
    return sorted(pieces, key=lambda piece: (-len(piece), piece))


def _normalizers(model: SentencePieceModel) -> list[Part]:
    steps: list[Part] = []
    if model.charsmap:
        charsmap = base64.b64encode(model.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if model.one_space:
        steps += [replace_pattern(AROUND, ""), replace_pattern(" {2,}", " ")]
    steps.append(replace_text(" ", WORD_START))
    if model.add_prefix:
        steps.append({"type": "Prepend", "prepend": WORD_START})
    return steps


def _decoders(model: SentencePieceModel) -> list[Part]:
    most = 1 << 16 if model.one_space else int(model.add_prefix)
    strip = [{"type": "Strip", "content": " ", "start": most, "stop": 0}] if most else []
    return [replace_text(WORD_START, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]


def unigram_of(model: SentencePieceModel) -> Part:
    best = max((score for _, score, kind in model.pieces if kind == NORMAL), default=0.0)
    scores: list[list[str | float]] = []
    for piece, score, kind in model.pieces:
        if kind == USER_DEFINED:  # sentencepiece adds this bonus, so that the piece always wins
            score = len(piece.encode()) * best - 0.1
        scores.append([piece, score if kind in (NORMAL, USER_DEFINED, BYTE) else 0.0])
    return {
        "type": "Unigram", "unk_id": model.unknown, "vocab": scores,
        "byte_fallback": model.byte_fallback,
    }  # fmt: skip


def bpe_of(pieces: Sequence[Piece], *, byte_fallback: bool) -> Part:
    vocab = {piece: i for i, (piece, _, _) in reversed(list(enumerate(pieces)))}
    unk = next((piece for piece, _, kind in pieces if kind == UNKNOWN), None)
    merged = [piece for piece in pieces if piece[2] in (NORMAL, USER_DEFINED, UNUSED)]
    whole = any(kind == USER_DEFINED for _, _, kind in pieces)
    return bpe(
        vocab, merges_of(merged), unk=unk, byte_fallback=byte_fallback, whole_pieces=whole
    )  # fmt: skip


def merges_of(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """The BPE merges: all pairs of pieces whose concatenation is a piece, best score first."""
    known = {piece: i for i, (piece, _, _) in enumerate(pieces)}
    merges: list[tuple[float, int, int, str, str]] = []
    for piece, score, kind in pieces:
        if kind == USER_DEFINED:
            continue
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in known and right in known:
                merges.append((-score, known[left], known[right], left, right))
    merges.sort()
    return [(left, right) for *_, left, right in merges]
