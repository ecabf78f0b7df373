"""Blocks of quantised weights as numbers: llama.cpp's types.

A block of 32 weights has one scale d, and for the types that end in 1 an offset m as well:
w = d q (Q8_0), d (q - 8) (Q4_0), d q + m (Q4_1), d (q - 16) (Q5_0), d q + m (Q5_1). For blocks of
256 see `k_quants`; those that need large tables (IQ1 to IQ3) or are rare are left to the `gguf`
package.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.interop.formats import k_quants
from translucid.interop.formats.k_quants import Bytes, Floats, fields, half
from translucid.interop.formats.stored import MappedFile

PLAIN = {0: torch.float32, 1: torch.float16, 28: torch.float64, 30: torch.bfloat16}
NAMES = {
    2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
    21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
BLOCKS = {  # weights and bytes of a block
    2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    29: (256, 56), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
AT_ONCE = 1 << 22  # weights that are unpacked at once: some 20 MB


def bytes_of(kind: int, shape: tuple[int, ...], what: str) -> int:
    """How many bytes a tensor of this type takes."""
    if kind not in BLOCKS:
        raise InputError(
            f"{what[:300]} has the quantisation type {kind}, which is unknown; F32, F16, BF16, "
            f"{', '.join(NAMES.values())} can be read: convert the model to one of these"
        )
    weights, size = BLOCKS[kind]
    if not shape or shape[-1] % weights:
        raise InputError(
            f"{what[:300]} of shape {list(shape)} is no whole number of {NAMES[kind]} blocks of "
            f"{weights}; the file is damaged: download it again"
        )
    return int(np.prod(shape, dtype=object)) // weights * size


def unpack(file: MappedFile, start: int, kind: int, size: int, what: str) -> Tensor:
    """The weights as float32, block after block."""
    weights, length = BLOCKS[kind]
    decode = _DECODERS.get(kind) or _from_package(kind, what)
    result = np.empty((size // weights, weights), dtype=np.float32)
    step = AT_ONCE // weights
    for begin in range(0, len(result), step):
        count = min(step, len(result) - begin)
        raw = file.view(start + begin * length, torch.uint8, (count, length), what)
        result[begin : begin + count] = decode(raw.numpy())
    return torch.from_numpy(result.reshape(-1))


def _fifth_bits(raw: Bytes) -> Bytes:
    """4 bytes of each block as 32 numbers, 0 or 16."""
    return np.unpackbits(np.ascontiguousarray(raw), axis=1, bitorder="little") * np.uint8(16)


def _q8_0(raw: Bytes) -> Floats:
    return half(raw[:, :2]) * raw[:, 2:].view(np.int8)


def _q4_0(raw: Bytes) -> Floats:
    return half(raw[:, :2]) * (fields(raw[:, 2:], 16, 4).astype(np.int8) - np.int8(8))


def _q4_1(raw: Bytes) -> Floats:
    return half(raw[:, :2]) * fields(raw[:, 4:], 16, 4) + half(raw[:, 2:4])


def _q5_0(raw: Bytes) -> Floats:
    numbers = fields(raw[:, 6:], 16, 4) | _fifth_bits(raw[:, 2:6])
    return half(raw[:, :2]) * (numbers.astype(np.int8) - np.int8(16))


def _q5_1(raw: Bytes) -> Floats:
    numbers = fields(raw[:, 8:], 16, 4) | _fifth_bits(raw[:, 4:8])
    return half(raw[:, :2]) * numbers + half(raw[:, 2:4])


_DECODERS: dict[int, Callable[[Bytes], Floats]] = {
    2: _q4_0, 3: _q4_1, 6: _q5_0, 7: _q5_1, 8: _q8_0, 10: k_quants.q2_k, 11: k_quants.q3_k,
    12: k_quants.q4_k, 13: k_quants.q5_k, 14: k_quants.q6_k, 20: k_quants.iq4_nl,
    23: k_quants.iq4_xs,
}  # fmt: skip


def _from_package(kind: int, what: str) -> Callable[[Bytes], Floats]:
    try:
        from gguf import quants  # type: ignore[import-not-found, unused-ignore]
        from gguf.constants import (  # type: ignore[import-not-found, unused-ignore]
            GGMLQuantizationType,
        )
    except ImportError:
        raise InputError(
            f"{what[:300]} is quantised as {NAMES[kind]}, which needs the package gguf; install it "
            "with: pip install gguf, or use a file in F32, F16, BF16, "
            f"{', '.join(NAMES[known] for known in _DECODERS)}"
        ) from None

    def decode(raw: Bytes) -> Any:
        return quants.dequantize(raw, GGMLQuantizationType(kind))

    return decode
