"""Features of a word's spelling, such as its suffixes. Each feature is a row of a table, chosen by
a hash.

Shapes: characters (..., width), in which byte b of a word is b + 1, and 0 follows the end of the
word (see `parts/characters.py`). The table rows of the features, and whether each feature exists,
are (..., features).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

BEGIN, END = 257, 258  # symbols that mark the beginning and the end of a word
SIZES = range(2, 6)  # lengths of n-grams, prefixes and suffixes, including these marks
_PRIME = (1 << 31) - 1  # below it, no product exceeds 64 bits
_BASE = 1_000_003
_RANGES = ((ord("A"), ord("Z")), (ord("a"), ord("z")), (ord("0"), ord("9")))


def hashed(symbols: Tensor, base: int = _BASE) -> Tensor:
    """The polynomial hash of each sequence of symbols: (..., n) to (...). Symbols that are 0 are
    skipped."""
    code = torch.zeros_like(symbols[..., 0])
    for symbol in symbols.unbind(-1):
        code = torch.where(symbol > 0, (code * base + symbol) % _PRIME, code)
    return code


def word_codes(ids: Tensor, characters: Tensor) -> Tensor:
    """The hash of each word's characters; for a token without characters, its id + 1. Shape:
    (...)."""
    return torch.where(characters[..., 0] > 0, hashed(characters), ids + 1)


def pair_codes(before: Tensor, codes: Tensor) -> Tensor:
    """The hash of each pair of words. before: the hash of the first word, or 0 if there is no first
    word. codes: the hash of the second word."""
    return (before * _BASE + codes) % _PRIME


def ngram_rows(characters: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The table rows of each word's character n-grams (with marks at both ends of the word), and
    whether each n-gram exists."""
    marked = _marked(characters)
    windows = [marked.unfold(-1, size, 1) for size in SIZES if size <= marked.shape[-1]]
    codes = torch.cat([hashed(window) for window in windows], dim=-1)
    exists = torch.cat([window[..., -1] > 0 for window in windows], dim=-1)
    return codes % rows, exists & (characters[..., :1] > 0)


def affix_rows(characters: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The table rows of the features of each word, and whether each feature exists. Both: (...,
    features). The features are the prefixes and suffixes of 1 to 4 bytes, the word in lower case,
    and its shape. The shape is the sequence of kinds of characters (capital, small, digit, other)
    without repetitions."""
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
    """Convert ASCII capitals to lower case; other bytes are unchanged."""
    (first, last), (small, _), _ = _RANGES
    capital = (characters > first) & (characters <= last + 1)
    return characters + capital * (small - first)


def _shape(characters: Tensor) -> Tensor:
    """The kind of each character: 1 for a capital, 2 for lower case, 3 for a digit, 4 for any other
    byte. It is 0 at padding and where the previous character is of the same kind."""
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
