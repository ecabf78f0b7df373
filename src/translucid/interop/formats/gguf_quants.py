"""Dequantise tensors in llama.cpp's quantisation types.

A block of 32 weights has one scale d, and in types that end in 1 also an offset m:
w = d q (Q8_0), d (q - 8) (Q4_0), d q + m (Q4_1), d (q - 16) (Q5_0), d q + m (Q5_1).

A block of 256 weights (k-quants) has a scale d in float16, and each group of 16 or 32 weights in it
a small integer s: w = d s q. Q2_K, Q4_K and Q5_K have a second pair: w = d s q - d' s'. The bits of
q and s are spread over the block. IQ4_NL and IQ4_XS look q up in a table that is finer near zero.
Rare types, and types with large tables (IQ1 to IQ3), are left to the package gguf.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from translucid.core.errors import InputError
from translucid.interop.formats.stored import MappedFile

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
PLAIN = {0: torch.float32, 1: torch.float16, 28: torch.float64, 30: torch.bfloat16}
AT_ONCE = 1 << 22  # weights that are dequantised at once: about 20 MB
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
               dtype=np.float32)  # fmt: skip


class Quant(NamedTuple):
    """A quantisation type: blocks of `weights` weights in `size` bytes."""

    name: str
    weights: int
    size: int
    decode: Callable[[Bytes], Floats] | None = None  # None: use the package gguf


def bytes_of(kind: int, shape: tuple[int, ...], what: str) -> int:
    """The size in bytes of a tensor of this type and shape."""
    if kind not in QUANTS:
        names = ", ".join(quant.name for quant in QUANTS.values())
        raise InputError(
            f"{what[:300]} has the unknown quantization type {kind}; supported: F32, F16, BF16, "
            f"{names}; convert the model to one of these"
        )
    quant = QUANTS[kind]
    if not shape or shape[-1] % quant.weights:
        raise InputError(
            f"{what[:300]} of shape {list(shape)} cannot be divided into {quant.name} blocks of "
            f"{quant.weights}; the file is damaged: download it again"
        )
    return int(np.prod(shape, dtype=object)) // quant.weights * quant.size


def unpack(file: MappedFile, start: int, kind: int, size: int, what: str) -> Tensor:
    """Dequantise a tensor to float32."""
    _, weights, length, decode = QUANTS[kind]
    decode = decode or _from_package(kind, what)
    result = np.empty((size // weights, weights), dtype=np.float32)
    step = AT_ONCE // weights
    for begin in range(0, len(result), step):
        count = min(step, len(result) - begin)
        raw = file.view(start + begin * length, torch.uint8, (count, length), what)
        result[begin : begin + count] = decode(raw.numpy())
    return torch.from_numpy(result.reshape(-1))


def _from_package(kind: int, what: str) -> Callable[[Bytes], Floats]:
    try:
        from gguf import quants  # type: ignore[import-not-found, unused-ignore]
        from gguf.constants import (  # type: ignore[import-not-found, unused-ignore]
            GGMLQuantizationType,
        )
    except ImportError:
        raise InputError(
            f"{what[:300]} is quantized as {QUANTS[kind].name}, which needs the package gguf; "
            "install it with: pip install gguf, or use a file in F32, F16, BF16, "
            f"{', '.join(quant.name for quant in QUANTS.values() if quant.decode)}"
        ) from None

    def decode(raw: Bytes) -> Any:
        return quants.dequantize(raw, GGMLQuantizationType(kind))

    return decode


def _half(raw: Bytes) -> Floats:
    """Interpret two bytes of each block as a float16 number."""
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def _fields(raw: Bytes, width: int, bits: int) -> Bytes:
    """Unpack integers of `bits` bits: first the lowest bits of each of `width` bytes, then the next
    bits of each byte, and so on."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    numbers = (raw.reshape(len(raw), -1, 1, width) >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(len(raw), -1)


def _q2_k(raw: Bytes) -> Floats:
    scales, numbers = raw[:, :16], _fields(raw[:, 16:80], 32, 2)
    scaled = _by_group(_half(raw[:, 80:82]) * (scales & 15), numbers)
    return scaled - _by_group(_half(raw[:, 82:84]) * (scales >> 4), np.ones_like(numbers))


def _q3_k(raw: Bytes) -> Floats:
    low, high = _fields(raw[:, 96:104], 8, 4), _fields(raw[:, 104:108], 4, 2)
    scales = (low | high << 4).astype(np.int8) - np.int8(32)
    numbers = _fields(raw[:, 32:96], 32, 2) | _fields(raw[:, :32], 32, 1) << 2
    return _by_group(_half(raw[:, 108:110]) * scales, numbers.astype(np.int8) - np.int8(4))


