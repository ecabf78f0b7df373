"""What torch.save wrote: a zip with a pickle and the values of tensors; before torch 1.6, pickles
end to end.

Nothing of the file is run, whatever it says (see `pickles`); tensors are views of the mapped file,
whichever device they were saved from.
"""

import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import torch

from translucid.errors import InputError
from translucid.interop.formats.pickles import Foreign, load_inert
from translucid.interop.formats.stored import (
    LARGEST,
    Cursor,
    MappedFile,
    ModelFile,
    StoredTensor,
    checked_size,
)
from translucid.untrusted_files import open_regular

LARGEST_PICKLE = 256 << 20
LEGACY_MAGIC, LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
MAX_DEPTH = 60
INSIDE_MODULES = {"_modules", "_parameters", "_buffers"}  # where a pickled module keeps things
STORAGES = {
    "DoubleStorage": torch.float64, "FloatStorage": torch.float32, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}  # fmt: skip


@dataclass(frozen=True)
class _Storage:
    """Values that tensors are views of."""

    key: str
    dtype: torch.dtype
    count: int
    first: int = 0  # where it begins in a storage that it is a part of


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch(path: Path) -> ModelFile:
    """Everything that is no tensor as metadata; tensors by the keys that lead to them."""
    try:
        with open_regular(path, LARGEST) as file:
            is_zip = file.read(4) == b"PK\x03\x04"
            file.seek(0)
            content, places = _read_zip(path, file) if is_zip else _read_legacy(path, file)
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    mapped = MappedFile(path)
    tensors: dict[str, StoredTensor] = {}
    metadata = _walk(content, (), tensors, mapped, places, ())
    facts = metadata if isinstance(metadata, dict) else {"content": metadata}
    return ModelFile({str(key): value for key, value in facts.items()}, tensors)


def _rebuild(storage: _Storage, offset: int, shape: Any, strides: Any, *rest: object) -> _Tensor:
    if not isinstance(storage, _Storage) or type(offset) is not int:
        raise TypeError("a tensor without its values")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _rebuild_parameter(tensor: _Tensor, *rest: object) -> _Tensor:
    return tensor


KNOWN: Mapping[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): _rebuild,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch", "Size"): tuple,
    **{(module, name): dtype for name, dtype in STORAGES.items()
       for module in ("torch", "torch.cuda", "torch.storage")},
    **{("torch", str(dtype).removeprefix("torch.")): str(dtype) for dtype in STORAGES.values()},
}  # fmt: skip


def _storage(identity: Any) -> Any:
    match identity:
        case ("module", kind, *_):  # a class with its source code, which nobody reads
            return kind
        case ("storage", torch.dtype() as dtype, str(key), _, int(count), *rest):
            view = rest[0] if rest else None
            if view is None:
                return _Storage(key, dtype, count)
            _, first, count = view  # a part of a storage, in files before torch 1.6
            return _Storage(key, dtype, count, first)
    raise TypeError(f"values of an unknown kind: {str(identity)[:100]}")


