"""Write files of other tools by hand, with code that is independent of the readers under test."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

GGUF_KINDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "BF16": 30}


def gguf_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + gguf_string(value)
        case [str(), *_]:
            packed = b"".join(map(gguf_string, value))
            return struct.pack("<IIQ", 9, 8, len(value)) + packed
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
    raise TypeError(value)


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[str, Sequence[int], bytes]],
    version: int = 3,
    kinds: Mapping[str, int] = GGUF_KINDS,
) -> None:
    """Write a GGUF file. tensors: by name, kind, shape (outermost axis first) and bytes."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for name, value in metadata.items():
        header += gguf_string(name) + gguf_value(value)
    place, body = 0, b""
    for name, (kind, shape, raw) in tensors.items():
        header += gguf_string(name) + struct.pack("<I", len(shape))
        header += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        header += struct.pack("<IQ", kinds[kind], place)
        body += raw + bytes(-len(raw) % 32)
        place = len(body)
    path.write_bytes(header + bytes(-len(header) % 32) + body)


def quantise(kind: str, values: np.ndarray[Any, Any]) -> tuple[bytes, np.ndarray[Any, Any]]:
    """Quantise blocks of 32 values, one by one, as the definition says; returns the bytes and the
    dequantised values."""
    packed, meant = b"", []
    for block in values.reshape(-1, 32):
        low, high = float(block.min()), float(block.max())
        if kind == "Q8_0":
            d = np.float16(max(abs(low), abs(high)) / 127)
            q = [int(np.clip(round(float(x) / float(d)), -127, 127)) for x in block]
            packed += d.tobytes() + struct.pack("<32b", *q)
            meant += [float(d) * n for n in q]
            continue
        bits = 4 if kind[1] == "4" else 5
        if kind.endswith("_0"):
            d, m = np.float16(max(abs(low), abs(high)) / (1 << (bits - 1))), np.float16(0)
            offset = 1 << (bits - 1)
        else:
            d, m, offset = np.float16((high - low) / ((1 << bits) - 1)), np.float16(low), 0
        q = [
            int(np.clip(round((float(x) - float(m)) / float(d)) + offset, 0, (1 << bits) - 1))
            for x in block
        ]
        packed += d.tobytes() + (b"" if kind.endswith("_0") else m.tobytes())
        if bits == 5:
            packed += struct.pack("<I", sum((n >> 4) << place for place, n in enumerate(q)))
        packed += bytes((q[i] & 15) | ((q[i + 16] & 15) << 4) for i in range(16))
        meant += [float(d) * (n - offset) + float(m) for n in q]
    return packed, np.array(meant, dtype=np.float32)


LLAMA2C = {"dim": 8, "hidden_dim": 12, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
           "vocab_size": 10, "max_seq_len": 16}  # fmt: skip


def llama2c_weights(sizes: Mapping[str, int], shared: bool) -> dict[str, Tensor]:
    d, h, v = sizes["dim"], sizes["hidden_dim"], sizes["vocab_size"]
    kv = d * sizes["n_kv_heads"] // sizes["n_heads"]
    weights = {"tok_embeddings.weight": torch.randn(v, d), "norm.weight": torch.rand(d) + 0.5}
    for i in range(sizes["n_layers"]):
        for part, shape in {
            "attention_norm": (d,), "ffn_norm": (d,), "attention.wq": (d, d),
            "attention.wk": (kv, d), "attention.wv": (kv, d), "attention.wo": (d, d),
            "feed_forward.w1": (h, d), "feed_forward.w2": (d, h), "feed_forward.w3": (h, d),
        }.items():  # fmt: skip
            scale = 1.0 if len(shape) == 1 else 0.5
            weights[f"layers.{i}.{part}.weight"] = scale * torch.randn(shape)
    if not shared:
        weights["output.weight"] = torch.randn(v, d)
    return weights


def write_llama2c(
    path: Path, sizes: Mapping[str, int], weights: Mapping[str, Tensor], version: int
) -> None:
    """Write a llama2.c file of version 0 or 1."""
    layers = range(sizes["n_layers"])
    shared = "output.weight" not in weights

    def stack(part: str) -> list[Tensor]:
        return [weights[f"layers.{i}.{part}.weight"] for i in layers]

    attention = [*stack("attention.wq"), *stack("attention.wk"), *stack("attention.wv"),
                 *stack("attention.wo")]  # fmt: skip
    forward = [*stack("feed_forward.w1"), *stack("feed_forward.w2"), *stack("feed_forward.w3")]
    tail = [] if shared else [weights["output.weight"]]
    numbers = [*sizes.values()]
    if version == 0:
        numbers[5] = numbers[5] if shared else -numbers[5]
        header = struct.pack("<7i", *numbers)
        ropes = torch.zeros(2, sizes["max_seq_len"], sizes["dim"] // sizes["n_heads"] // 2)
        order = [weights["tok_embeddings.weight"], *stack("attention_norm"), *attention,
                 *stack("ffn_norm"), *forward, weights["norm.weight"], ropes, *tail]  # fmt: skip
    else:
        header = struct.pack("<Ii7iB", 0x616B3432, 1, *numbers, shared).ljust(256, b"\0")
        order = [*stack("attention_norm"), *stack("ffn_norm"), weights["norm.weight"],
                 weights["tok_embeddings.weight"], *attention, *forward, *tail]  # fmt: skip
    path.write_bytes(header + b"".join(t.numpy().astype("<f4").tobytes() for t in order))


def ct2_string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


CT2_TYPES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def write_ctranslate2(
    path: Path,
    variables: Mapping[str, np.ndarray[Any, Any]],
    aliases: Mapping[str, str],
    version: int = 6,
) -> None:
    out = struct.pack("<I", version) + ct2_string("TransformerSpec") + struct.pack("<I", 7)
    out += struct.pack("<I", len(variables))
    for name, value in variables.items():
        out += ct2_string(name) + struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        if version >= 4:
            out += struct.pack("<BI", CT2_TYPES[str(value.dtype)], value.nbytes)
        else:
            out += struct.pack("<BI", value.itemsize, value.size)
        out += value.tobytes()
    if version >= 3:
        out += struct.pack("<I", len(aliases))
        for alias, name in aliases.items():
            out += ct2_string(alias) + ct2_string(name)
    path.write_bytes(out)