def _q4_k(raw: Bytes) -> Floats:
    return _with_minimum(raw, _fields(raw[:, 16:144], 32, 4))


def _q5_k(raw: Bytes) -> Floats:
    return _with_minimum(raw, _fields(raw[:, 48:176], 32, 4) | _fields(raw[:, 16:48], 32, 1) << 4)


def _q6_k(raw: Bytes) -> Floats:
    numbers = _fields(raw[:, :128], 64, 4) | _fields(raw[:, 128:192], 32, 2) << 4
    scales = _half(raw[:, 208:210]) * raw[:, 192:208].view(np.int8)
    return _by_group(scales, numbers.astype(np.int8) - np.int8(32))


def _iq4_nl(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * IQ4[_fields(raw[:, 2:], 16, 4)]


def _iq4_xs(raw: Bytes) -> Floats:
    scales = (_fields(raw[:, 4:8], 1, 4) | _fields(raw[:, 2:4], 1, 2) << 4).astype(np.int8)
    return _by_group(_half(raw[:, :2]) * (scales - np.int8(32)), IQ4[_fields(raw[:, 8:], 16, 4)])


def _with_minimum(raw: Bytes, numbers: NDArray[np.integer[Any]]) -> Floats:
    """Dequantise Q4_K and Q5_K, which store 4 bits of each scale and minimum in one place and 2
    bits in another."""
    one, two, both = raw[:, 4:8], raw[:, 8:12], raw[:, 12:16]
    scales = np.concatenate([one & 63, both & 15 | one >> 6 << 4], axis=1)
    minima = np.concatenate([two & 63, both >> 4 | two >> 6 << 4], axis=1)
    scaled = _by_group(_half(raw[:, :2]) * scales, numbers)
    return scaled - _by_group(_half(raw[:, 2:4]) * minima, np.ones_like(numbers))


def _by_group(scales: Floats, numbers: NDArray[np.generic]) -> Floats:
    """Multiply the numbers of each group by the group's scale."""
    grouped = numbers.reshape(*scales.shape, -1).astype(np.float32)
    return (scales[..., None] * grouped).reshape(len(numbers), -1)


def _fifth_bits(raw: Bytes) -> Bytes:
    """The fifth bits of 32 numbers, from 4 bytes of each block: 0 or 16 each."""
    return np.unpackbits(np.ascontiguousarray(raw), axis=1, bitorder="little") * np.uint8(16)


def _q8_0(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * raw[:, 2:].view(np.int8)


def _q4_0(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * (_fields(raw[:, 2:], 16, 4).astype(np.int8) - np.int8(8))


def _q4_1(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * _fields(raw[:, 4:], 16, 4) + _half(raw[:, 2:4])


def _q5_0(raw: Bytes) -> Floats:
    numbers = _fields(raw[:, 6:], 16, 4) | _fifth_bits(raw[:, 2:6])
    return _half(raw[:, :2]) * (numbers.astype(np.int8) - np.int8(16))


def _q5_1(raw: Bytes) -> Floats:
    numbers = _fields(raw[:, 8:], 16, 4) | _fifth_bits(raw[:, 4:8])
    return _half(raw[:, :2]) * numbers + _half(raw[:, 2:4])


QUANTS = {
    2: Quant("Q4_0", 32, 18, _q4_0),
    3: Quant("Q4_1", 32, 20, _q4_1),
    6: Quant("Q5_0", 32, 22, _q5_0),
    7: Quant("Q5_1", 32, 24, _q5_1),
    8: Quant("Q8_0", 32, 34, _q8_0),
    10: Quant("Q2_K", 256, 84, _q2_k),
    11: Quant("Q3_K", 256, 110, _q3_k),
    12: Quant("Q4_K", 256, 144, _q4_k),
    13: Quant("Q5_K", 256, 176, _q5_k),
    14: Quant("Q6_K", 256, 210, _q6_k),
    16: Quant("IQ2_XXS", 256, 66),
    17: Quant("IQ2_XS", 256, 74),
    18: Quant("IQ3_XXS", 256, 98),
    19: Quant("IQ1_S", 256, 50),
    20: Quant("IQ4_NL", 32, 18, _iq4_nl),
    21: Quant("IQ3_S", 256, 110),
    22: Quant("IQ2_S", 256, 82),
    23: Quant("IQ4_XS", 256, 136, _iq4_xs),
    29: Quant("IQ1_M", 256, 56),
    34: Quant("TQ1_0", 256, 54),
    35: Quant("TQ2_0", 256, 66),
    39: Quant("MXFP4", 32, 17),
}
