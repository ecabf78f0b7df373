"""Blocks of 256 quantised weights, each weight once more as llama.cpp's loops define it."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.interop.writers import GGUF_KINDS, write_gguf

from translucid.core.errors import InputError
from translucid.interop.formats.gguf_file import read_gguf
from translucid.interop.formats.gguf_quants import QUANTS

KINDS = {quant.name: number for number, quant in QUANTS.items()}
TABLE = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]


def half(block: bytes, place: int) -> float:
    return float(np.frombuffer(block[place : place + 2], dtype=np.float16)[0])


def q2_k(block: bytes, i: int) -> float:
    big, shift, place = i // 128, 2 * (i % 128 // 32), i % 32
    scale = block[i // 16]
    number = block[16 + 32 * big + place] >> shift & 3
    return half(block, 80) * (scale & 15) * number - half(block, 82) * (scale >> 4)


def q3_k(block: bytes, i: int) -> float:
    big, part, place, group = i // 128, i % 128 // 32, i % 32, i // 16
    low = block[96 + group % 8] >> 4 * (group // 8) & 15
    high = block[104 + group % 4] >> 2 * (group // 4) & 3
    number = block[32 + 32 * big + place] >> 2 * part & 3
    number -= 0 if block[place] >> (4 * big + part) & 1 else 4
    return half(block, 108) * ((low | high << 4) - 32) * number


def scale_and_minimum(block: bytes, group: int) -> tuple[float, float]:
    q = block[4:16]
    if group < 4:
        scale, minimum = q[group] & 63, q[group + 4] & 63
    else:
        scale = q[group + 4] & 15 | q[group - 4] >> 6 << 4
        minimum = q[group + 4] >> 4 | q[group] >> 6 << 4
    return half(block, 0) * scale, half(block, 2) * minimum


def q4_k(block: bytes, i: int) -> float:
    scale, minimum = scale_and_minimum(block, i // 32)
    return scale * (block[16 + 32 * (i // 64) + i % 32] >> 4 * (i % 64 // 32) & 15) - minimum


def q5_k(block: bytes, i: int) -> float:
    scale, minimum = scale_and_minimum(block, i // 32)
    number = block[48 + 32 * (i // 64) + i % 32] >> 4 * (i % 64 // 32) & 15
    number += 16 if block[16 + i % 32] >> i // 32 & 1 else 0
    return scale * number - minimum


def q6_k(block: bytes, i: int) -> float:
    big, part, place = i // 128, i % 128 // 32, i % 32
    low = block[64 * big + place + 32 * (part % 2)] >> 4 * (part // 2) & 15
    high = block[128 + 32 * big + place] >> 2 * part & 3
    scale = int.from_bytes(block[192 + i // 16 : 193 + i // 16], signed=True)
    return half(block, 208) * scale * ((low | high << 4) - 32)


def iq4_nl(block: bytes, i: int) -> float:
    return half(block, 0) * TABLE[block[2 + i % 16] >> 4 * (i // 16) & 15]


def iq4_xs(block: bytes, i: int) -> float:
    group, place = i // 32, i % 32
    low = block[4 + group // 2] >> 4 * (group % 2) & 15
    high = int.from_bytes(block[2:4], "little") >> 2 * group & 3
    number = TABLE[block[8 + 16 * group + place % 16] >> 4 * (place // 16) & 15]
    return half(block, 0) * ((low | high << 4) - 32) * number


DEFINITIONS: dict[str, Callable[[bytes, int], float]] = {
    "Q2_K": q2_k, "Q3_K": q3_k, "Q4_K": q4_k, "Q5_K": q5_k, "Q6_K": q6_k, "IQ4_NL": iq4_nl,
    "IQ4_XS": iq4_xs,
}  # fmt: skip


def written(path: Path, kind: str, raw: bytes, count: int) -> np.ndarray:
    known = GGUF_KINDS | KINDS
    write_gguf(path, {}, {"w": (kind, (count,), raw)}, kinds=known)
    return read_gguf(path).tensors["w"].read().numpy()


def random_blocks(kind: str, count: int = 3) -> bytes:
    """No exponent of a scale is that of infinity."""
    length = QUANTS[KINDS[kind]].size
    raw = np.random.default_rng(0).integers(0, 256, size=(count, length), dtype=np.uint8)
    for block in raw:
        while not np.isfinite(
            np.array([half(block.tobytes(), i) for i in range(length - 1)])
        ).all():
            block[:] = np.where(block & 0x7C == 0x7C, block & 0xBF, block)
    return raw.tobytes()


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_blocks_mean_what_the_loops_say(tmp_path: Path, kind: str) -> None:
    _, weights, length, _ = QUANTS[KINDS[kind]]
    raw = random_blocks(kind)
    wanted = [
        DEFINITIONS[kind](raw[begin : begin + length], i)
        for begin in range(0, len(raw), length)
        for i in range(weights)
    ]
    values = written(tmp_path / "a.gguf", kind, raw, len(wanted))
    np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_equal_the_reference(tmp_path: Path, kind: str) -> None:
    gguf = pytest.importorskip("gguf", reason="the reference reader of GGUF is not installed")
    number = gguf.GGMLQuantizationType[kind]
    assert QUANTS[KINDS[kind]][1:3] == gguf.GGML_QUANT_SIZES[number]
    raw = random_blocks(kind)
    wanted = gguf.quants.dequantize(np.frombuffer(raw, dtype=np.uint8), number)
    np.testing.assert_array_equal(written(tmp_path / "a.gguf", kind, raw, len(wanted)), wanted)


def test_rare_types_name_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(InputError, match=r"IQ2_XS, which needs the package gguf.* Q6_K"):
        written(tmp_path / "a.gguf", "IQ2_XS", random_blocks("IQ2_XS"), 768)
