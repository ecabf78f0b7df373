"""Read and write GGUF, the format of llama.cpp: typed metadata, then tensors, which may be
quantised.

Versions 2 and 3, little-endian, are supported. Shapes list the innermost axis first. The reader of
the package gguf is not used: it creates an object for every number in an array and follows nested
arrays without a limit, so that a hostile header of 4 MB takes 3 GB of memory and minutes, or ends
in a RecursionError.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from translucid.core.errors import InputError
from translucid.interop.formats.gguf_quants import PLAIN, QUANTS, bytes_of, unpack
from translucid.interop.formats.stored import (
    GGUF,
    Cursor,
    MappedFile,
    ModelFile,
    StoredTensor,
    check_total,
    checked_size,
)

VERSIONS = (2, 3)
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}  # fmt: skip
STRING, ARRAY = 8, 9
FLOAT32, ALIGNMENT = 0, 32  # tensor type and alignment in written files


def read_gguf(path: Path) -> ModelFile:
    """Read the metadata and the tensors of a GGUF file."""
    file = MappedFile(path)
    cursor = Cursor(file)
    if cursor.take(4) != GGUF:
        raise InputError(f"{path} does not begin with GGUF; it is a different kind of file")
    version = cursor.number("<I")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        reason = "written for a big-endian machine" if swapped else f"version {version}"
        raise InputError(
            f"{path}: this kind of GGUF file ({reason}) is not supported; supported: versions 2 "
            "and 3, little-endian; convert the model again with a newer llama.cpp"
        )
    tensor_count = cursor.check_count(cursor.number("<Q"), 24, "tensors")
    fact_count = cursor.check_count(cursor.number("<Q"), 13, "facts")
    metadata: dict[str, Any] = {}
    for _ in range(fact_count):
        name = _string(cursor)
        metadata[name] = _value(cursor, cursor.number("<I"), name)
    infos = [_info(cursor) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= 1 << 16:
        raise InputError(f"{path}: general.alignment = {alignment!r} is not a valid alignment")
    base = -(-cursor.place // alignment) * alignment
    tensors = {name: _tensor(file, base + place, name, shape, kind)
               for name, shape, kind, place in infos}  # fmt: skip
    check_total(path, tensors)
    return ModelFile(metadata, tensors)


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a GGUF file in version 3 of the format, with all tensors in float32."""
    with path.open("xb") as file:
        file.write(GGUF + struct.pack("<IQQ", VERSIONS[-1], len(tensors), len(metadata)))
        for name, value in metadata.items():
            file.write(_packed_text(name) + _packed(value))
        place = 0
        for name, tensor in tensors.items():
            sizes = struct.pack(f"<I{tensor.dim()}Q", tensor.dim(), *reversed(tensor.shape))
            file.write(_packed_text(name) + sizes + struct.pack("<IQ", FLOAT32, place))
            place += _aligned(4 * tensor.numel())
        file.write(bytes(_aligned(file.tell()) - file.tell()))
        for tensor in tensors.values():
            raw = tensor.float().contiguous().numpy().tobytes()
            file.write(raw + bytes(_aligned(len(raw)) - len(raw)))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _packed_text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _packed(value: Any) -> bytes:
    """A metadata value as bytes, preceded by its type: a string, bool, int, float, or a list of
    values of one type."""
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", STRING) + _packed_text(value)
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", ARRAY, 5, len(value), *value)
        case [] | [str(), *_]:
            texts = b"".join(map(_packed_text, value))
            return struct.pack("<IIQ", ARRAY, STRING, len(value)) + texts
    raise TypeError(f"{value!r} cannot be written as metadata")


def _string(cursor: Cursor) -> str:
    length = cursor.number("<Q")
    return cursor.take(length, "a text of its header").decode("utf-8", errors="replace")


def _strings(cursor: Cursor, count: int) -> list[str]:
    """Read many strings, such as the tokens of a vocabulary, in one fast loop."""
    mapping, unpack = cursor.file.mapping, struct.Struct("<Q").unpack_from
    place, texts = cursor.place, []
    try:
        for _ in range(count):
            (length,) = unpack(mapping, place)
            place += 8 + length
            texts.append(mapping[place - length : place].decode("utf-8", errors="replace"))
    except (struct.error, OverflowError):
        place = cursor.file.size + 1
    cursor.take(place - cursor.place, "a text of its header")  # raises if the file is too short
    return texts


def _value(cursor: Cursor, kind: int, name: str) -> Any:
    if kind in NUMBERS:
        return cursor.number("<" + NUMBERS[kind])
    if kind == STRING:
        return _string(cursor)
    if kind != ARRAY:
        raise InputError(f"{cursor.file.path}: {name[:100]} has the unknown type {kind}")
    inner, count = cursor.number("<I"), cursor.number("<Q")
    if inner in NUMBERS:
        form = NUMBERS[inner]
        cursor.check_count(count, struct.calcsize("<" + form), f"values of {name[:100]}")
        taken = cursor.take(count * struct.calcsize("<" + form))
        return list(struct.unpack(f"<{count}{form}", taken))
    if inner != STRING:
        raise InputError(
            f"{cursor.file.path}: {name[:100]} is an array of type {inner}; supported: arrays of "
            "numbers and of strings"
        )
    cursor.check_count(count, 8, f"texts of {name[:100]}")
    return _strings(cursor, count)


def _info(cursor: Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Read name, shape, type and offset of a tensor from the header."""
    name = _string(cursor)
    axes = cursor.check_count(cursor.number("<I"), 8, f"axes of {name[:100]}")
    sizes = [cursor.number("<Q") for _ in range(axes)]
    kind, place = cursor.number("<I"), cursor.number("<Q")
    return name, tuple(reversed(sizes)), kind, place


def _tensor(
    file: MappedFile, start: int, name: str, shape: tuple[int, ...], kind: int
) -> StoredTensor:
    if kind in PLAIN:
        return file.tensor(start, PLAIN[kind], shape, name)
    size = checked_size(shape, f"{file.path}: {name}")
    length = bytes_of(kind, shape, f"{file.path}: {name}")
    file.bytes(start + length, 0, name)
    return StoredTensor(
        shape,
        QUANTS[kind].name,
        length,
        lambda: unpack(file, start, kind, size, f"{file.path}: {name}").view(shape),
        lambda: file.release(start, length),
    )
