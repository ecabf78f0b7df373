"""Features of a word's spelling, as rows of a hashed table.

Shapes: characters (..., width), byte + 1, 0 after the end of a word (see `parts/characters.py`);
rows and whether each feature exists: (..., features).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

BEGIN, END = 257, 258  # marks around a word
SIZES = range(2, 6)  # of n-grams, with the marks
_PRIME = (1 << 31) - 1  # below it, no product exceeds 64 bits
_BASE = 1_000_003
_RANGES = ((ord("A"), ord("Z")), (ord("a"), ord("z")), (ord("0"), ord("9")))


def hashed(symbols: Tensor, base: int = _BASE) -> Tensor:
    """The polynomial hash of sequences (..., n); symbols that are 0 are skipped: (...)."""
    code = torch.zeros_like(symbols[..., 0])
    for symbol in symbols.unbind(-1):
        code = torch.where(symbol > 0, (code * base + symbol) % _PRIME, code)
    return code


def word_codes(ids: Tensor, characters: Tensor) -> Tensor:
    """The hash of each word, or of its id if the token has no characters: (...)."""
    return torch.where(characters[..., 0] > 0, hashed(characters), ids + 1)


def pair_codes(before: Tensor, codes: Tensor) -> Tensor:
    """The hash of each pair of words. before: the hash of the first word, 0 if there is none."""
    return (before * _BASE + codes) % _PRIME


def ngram_rows(characters: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The n-grams of each word, with marks at both ends."""
    marked = _marked(characters)
    windows = [marked.unfold(-1, size, 1) for size in SIZES if size <= marked.shape[-1]]
    codes = torch.cat([hashed(window) for window in windows], dim=-1)
    exists = torch.cat([window[..., -1] > 0 for window in windows], dim=-1)
    return codes % rows, exists & (characters[..., :1] > 0)


def affix_rows(characters: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The prefixes and suffixes of each word (1 to 4 bytes), the word in lower case, and its shape:
    the sequence of capital, small, digit and other characters without repetitions."""
    marked, lowered = _marked(characters), _marked(lower(characters))
    length = (characters > 0).sum(dim=-1, keepdim=True)
    codes, exists = [], []
    for size in SIZES:
        wide = F.pad(marked, (0, max(size - marked.shape[-1], 0)))
        last = (length + 2 - size).clamp(min=0) + torch.arange(size, device=marked.device)
        for windows in (wide[..., :size], wide.gather(-1, last)):
            codes.append(hashed(windows))
            exists.append(length[..., 0] + 2 > size)
    for whole in (lowered, _shape(characters)):
        codes.append(hashed(whole))
        exists.append(length[..., 0] > 0)
    kinds = torch.arange(len(codes), device=marked.device) + 1
    spread = pair_codes(torch.stack(codes, dim=-1), kinds)
    return spread % rows, torch.stack(exists, dim=-1) & (length > 0)


def lower(characters: Tensor) -> Tensor:
    """ASCII capitals in lower case; other bytes unchanged."""
    (first, last), (small, _), _ = _RANGES
    capital = (characters > first) & (characters <= last + 1)
    return characters + capital * (small - first)


def _shape(characters: Tensor) -> Tensor:
    """1 for a capital, 2 for lower case, 3 for a digit, 4 for any other byte, only where it
    differs from the one before; otherwise 0."""
    kind = (characters > 0) * 4
    for number, (first, last) in enumerate(_RANGES, start=1):
        kind[(characters > first) & (characters <= last + 1)] = number
    return kind * (kind != F.pad(kind, (1, -1)))


def _marked(characters: Tensor) -> Tensor:
    """Add a begin mark and an end mark to the characters of each word: (..., width + 2)."""
    length = (characters > 0).sum(dim=-1, keepdim=True)
    marked = F.pad(characters, (1, 1)).scatter(-1, length + 1, END)
    marked[..., 0] = BEGIN
    return marked
