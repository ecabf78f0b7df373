"""Tokenizer files of other tools, written by hand for the tests, and texts to encode."""

import os
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from translucid.data.tokenizers.special_tokens import SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers import sentencepiece
from translucid.interop.tokenizers.sentencepiece import read_model
from translucid.interop.tokenizers.specs import ReadTokenizers

HARD = (
    "", " ", "   ", "\n", "\r\n", "a\r\nb\r\n", "\t a\t", "</s>", "<s> a </s>", "<unk><pad>",
    "a</s>b", "<0x41>", "▁a▁", "😀 👩‍👩‍👧 🏳️‍🌈", "e\u0301 é ﬁ ½ Ａ", "\u200b\ufeff", "\0",
    "\uffff 3 \uffff", "x" * 3000, " a  b   c ", "the cat's 12345 don't",
)  # fmt: skip
_RANGES = (
    *[(32, 126)] * 6, (9, 13), (160, 591), (880, 1279), (1424, 1791), (2304, 2431),
    (0x2000, 0x206F), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF),
    (0x300, 0x36F), (0xFF01, 0xFFEE), (0x2581, 0x2581), (0, 31), (0x10000, 0x103FF),
)  # fmt: skip
_WORDS = (
    "the", "and", "Gravity", "is", "don't", "I'll", "<s>", "</s>", "<unk>", "<0x41>", "▁", "\r\n",
    "12345", "1,000.50", "_x__", "http://a.b/c?d=e", "ﬁ", "½", "Ａ", "e\u0301", "👩‍👩‍👧", "",
)  # fmt: skip


def random_texts(count: int = 1000, seed: int = 7) -> list[str]:
    """Texts of words, symbols and characters of many scripts, some of them malformed."""
    chance = random.Random(seed)
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(chance.randint(0, 12)):
            if chance.random() < 0.5:
                parts.append(chance.choice(_WORDS))
            else:
                low, high = chance.choice(_RANGES)
                size = chance.randint(1, 8)
                parts.append("".join(chr(chance.randint(low, high)) for _ in range(size)))
            parts.append(chance.choice((" ", " ", "  ", "", "\n")))
        texts.append("".join(parts))
    return texts


def shared(*parts: str) -> Path:
    """A file in the folder of real weights; skips the test if it does not exist."""
    root = os.environ.get("TRANSLUCID_SHARED")
    if root is None:
        pytest.skip("TRANSLUCID_SHARED names no folder with other people's tokenizers")
    path = Path(root, "weights", *parts)
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path


# --- a sentencepiece model, field by field


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | int | float) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def sentencepiece_alone(path: Path) -> ReadTokenizers:
    """The tokenizer of a .model file; no tokens are added around a text."""
    model = read_model(path)
    special = SpecialTokens(unk=None if model.byte_fallback else model.unknown)
    made = Tokenizer.imported(sentencepiece.imported(model, special, str(path)))
    return ReadTokenizers({"tokenizer": made}, [])


def sentencepiece_model(
    pieces: Sequence[tuple[str, float, int]], *, kind: int = 1, **options: Any
) -> bytes:
    """The bytes of a .model file. kind: 1 for unigram, 2 for BPE. options: by the field names of
    the proto."""
    body = b"".join(
        field(1, field(1, text.encode()) + field(2, score) + field(3, type_))
        for text, score, type_ in pieces
    )
    trainer = field(3, kind)
    trainer_fields = {"treat_whitespace_as_suffix": 24, "byte_fallback": 35, "unk_id": 40,
                      "bos_id": 41, "eos_id": 42, "pad_id": 43}  # fmt: skip
    spec_fields = {"precompiled_charsmap": 2, "add_dummy_prefix": 3,
                   "remove_extra_whitespaces": 4, "escape_whitespaces": 5}  # fmt: skip
    spec = field(1, b"identity")
    for name, value in options.items():
        number = trainer_fields.get(name)
        if number is None:
            spec += field(spec_fields[name], value)
        else:
            trainer += field(number, value)
    return body + field(2, trainer) + field(3, spec)


CONTROLS = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
BYTES = [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
LETTERS = [(character, -20.0 - i, 1) for i, character in enumerate("▁abcdehinorst.<>/u")]
WORDS = [
    ("th", -3.0, 1), ("▁th", -3.5, 1), ("▁the", -4.0, 1), ("▁cat", -6.5, 1), ("at", -6.0, 1),
    ("in", -7.0, 1), ("▁c", -7.5, 1), ("ca", -8.0, 1), ("▁s", -9.0, 1), ("▁▁", -10.0, 1),
]  # fmt: skip


def gguf_llama() -> dict[str, Any]:
    """The metadata of a GGUF file with a sentencepiece BPE vocabulary."""
    pieces = [*CONTROLS, *BYTES, *WORDS, *LETTERS]
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [text for text, _, _ in pieces],
        "tokenizer.ggml.scores": [score for _, score, _ in pieces],
        "tokenizer.ggml.token_type": [kind for _, _, kind in pieces],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def read_gguf(path: Path) -> dict[str, Any]:
    """The metadata of a GGUF file."""
    raw, place = path.read_bytes(), 8
    forms = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
             12: "d"}  # fmt: skip

    def take(form: str) -> Any:
        nonlocal place
        (value,) = struct.unpack_from(f"<{form}", raw, place)
        place += struct.calcsize(f"<{form}")
        return value

    def value(kind: int) -> Any:
        nonlocal place
        if kind == 8:
            size = take("Q")
            place += size
            return raw[place - size : place].decode("utf-8", "replace")
        if kind == 9:
            inner, size = take("I"), take("Q")
            return [value(inner) for _ in range(size)]
        return take(forms[kind])

    take("Q")  # tensors
    return {value(8): value(take("I")) for _ in range(take("Q"))}
