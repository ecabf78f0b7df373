"""The fields of a sentencepiece .model that decide how text is split; no library is needed.

The file is a protocol buffer: https://protobuf.dev/programming-guides/encoding; its fields stand in
sentencepiece_model.proto of https://github.com/google/sentencepiece.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from translucid.core.errors import InputError
from translucid.core.untrusted_files import open_regular

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
MAX_FILE = 64 << 20
Value = int | bytes
ModelKind = Literal["unigram", "bpe", "word", "char"]
_ROLES = {"unk": 40, "bos": 41, "eos": 42, "pad": 43}  # fields of the trainer's options
_KINDS: dict[int, ModelKind] = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


@dataclass
class Pieces:
    """A sentencepiece model, from whatever file."""

    pieces: list[tuple[str, float, int]] = field(default_factory=list)  # text, score, type
    kind: ModelKind = "unigram"
    byte_fallback: bool = False
    space_behind: bool = False  # ▁ marks the end of a word
    charsmap: bytes = b""
    add_prefix: bool = True
    one_space: bool = True  # runs of spaces become one, those around a text none
    escape: bool = True  # a space becomes ▁
    roles: dict[str, int] = field(default_factory=dict)  # unk, bos, eos, pad


def read_model(path: Path) -> Pieces:
    """What a .model file holds."""
    try:
        with open_regular(path, MAX_FILE) as file:
            return parse(file.read(), str(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def serialised(model: Pieces) -> bytes:
    """The .model file of a unigram model."""
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


def parse(raw: bytes, where: str) -> Pieces:
    model = Pieces(roles={"unk": 0, "bos": 1, "eos": 2, "pad": -1})
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
        raise InputError(f"{where} holds no pieces; give a sentencepiece .model file")
    names = [piece for piece, _, _ in model.pieces]
    if "" in names or len(set(names)) < len(names):  # sentencepiece refuses it, too
        raise InputError(f"{where} has a piece that is empty or twice there; copy it again")
    kinds = [kind for _, _, kind in model.pieces]
    model.roles = {
        name: i
        for name, i in model.roles.items()
        if 0 <= i < len(kinds) and kinds[i] in (UNKNOWN, CONTROL)
    }
    return model


def _trainer(model: Pieces, fields: dict[int, Value]) -> None:
    if (kind := _int(fields.get(3, 1))) not in _KINDS:
        raise ValueError(f"model type {kind}")
    model.kind = _KINDS[kind]
    model.space_behind, model.byte_fallback = bool(fields.get(24)), bool(fields.get(35))
    for number, name in ((40, "unk"), (41, "bos"), (42, "eos"), (43, "pad")):
        if number in fields:
            model.roles[name] = _int(fields[number])


def _normalizer(model: Pieces, fields: dict[int, Value]) -> None:
    charsmap = fields.get(2, b"")
    model.charsmap = charsmap if isinstance(charsmap, bytes) else b""
    model.add_prefix, model.one_space, model.escape = (bool(fields.get(i, 1)) for i in (3, 4, 5))


def _piece(raw: bytes) -> tuple[str, float, int]:
    fields = dict(_fields(raw))
    text, score = fields.get(1, b""), fields.get(2, b"\0" * 4)
    if not isinstance(text, bytes) or not isinstance(score, bytes):
        raise ValueError("a piece without text")
    return text.decode(), struct.unpack("<f", score)[0], _int(fields.get(3, NORMAL))


def _int(value: Value) -> int:
    """A number, which may be below zero."""
    if isinstance(value, bytes):
        raise ValueError("text where a number should be")
    return value - (1 << 64) if value >> 63 else value


def _fields(raw: bytes) -> Iterator[tuple[int, Value]]:
    """The numbers of the fields of a message, and what they hold."""
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
            raise ValueError("it ends in the middle of a field")
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
            raise ValueError("a number of more than 64 bits")
