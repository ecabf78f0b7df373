"""llama2.c's tokenizer.bin: the pieces of a sentencepiece BPE model and their scores, spaces as
they are."""

import re
import struct
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import open_regular
from translucid.data.tokenizers.imported import MOST_TOKENS
from translucid.data.tokenizers.pipelines import WORD_START
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers import sentencepiece
from translucid.interop.tokenizers.roles import note_of
from translucid.interop.tokenizers.sentencepiece_proto import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    Pieces,
)
from translucid.interop.tokenizers.specs import ReadTokenizers

MAX_FILE = 64 << 20
UNK, BOS, EOS = range(3)
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def tokenizer(path: Path, tokens: int | None = None) -> ReadTokenizers:
    """tokens: as many as the model's header says; the file itself does not."""
    pieces = read(path)
    if tokens is not None and len(pieces) != tokens:
        raise InputError(
            f"{path} has {len(pieces):,} tokens, but the model {tokens:,}; give the tokenizer "
            "that belongs to the model"
        )
    model = Pieces(pieces, "bpe", byte_fallback=True, one_space=False)
    # A story begins with <s>, and where the next one would begin it ends.
    special = SpecialTokens(bos=BOS, eos=BOS, start=(BOS,), frame=Frame((BOS,)), ends=(EOS,))
    made = Tokenizer.imported(sentencepiece.imported(model, special, str(path)))
    return ReadTokenizers({"tokenizer": made}, [note_of(special, sentencepiece.names(model))])


def read(path: Path) -> list[tuple[str, float, int]]:
    try:
        with open_regular(path, MAX_FILE) as file:
            raw = file.read()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    pieces: list[tuple[str, float, int]] = []
    place = 4  # behind the length of the longest piece
    while place < len(raw):
        if place + 8 > len(raw) or len(pieces) == MOST_TOKENS:
            raise InputError(f"{path} ends in the middle of token {len(pieces)}; copy it again")
        score, size = struct.unpack_from("<fi", raw, place)
        place += 8
        if not 0 <= size <= len(raw) - place:
            raise InputError(
                f"{path}: token {len(pieces)} has {size} bytes, but {len(raw) - place} are left; "
                "it is no tokenizer.bin of llama2.c, or damaged"
            )
        text = raw[place : place + size].decode("utf-8", errors="replace")
        kind = {UNK: UNKNOWN, BOS: CONTROL, EOS: CONTROL}.get(len(pieces), NORMAL)
        if _BYTE.fullmatch(text):
            kind = BYTE
        name = text.strip() if kind in (UNKNOWN, CONTROL) else text.replace(" ", WORD_START)
        pieces.append((name, score, kind))
        place += size
    if len(pieces) <= EOS:
        raise InputError(f"{path} holds {len(pieces)} tokens; it is no tokenizer.bin of llama2.c")
    return pieces
