"""Read files written by torch.save: a zip with a pickle and the values of tensors; before torch
1.6, a series of pickles.

Nothing in the file is executed (see `pickles`). Tensors are views of the mapped file.
"""

import pickle
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import torch

from translucid.core.errors import InputError
from translucid.interop.formats.pickles import Foreign, load_inert, name_of, shown
from translucid.interop.formats.stored import (
    TORCH,
    Cursor,
    MappedFile,
    ModelFile,
    StoredTensor,
    check_total,
    checked_size,
    open_weights,
)

LARGEST_PICKLE = 16 << 20
LARGEST_DIRECTORY = 4 << 20  # bytes of a zip's table of entries: about 50,000 tensors
MOST_VISITS = (
    100_000  # lists, dicts and objects visited, in addition to one per 8 bytes of the pickle
)
LEAVES = (str, float, bytes, bool, type(None))
MOST_USES = 8  # tensors per value: embeddings may have several names
LEGACY_MAGIC, LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
MAX_DEPTH = 100
INSIDE_MODULES = {"_modules", "_parameters", "_buffers"}  # attributes of a pickled module
STORAGES = {
    "DoubleStorage": torch.float64, "FloatStorage": torch.float32, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}  # fmt: skip


@dataclass(frozen=True)
class _Storage:
    """A torch storage: an array of values, of which tensors are views."""

    key: str
    dtype: torch.dtype
    count: int
    first: int = 0  # its offset, if it is part of another storage


@dataclass(frozen=True)
class _Held:
    """The contents of a file: its objects, and offset and length of each storage, by key."""

    content: Any
    places: dict[str, tuple[int, int]]
    size: int  # bytes of the pickle


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch(path: Path) -> ModelFile:
    """Read a torch file: tensors by their path of keys, and everything else as metadata."""
    mapped = MappedFile(path)
    with open_weights(path) as file:
        is_zip = file.read(4) == TORCH[0]
        file.seek(0)
        held = _read_zip(mapped, file) if is_zip else _read_legacy(mapped, file)
    walk = _Walk(mapped, held)
    metadata = walk.of(held.content, (), ())
    check_total(path, walk.tensors, MOST_USES)
    facts = metadata if isinstance(metadata, dict) else {"content": metadata}
    return ModelFile({str(key): value for key, value in facts.items()}, walk.tensors)


def _rebuild(storage: _Storage, offset: int, shape: Any, strides: Any, *rest: object) -> _Tensor:
    if not isinstance(storage, _Storage) or type(offset) is not int:
        raise TypeError("a tensor has no values")
    if not all(type(n) is int for sizes in (shape, strides) for n in sizes):
        raise TypeError("the sizes of a tensor are not integers")
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
        case ("module", kind, *_):  # a class with its source code, which is ignored
            return kind
        case ("storage", torch.dtype() as dtype, str(key), _, int(count), *rest):
            view = rest[0] if rest else None
            if view is None:
                return _Storage(key, dtype, count)
            _, first, count = view  # part of a storage, before torch 1.6
            if type(first) is not int or type(count) is not int:
                raise TypeError("the offset or length of a storage is not an integer")
            return _Storage(key, dtype, count, first)
    raise TypeError(f"a storage of unknown type: {shown(identity)}")


def _read_zip(mapped: MappedFile, file: IO[bytes]) -> _Held:
    path, cursor = mapped.path, Cursor(mapped)
    try:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
        if end and end[zipfile._ECD_SIZE] > LARGEST_DIRECTORY:  # type: ignore[attr-defined]
            raise InputError(
                f"{path}: the zip directory takes more than {LARGEST_DIRECTORY:,} bytes, more than "
                "a model needs; save the model as safetensors"
            )
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            entries = {info.filename: info for info in archive.infolist()}
            if len(entries) < len(archive.infolist()):
                raise InputError(f"{path}: two zip entries have the same name; download it again")
            if any(info.compress_type for info in entries.values()):
                raise InputError(f"{path} is compressed, which torch.save never does; unpack it")
            pickled = [n for n in entries if n.count("/") <= 1 and n.split("/")[-1] == "data.pkl"]
            if len(pickled) != 1:
                raise InputError(
                    f"{path} is a zip without the data.pkl that torch.save writes; pass the file "
                    "with the weights"
                )
            prefix = pickled[0].removesuffix("data.pkl")
            order = entries.get(prefix + "byteorder")
            if order and order.file_size < 64 and archive.read(order)[:3] == b"big":
                raise InputError(
                    f"{path} was saved on a big-endian machine; save it on a little-endian machine"
                )
            if entries[pickled[0]].file_size > LARGEST_PICKLE:
                raise InputError(f"{path}: its pickle is larger than {LARGEST_PICKLE:,} bytes")
            text = archive.read(pickled[0])
    except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, struct.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is a damaged zip ({str(error)[:100]}); copy or download it again"
        ) from None
    content = load_inert(BytesIO(text), str(path), KNOWN, _storage)
    places = {}
    for name, info in entries.items():
        if name.startswith(prefix + "data/"):
            cursor.place = (
                info.header_offset + 26
            )  # where the lengths of the name and of the extra field are
            begin = cursor.number("<H") + cursor.number("<H") + info.header_offset + 30
            places[name.removeprefix(prefix + "data/")] = (begin, info.file_size)
    return _Held(content, places, len(text))


def _read_legacy(mapped: MappedFile, whole: IO[bytes]) -> _Held:
    path, where, file = mapped.path, str(mapped.path), BytesIO(whole.read(LARGEST_PICKLE))
    if load_inert(file, where) != LEGACY_MAGIC or load_inert(file, where) != LEGACY_PROTOCOL:
        raise InputError(f"{path} was not written by torch.save; it is a different kind of file")
    system = load_inert(file, where)
    if isinstance(system, dict) and system.get("little_endian") is False:
        raise InputError(
            f"{path} was saved on a big-endian machine; save it on a little-endian machine"
        )
    sizes: dict[str, int] = {}

    def note(identity: Any) -> Any:
        storage = _storage(identity)
        if isinstance(storage, _Storage):
            sizes[storage.key] = storage.dtype.itemsize
        return storage

    content = load_inert(file, where, KNOWN, note)
    keys = load_inert(file, where)
    cursor, places = Cursor(mapped, file.tell()), {}
    for key in keys if isinstance(keys, list) else ():
        if not isinstance(key, str):
            raise InputError(f"{path}: the key of a storage is not a string; copy the file again")
        length = cursor.number("<q") * sizes.get(key, 1)
        places[key] = (cursor.place, length)
        cursor.file.bytes(cursor.place + length, 0, f"the values {key[:100]}")
        cursor.place += length
    return _Held(content, places, file.tell())


class _Walk:
    """Walks the objects of a pickle and collects its tensors by their path of keys."""

    def __init__(self, mapped: MappedFile, held: _Held) -> None:
        self.tensors: dict[str, StoredTensor] = {}
        self._mapped, self._held = mapped, held
        self._leaves, self._most_leaves = 0, MOST_VISITS + held.size
        self._visits, self._most = 0, MOST_VISITS + held.size // 8

    def of(self, value: Any, path: tuple[str, ...], above: tuple[int, ...]) -> Any:
        """A copy of a value without its tensors. An object that occurs several times is copied each
        time."""
        if type(value) in LEAVES:
            return value
        self._visits += type(value) is not int
        if self._visits > self._most or self._leaves > self._most_leaves:
            raise InputError(
                f"{self._mapped.path} contains more than {self._most:,} objects, many of them "
                "nested in each other; do not use this file unless you know who made it"
            )
        if isinstance(value, _Tensor):
            name = ".".join(path)
            self.tensors[name] = _stored(value, name, self._mapped, self._held.places)
            return None
        if len(above) > MAX_DEPTH or id(value) in above:
            return None  # a cycle of objects, which contains no weights
        above = (*above, id(value))
        try:
            named = dict(_named(value))
            self._leaves += len(named)
            if named:
                kept = {
                    key: self.of(inner, (*path, key) if key not in INSIDE_MODULES else path, above)
                    for key, inner in named.items()
                }
                return {"class": value.class_name} | kept if isinstance(value, Foreign) else kept
            if isinstance(value, list | tuple | set | frozenset):
                self._leaves += len(value)
                return [self.of(item, (*path, str(i)), above) for i, item in enumerate(value)]
            return _short(value)
        except pickle.UnpicklingError as error:
            raise InputError(f"{self._mapped.path}: {error}; save it as safetensors") from None


def _short(value: Any) -> Any:
    """An integer or bool as it is; anything else as text."""
    text = shown(value)
    return value if isinstance(value, int) else text


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield name_of(key), inner
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
            f"{what[:300]} of shape {list(tensor.shape)} needs more values than the file contains "
            "for it; the file is truncated or damaged: copy or download it again"
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
