"""Numbers for the page: a header in JSON, then the values as they lie in memory.

    4 bytes: length of the header | header | values, little-endian

Several frames may follow one another. Bytes (u8) stand for numbers between `lo` and `hi`; 255 says
that there is nothing to show, such as a score that a mask has taken away.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from translucid.see.of_points import pooled, scale_of

Form = Literal["u8", "f16", "f32"]
NOTHING = 255


@dataclass(frozen=True)
class Cut:
    """Which part of a point is wanted, and how finely."""

    index: tuple[int | None, ...] = ()  # along the leading axes behind the batch; None: all
    form: Form = "u8"
    pool: int | None = None  # at most so many numbers along each of the last two axes


def frame(at: str, value: Tensor, axes: tuple[str, ...], cut: Cut) -> bytes:
    """One point of one text. Cut and pooled where it was computed, then copied."""
    value, axes = value[0] if value.dim() else value, axes[1:]  # a scale has no batch
    for place, chosen in reversed(list(enumerate(cut.index))):
        if chosen is not None:
            value = value.select(place, chosen)
            axes = axes[:place] + axes[place + 1 :]
    shape = list(value.shape)
    value = value.float()
    if cut.pool is not None:
        for place in range(max(0, value.dim() - 2), value.dim()):
            if value.shape[place] > cut.pool:
                value = pooled(value, place, -(-value.shape[place] // cut.pool))
    scale = scale_of(at)
    finite = value.isfinite()
    most = float(value.abs()[finite].max()) if bool(finite.any()) else 1.0
    hi = 1.0 if scale == "unit" else most or 1.0
    lo = -hi if scale == "signed" else 0.0
    header = {
        "at": at, "axes": axes, "shape": list(value.shape), "whole": shape, "dtype": cut.form,
        "scale": scale, "lo": lo, "hi": hi, "index": cut.index,
    }  # fmt: skip
    return packed(header, raw_bytes(value, finite, lo, hi, cut.form))


def packed(header: dict[str, object], values: bytes) -> bytes:
    head = json.dumps(header, allow_nan=False).encode()
    head += b" " * (-(len(head) + 4) % 8)  # so that numbers begin where a page can read them
    body = values + b"\0" * (-len(values) % 8)
    return struct.pack("<I", len(head)) + head + body


def raw_bytes(value: Tensor, finite: Tensor, lo: float, hi: float, form: Form) -> bytes:
    if form == "u8":
        steps = ((value - lo) / (hi - lo) * 254).round().clamp(0, 254)
        steps = torch.where(finite, steps, torch.full_like(steps, NOTHING))
        return steps.to("cpu", torch.uint8).numpy().tobytes()
    kind = torch.float16 if form == "f16" else torch.float32
    found = value.to("cpu", kind).numpy()
    return found.astype(found.dtype.newbyteorder("<")).tobytes()


def unpacked(body: bytes) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Frames again: headers, and numbers; for tests and for Python."""
    found, at = [], 0
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
        found.append((header, raw))
        size = count * kind.itemsize
        at = start + size + (-size % 8)
    return found
