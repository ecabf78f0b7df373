"""The binary format of tensors for the page: a JSON header, then the raw values.

    4 bytes: length of the header | header | values, little-endian

Several frames may follow one another. Bytes (u8) encode numbers between `lo` and `hi`; 255 marks
a missing value, for example a masked score.
"""

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.see.trace_pictures import pooled, scale_of

Form = Literal["u8", "f16", "f32"]
Place = int | range | None  # one index; a range; all
NOTHING = 255


@dataclass(frozen=True)
class TensorSlice:
    """The part of a trace point to send, and its resolution."""

    index: tuple[Place, ...] = ()  # along the leading axes, without the batch axis
    form: Form = "u8"
    pool: int | tuple[int, int] | None = None  # largest size along the last two axes

    def most(self, count: int) -> list[tuple[int, int]]:
        """The axes of a value that are pooled, each with its maximum size. count: the number of
        axes of the value."""
        if self.pool is None:
            return []
        pair = self.pool if isinstance(self.pool, tuple) else (self.pool, self.pool)
        return [(place, pair[place - count]) for place in range(max(0, count - 2), count)]


def cut_shape(at: str, shape: tuple[int, ...], cut: TensorSlice) -> list[int]:
    """The shape after cutting, without the batch axis. Raises an error if the slice is out of
    range."""
    sizes = shape[1:]  # a single number, such as attention.scale, has no batch axis
    outside = any(
        (i.stop > size if isinstance(i, range) else i is not None and i >= size)
        for i, size in zip(cut.index, sizes, strict=False)
    )
    if outside or len(cut.index) > len(sizes):
        wanted = ",".join(map(written, cut.index))
        raise InputError(f"index: {wanted} is out of range for {at} of shape {sizes}")
    chosen: tuple[Place, ...] = (*cut.index, *(None for _ in sizes[len(cut.index) :]))
    left = [len(i) if isinstance(i, range) else size
            for i, size in zip(chosen, sizes, strict=True) if not isinstance(i, int)]  # fmt: skip
    for place, most in cut.most(len(left)):
        left[place] = -(-left[place] // -(-left[place] // most)) if left[place] else 0
    return left


def written(place: Place) -> str:
    """Format an index as in a page address."""
    if isinstance(place, range):
        return f"{place.start}:{place.stop}"
    return "*" if place is None else str(place)


def frame(at: str, value: Tensor, axes: tuple[str, ...], cut: TensorSlice) -> bytes:
    """The binary frame of one point, cut and pooled on its device before it is copied."""
    cut_shape(at, tuple(value.shape), cut)
    value = _chosen(value[0] if value.dim() else value, cut.index)
    return _framed(at, list(value.shape), _axes_left(axes, cut), cut, *_small(value, cut))


def frame_by_heads(
    at: str,
    shape: tuple[int, ...],
    axes: tuple[str, ...],
    cut: TensorSlice,
    rows: Callable[[int, range], Tensor],
) -> bytes:
    """The frame of an attention point, (1, heads, queries, keys), without computing all of it at
    once: `rows` computes some queries of one head, which are pooled before the next head."""
    whole = cut_shape(at, shape, replace(cut, pool=None))
    places: list[Place] = [*cut.index, None, None, None]
    head, query, key = places[:3]
    inner: tuple[Place, ...] = (0 if isinstance(query, int) else None, key)
    tables = []
    for number in _range(head, shape[1]):
        table = _chosen(rows(number, _range(query, shape[2])), inner)
        tables.append(_small(table, cut)[0])
    value = tables[0] if isinstance(head, int) else torch.stack(tables)
    return _framed(at, whole, _axes_left(axes, cut), cut, *_small(value, cut))


def _range(place: Place, size: int) -> range:
    if isinstance(place, int):
        return range(place, place + 1)
    return range(size) if place is None else place


def _axes_left(axes: tuple[str, ...], cut: TensorSlice) -> tuple[str, ...]:
    gone = {place for place, chosen in enumerate(cut.index) if isinstance(chosen, int)}
    return tuple(axis for place, axis in enumerate(axes[1:]) if place not in gone)


def _chosen(value: Tensor, index: Sequence[Place]) -> Tensor:
    for place, chosen in reversed(list(enumerate(index))):
        if isinstance(chosen, range):
            value = value.narrow(place, chosen.start, len(chosen))
        elif chosen is not None:
            value = value.select(place, chosen)
    return value


def _small(value: Tensor, cut: TensorSlice) -> tuple[Tensor, Tensor]:
    """The pooled value, and where it is finite."""
    value = value.float()
    finite = value.isfinite()
    for place, most in reversed(cut.most(value.dim())):  # the last axis is contiguous
        if value.shape[place] > most:
            value, finite = _pooled(value, finite, place, -(-value.shape[place] // most))
    return value, finite


def _framed(
    at: str,
    whole: list[int],
    axes: tuple[str, ...],
    cut: TensorSlice,
    value: Tensor,
    finite: Tensor,
) -> bytes:
    header: dict[str, object] = {
        "at": at, "axes": axes, "whole": whole,
        "index": [[i.start, i.stop] if isinstance(i, range) else i for i in cut.index],
    }  # fmt: skip
    return scaled_frame(header, value, finite, scale_of(at), cut.form)


def scaled_frame(
    header: dict[str, object], value: Tensor, finite: Tensor, scale: str, form: Form
) -> bytes:
    """A frame whose colour scale ends at the largest finite number, or at 1 for a unit scale."""
    largest = float(value.abs()[finite].max()) if bool(finite.any()) else 1.0
    hi = 1.0 if scale == "unit" else largest or 1.0
    lo = -hi if scale == "signed" else 0.0
    header |= {"shape": list(value.shape), "dtype": form, "scale": scale, "lo": lo, "hi": hi}
    return packed(header, raw_bytes(value, finite, lo, hi, form))


def _pooled(value: Tensor, finite: Tensor, place: int, size: int) -> tuple[Tensor, Tensor]:
    """Pool one axis. Each block becomes its value of largest magnitude, and is missing only if no
    value in the block is finite."""
    if bool(finite.all()):
        value = pooled(value, place, size)
        return value, torch.ones_like(value, dtype=torch.bool)
    some = pooled(finite, place, size) > 0
    largest = pooled(value.masked_fill(~finite, 0.0), place, size)
    return largest.masked_fill(~some, float("-inf")), some


def packed(header: dict[str, object], values: bytes) -> bytes:
    head = json.dumps(header, allow_nan=False).encode()
    head += b" " * (-(len(head) + 4) % 8)  # aligns the values for typed arrays
    body = values + b"\0" * (-len(values) % 8)
    return struct.pack("<I", len(head)) + head + body


def raw_bytes(value: Tensor, finite: Tensor, lo: float, hi: float, form: Form) -> bytes:
    if form == "u8":
        steps = ((value - lo) / (hi - lo) * 254).round().clamp(0, 254)
        steps = torch.where(finite, steps, torch.full_like(steps, NOTHING))
        return steps.to("cpu", torch.uint8).numpy().tobytes()
    kind = torch.float16 if form == "f16" else torch.float32
    array = value.to("cpu", kind).numpy()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def unpacked(body: bytes) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Decode frames into headers and arrays."""
    frames, at = [], 0
    kinds: dict[str, np.dtype[Any]] = {
        "u8": np.dtype("u1"), "f16": np.dtype("<f2"), "f32": np.dtype("<f4")
    }  # fmt: skip
    while at < len(body):
        (length,) = struct.unpack_from("<I", body, at)
        header = json.loads(body[at + 4 : at + 4 + length])
        kind = kinds[header["dtype"]]
        count = int(np.prod(header["shape"], dtype=int))
        start = at + 4 + length
        raw = np.frombuffer(body, kind, count, start).reshape(header["shape"])
        if header["dtype"] == "u8":
            span = header["hi"] - header["lo"]
            raw = np.where(raw == NOTHING, np.nan, header["lo"] + raw / 254 * span)
        frames.append((header, raw))
        size = count * kind.itemsize
        at = start + size + (-size % 8)
    return frames
