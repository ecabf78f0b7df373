"""Files of ranks as tiktoken writes them: one token of bytes and its rank on a line.

How text is split before that is not in the file; it goes with the family.
"""

import base64
import binascii
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import open_regular
from translucid.data.tokenizers import patterns
from translucid.data.tokenizers.imported import MOST_TOKENS, Imported, check_pieces
from translucid.data.tokenizers.pipelines import BYTE_CHARACTERS
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers.specs import (
    ReadTokenizers,
    bpe,
    byte_level,
    spec_text,
    split_on,
)

MAX_FILE = 64 << 20
FAMILIES = {
    "gpt2": patterns.GPT2,
    "cl100k": patterns.CL100K,
    "o200k": patterns.O200K,
    "llama3": patterns.CL100K,
    "qwen": patterns.QWEN2,
}


def tokenizer(
    path: Path, family: str, *, control: Mapping[str, int] | None = None, eos: str | None = None,
    bos: str | None = None,
) -> ReadTokenizers:  # fmt: skip
    """control: the special tokens, which the file does not hold; eos, bos: two of them."""
    if family not in FAMILIES:
        raise InputError(f"family = {family!r}: known are {', '.join(FAMILIES)}")
    ranks = read_ranks(path)
    names = dict(control or {})
    text = spec_of(ranks, FAMILIES[family], {i: name for name, i in names.items()})
    start = () if bos is None else (names[bos],)
    special = SpecialTokens(
        bos=names.get(bos or ""), eos=names.get(eos or ""), start=start, frame=Frame(start)
    )
    made = Tokenizer.imported(Imported(text, special))
    note = f"texts are split as those of {family}, which the file of ranks does not say"
    return ReadTokenizers({"tokenizer": made}, [note])


def read_ranks(path: Path) -> dict[bytes, int]:
    try:
        with open_regular(path, MAX_FILE) as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, start=1):
        try:
            if line:
                token, rank = line.split()
                if not 0 <= int(rank) < MOST_TOKENS:
                    raise ValueError(f"rank {int(rank)}")
                ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise InputError(
                f"{path}, line {number}: {str(error)[:80]}; a line holds a token in base64 and "
                "its rank"
            ) from None
    lacking = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if lacking:
        raise InputError(f"{path}: byte {lacking[0]} is no token, and so some texts have none; "
                         "copy the file again")  # fmt: skip
    return ranks


def spec_of(ranks: Mapping[bytes, int], pattern: str, control: Mapping[int, str]) -> str:
    vocab = {_shown(token): rank for token, rank in ranks.items()}
    check_pieces(vocab, "the file of ranks")
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1:
            parts = _parts(ranks, token, rank)
            if len(parts) == 2:
                merges.append([_shown(part) for part in parts])
    return spec_text(
        bpe(vocab, merges, whole_pieces=True),
        pre_tokenizers=[split_on(pattern), byte_level(use_regex=False)],
        decoders=[byte_level(use_regex=True)], control=control,
    )  # fmt: skip


def _shown(token: bytes) -> str:
    return "".join(BYTE_CHARACTERS[byte] for byte in token)


def _parts(ranks: Mapping[bytes, int], token: bytes, below: int) -> list[bytes]:
    """A token as the merges before its own put it together."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [ranks.get(a + b, below) for a, b in pairwise(parts)]
        best = min(pairs)
        if best >= below:
            break
        place = pairs.index(best)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts
