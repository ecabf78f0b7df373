"""Tensors as views of a memory-mapped file.

Everything that a file declares is checked against its size before it is used.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.untrusted_files import open_regular

LARGEST = 1 << 62  # bytes: mapping a file takes no memory
MAX_AXES = 8
# First bytes of files: GGUF, and those of torch.save (a zip; before torch 1.6 a pickle).
GGUF = b"GGUF"
TORCH = (b"PK\x03\x04", b"\x80\x02\x8a\x0a")


@contextmanager
def open_weights(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file of any size; errors name it."""
    try:
        with open_regular(path, LARGEST) as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


@dataclass(frozen=True)
class StoredTensor:
    """A tensor that has not been read yet."""

    shape: tuple[int, ...]
    dtype: str  # the name in the file
    nbytes: int  # bytes in the file
    read: Callable[[], Tensor]  # a view of the file, or unpacked values
    release: Callable[[], None] = lambda: None  # frees the memory of the file's pages
    file: "MappedFile | None" = (
        None  # the file that contains the values as they are; None: they are converted
    )
    start: int = 0  # their first byte in that file

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class ModelFile:
    """The contents of a file: metadata, and tensors by name."""

    metadata: dict[str, Any]
    tensors: dict[str, StoredTensor]


class MappedFile:
    """A regular file, mapped copy-on-write, so that a view can be an ordinary tensor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_weights(path) as file:
            if not os.fstat(file.fileno()).st_size:
                raise InputError(f"{path} is empty; copy it again")
            self.mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.size = len(self.mapping)

    def bytes(self, start: int, count: int, what: str) -> bytes:
        self._check(start, count, what)
        return self.mapping[start : start + count]

    def view(self, start: int, dtype: torch.dtype, shape: tuple[int, ...], what: str) -> Tensor:
        """A tensor at this offset of the file."""
        count = checked_size(shape, f"{self.path}: {what}")
        self._check(start, count * dtype.itemsize, what)
        if not count:
            return torch.empty(shape, dtype=dtype)
        if start % dtype.itemsize:  # torch needs aligned values
            raw = torch.frombuffer(
                self.mapping, dtype=torch.uint8, count=count * dtype.itemsize, offset=start
            )
            return raw.clone().view(dtype).view(shape)
        return torch.frombuffer(self.mapping, dtype=dtype, count=count, offset=start).view(shape)

    def tensor(
        self, start: int, dtype: torch.dtype, shape: tuple[int, ...], what: str
    ) -> StoredTensor:
        """A tensor to read later; its offset is checked now."""
        size = checked_size(shape, f"{self.path}: {what}") * dtype.itemsize
        self._check(start, size, what)
        return StoredTensor(
            shape,
            str(dtype).removeprefix("torch."),
            size,
            lambda: self.view(start, dtype, shape, what),
            lambda: self.release(start, size),
            self,
            start,
        )

    def release(self, start: int, count: int) -> None:
        """Free the memory of a region of the file; it can be read again."""
        begin = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE  # only whole pages inside the region
        end = (start + count) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > begin and hasattr(mmap, "MADV_DONTNEED"):
            self.mapping.madvise(mmap.MADV_DONTNEED, begin, end - begin)

    def _check(self, start: int, count: int, what: str) -> None:
        if start < 0 or count < 0 or start + count > self.size:
            raise InputError(
                f"{self.path}: {what[:200]} would end at byte {start + count:,}, but the file has "
                f"only {self.size:,} bytes; it is truncated or damaged: copy or download it again"
            )


def rows_in_place(tensors: Sequence[StoredTensor]) -> Tensor | None:
    """One view of several float32 tensors, if they are adjacent in a file; otherwise None."""
    file, start, end = tensors[0].file, tensors[0].start, tensors[0].start
    for tensor in tensors:
        if tensor.file is not file or tensor.start != end or tensor.dtype != "float32":
            return None
        end += tensor.nbytes
    if file is None or start % torch.float32.itemsize or not all(t.size for t in tensors):
        return None
    shape = (sum(tensor.shape[0] for tensor in tensors), *tensors[0].shape[1:])
    return file.view(start, torch.float32, shape, "its weights")


class Cursor:
    """Reads the values of a binary header in order."""

    def __init__(self, file: MappedFile, place: int = 0) -> None:
        self.file, self.place = file, place

    def number(self, form: str, what: str = "its header") -> Any:
        """Read one value. form: its format in the module struct."""
        size = struct.calcsize(form)
        (value,) = struct.unpack(form, self.take(size, what))
        return value

    def take(self, count: int, what: str = "its header") -> bytes:
        taken = self.file.bytes(self.place, count, what)
        self.place += count
        return taken

    def check_count(self, count: int, smallest: int, what: str) -> int:
        """Check a declared number of items that take at least `smallest` bytes each."""
        if count < 0 or count * smallest > self.file.size - self.place:
            raise InputError(
                f"{self.file.path} declares {count:,} {what}, more than the rest of the file can "
                "contain; it is truncated or damaged: copy or download it again"
            )
        return count


def checked_size(shape: tuple[int, ...], what: str) -> int:
    """The number of values in a tensor of this shape; raises an error for impossible shapes."""
    if len(shape) > MAX_AXES or any(type(n) is not int or n < 0 for n in shape):
        raise InputError(f"{what[:300]} has the impossible shape {str(list(shape))[:100]}")
    size = prod(shape)
    if size >= 1 << 62:
        raise InputError(f"{what[:300]} has the shape {list(shape)}, too large for a tensor")
    return size


def check_total(path: Path, tensors: dict[str, StoredTensor], most: int = 1) -> None:
    """Raise an error if the tensors are larger in total than `most` times the file. Overlapping
    tensors in a small file could otherwise fill the memory."""
    total, size = sum(tensor.nbytes for tensor in tensors.values()), path.stat().st_size
    if total > most * size:
        raise InputError(
            f"{path}: its tensors take {total:,} bytes in total, but the file has only {size:,}; "
            "do not use it unless you know who made it"
        )