def _read_zip(path: Path, file: IO[bytes]) -> tuple[Any, dict[str, tuple[int, int]]]:
    """What the pickle holds, and place and length of the values by their key."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = {info.filename: info for info in archive.infolist()}
            pickled = [n for n in entries if n.count("/") <= 1 and n.split("/")[-1] == "data.pkl"]
            if len(pickled) != 1:
                raise InputError(
                    f"{path} is a zip without the data.pkl that torch.save writes; give the file "
                    "that holds the weights"
                )
            prefix = pickled[0].removesuffix("data.pkl")
            order = entries.get(prefix + "byteorder")
            if order is not None and archive.read(order)[:3] == b"big":
                raise InputError(f"{path} was saved on a big-endian machine; save it on another")
            if any(info.compress_type for info in entries.values()):
                raise InputError(f"{path} is compressed, which torch.save never does; unpack it")
            if entries[pickled[0]].file_size > LARGEST_PICKLE:
                raise InputError(f"{path}: its pickle is larger than {LARGEST_PICKLE:,} bytes")
            text = archive.read(pickled[0])
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, struct.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is a damaged zip ({str(error)[:100]}); copy or download it again"
        ) from None
    content = load_inert(BytesIO(text), str(path), KNOWN, _storage)
    cursor = Cursor(MappedFile(path))
    places = {}
    for name, info in entries.items():
        if name.startswith(prefix + "data/"):
            cursor.place = info.header_offset + 26  # lengths of the name and of what follows it
            begin = cursor.number("<H") + cursor.number("<H") + info.header_offset + 30
            places[name.removeprefix(prefix + "data/")] = (begin, info.file_size)
    return content, places


def _read_legacy(path: Path, file: IO[bytes]) -> tuple[Any, dict[str, tuple[int, int]]]:
    where = str(path)
    if load_inert(file, where) != LEGACY_MAGIC or load_inert(file, where) != LEGACY_PROTOCOL:
        raise InputError(f"{path} was not written by torch.save; it is another kind of file")
    system = load_inert(file, where)
    if isinstance(system, dict) and system.get("little_endian") is False:
        raise InputError(f"{path} was saved on a big-endian machine; save it on another")
    sizes: dict[str, int] = {}

    def note(identity: Any) -> Any:
        storage = _storage(identity)
        if isinstance(storage, _Storage):
            sizes[storage.key] = storage.dtype.itemsize
        return storage

    content = load_inert(file, where, KNOWN, note)
    keys = load_inert(file, where)
    cursor, places = Cursor(MappedFile(path), file.tell()), {}
    for key in keys if isinstance(keys, list) else ():
        length = cursor.number("<q") * sizes.get(str(key), 1)
        places[str(key)] = (cursor.place, length)
        cursor.file.bytes(cursor.place + length, 0, f"the values {key}")
        cursor.place += length
    return content, places


def _walk(
    value: Any,
    path: tuple[str, ...],
    tensors: dict[str, StoredTensor],
    mapped: MappedFile,
    places: dict[str, tuple[int, int]],
    above: tuple[int, ...],
) -> Any:
    """The value without its tensors, which are put aside under the path that leads to them."""
    if isinstance(value, _Tensor):
        name = ".".join(path)
        tensors[name] = _stored(value, name, mapped, places)
        return None
    if len(path) > MAX_DEPTH or id(value) in above:
        return None  # a circle of objects, which no weights are in
    above = (*above, id(value))
    named = dict(_named(value))
    if named:
        kept = {
            key: _walk(inner, (*path, key) if key not in INSIDE_MODULES else path, tensors, mapped,
                       places, above)
            for key, inner in named.items()
        }  # fmt: skip
        return {"class": value.class_name} | kept if isinstance(value, Foreign) else kept
    if isinstance(value, list | tuple | set | frozenset):
        return [
            _walk(inner, (*path, str(i)), tensors, mapped, places, above)
            for i, inner in enumerate(value)
        ]
    return value if isinstance(value, str | int | float | bool | bytes | None) else str(value)[:200]


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key), inner
    elif isinstance(value, Foreign):
        yield from value.attributes.items()
        if value.arguments:
            yield "arguments", list(value.arguments)
        if value.entries:
            yield "entries", value.entries


def _stored(
    tensor: _Tensor, name: str, mapped: MappedFile, places: dict[str, tuple[int, int]]
) -> StoredTensor:
    storage, what = tensor.storage, f"{mapped.path}: {name}"
    size = checked_size(tensor.shape, what)
    start, length = places.get(storage.key, (0, -1))
    strides = tensor.strides
    checked_size(strides, what)
    if len(strides) != len(tensor.shape) or tensor.offset < 0 or storage.first < 0:
        raise InputError(f"{what[:300]} has strides {list(strides)} that do not fit its shape")
    last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, strides, strict=True))
    end = (storage.first + storage.count) * storage.dtype.itemsize
    if size and (last >= storage.count or size > storage.count or end > length):
        raise InputError(
            f"{what[:300]} of shape {list(tensor.shape)} needs more values than the file holds for "
            "it; it was cut short or damaged: copy or download it again"
        )
    whole = mapped.tensor(
        start + storage.first * storage.dtype.itemsize, storage.dtype, (storage.count,), name
    ) if size else None  # fmt: skip
    dtype = str(storage.dtype).removeprefix("torch.")
    if whole is None:
        empty = torch.empty(tensor.shape, dtype=storage.dtype)
        return StoredTensor(tensor.shape, dtype, 0, lambda: empty)
    return StoredTensor(
        tensor.shape,
        dtype,
        size * storage.dtype.itemsize,
        lambda: whole.read().as_strided(tensor.shape, strides, tensor.offset),
        whole.release,
    )
