"""Blocks of 256 weights, most of them nested: llama.cpp's k-quants.

A block has a scale d in float16, and each group of 16 or 32 weights in it a small whole number s:
w = d s q; in Q2_K, Q4_K and Q5_K a second scale and whole number give what is subtracted:
w = d s q - d' s'. The bits of q and s lie in several places of a block. IQ4_NL and IQ4_XS look q up
in a table that is finer near zero.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
               dtype=np.float32)  # fmt: skip


def half(raw: Bytes) -> Floats:
    """Two bytes of each block as a number of 16 bits."""
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def fields(raw: Bytes, width: int, bits: int) -> Bytes:
    """Whole numbers of so many bits: of `width` bytes first the lowest of each, then the next."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    numbers = (raw.reshape(len(raw), -1, 1, width) >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(len(raw), -1)


def q2_k(raw: Bytes) -> Floats:
    scales, numbers = raw[:, :16], fields(raw[:, 16:80], 32, 2)
    scaled = _by_group(half(raw[:, 80:82]) * (scales & 15), numbers)
    return scaled - _by_group(half(raw[:, 82:84]) * (scales >> 4), np.ones_like(numbers))


def q3_k(raw: Bytes) -> Floats:
    low, high = fields(raw[:, 96:104], 8, 4), fields(raw[:, 104:108], 4, 2)
    scales = (low | high << 4).astype(np.int8) - np.int8(32)
    numbers = fields(raw[:, 32:96], 32, 2) | fields(raw[:, :32], 32, 1) << 2
    return _by_group(half(raw[:, 108:110]) * scales, numbers.astype(np.int8) - np.int8(4))


def q4_k(raw: Bytes) -> Floats:
    return _with_minimum(raw, fields(raw[:, 16:144], 32, 4))


def q5_k(raw: Bytes) -> Floats:
    return _with_minimum(raw, fields(raw[:, 48:176], 32, 4) | fields(raw[:, 16:48], 32, 1) << 4)


def q6_k(raw: Bytes) -> Floats:
    numbers = fields(raw[:, :128], 64, 4) | fields(raw[:, 128:192], 32, 2) << 4
    scales = half(raw[:, 208:210]) * raw[:, 192:208].view(np.int8)
    return _by_group(scales, numbers.astype(np.int8) - np.int8(32))


def iq4_nl(raw: Bytes) -> Floats:
    return half(raw[:, :2]) * IQ4[fields(raw[:, 2:], 16, 4)]


def iq4_xs(raw: Bytes) -> Floats:
    scales = (fields(raw[:, 4:8], 1, 4) | fields(raw[:, 2:4], 1, 2) << 4).astype(np.int8)
    return _by_group(half(raw[:, :2]) * (scales - np.int8(32)), IQ4[fields(raw[:, 8:], 16, 4)])


def _with_minimum(raw: Bytes, numbers: NDArray[np.integer[Any]]) -> Floats:
    """Of Q4_K and Q5_K, whose scales and minima have 6 bits: four in one place, two in another."""
    one, two, both = raw[:, 4:8], raw[:, 8:12], raw[:, 12:16]
    scales = np.concatenate([one & 63, both & 15 | one >> 6 << 4], axis=1)
    minima = np.concatenate([two & 63, both >> 4 | two >> 6 << 4], axis=1)
    scaled = _by_group(half(raw[:, :2]) * scales, numbers)
    return scaled - _by_group(half(raw[:, 2:4]) * minima, np.ones_like(numbers))


def _by_group(scales: Floats, numbers: NDArray[np.generic]) -> Floats:
    """Each scale times the numbers of its group."""
    grouped = numbers.reshape(*scales.shape, -1).astype(np.float32)
    return (scales[..., None] * grouped).reshape(len(numbers), -1)
