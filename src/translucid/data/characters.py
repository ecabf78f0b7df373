"""Words as characters, for models that read them: bytes of UTF-8, each one higher, 0 as padding."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

MAX_BYTES = 20  # characters of a word; where it begins and how it ends tell the most


def spell(word: str) -> bytes:
    """The word's bytes; of a long one its beginning and its end."""
    characters = word.encode()
    half = MAX_BYTES // 2
    return characters if len(characters) <= MAX_BYTES else characters[:half] + characters[-half:]


def pad_characters(rows: Sequence[Sequence[bytes]]) -> Tensor:
    """(batch, length, characters), as long as the longest row and as wide as the longest word."""
    length = max((len(row) for row in rows), default=0)
    width = max((len(word) for row in rows for word in row), default=0)
    padded = np.zeros((len(rows), length, max(width, 1)), dtype=np.int64)
    for row, words in zip(padded, rows, strict=True):
        for place, word in zip(row, words, strict=False):
            place[: len(word)] = np.frombuffer(word, dtype=np.uint8)
            place[: len(word)] += 1
    return torch.from_numpy(padded)
