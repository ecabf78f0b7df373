"""Marian's tokenizers as MarianTokenizer of transformers reads them: source.spm, target.spm and
vocab.json. A tokenizer.json cannot express that a piece is read as unknown, or that only the other
side's texts have it."""

import base64
import json
from pathlib import Path
from typing import Any

from translucid.data.tokenizers.surface import steps
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers.marian import SIDES
from translucid.interop.tokenizers.sentencepiece import (
    AROUND,
    CONTROL,
    NORMAL,
    UNKNOWN,
    SentencePieceModel,
    serialised,
)
from translucid.tasks.model_folder import Bundle

BEGIN = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]


def are_marian(held: Bundle) -> bool:
    """Whether both tokenizers are sentencepiece models over a vocabulary of their own."""
    sources = [tokenizer.source for tokenizer in held.tokenizers.values()]
    return set(held.tokenizers) == {*SIDES} and all(
        source is not None
        and source.data["model"]["type"] == "Unigram"
        and (source.tokens is not None or source.hidden)
        for source in sources
    )


def write_marian(held: Bundle, folder: Path) -> list[str]:
    """Fills the folder; notes."""
    vocabularies = [dict(held.tokenizers[side].vocab) for side in SIDES]
    apart = vocabularies[0] != vocabularies[1]
    for side in SIDES:
        (folder / f"{side}.spm").write_bytes(serialised(pieces_of(held.tokenizers[side])))
    _write(folder / "vocab.json", vocabularies[0])
    if apart:
        _write(folder / "target_vocab.json", vocabularies[1])
    special, names = held.tokenizers["target"].special, list(vocabularies[1])
    roles = {"eos_token": special.eos, "unk_token": special.unk, "pad_token": special.pad}
    config: dict[str, Any] = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": apart}
    config |= {name: names[i] for name, i in roles.items() if i is not None}
    _write(folder / "tokenizer_config.json", config)
    return ["tokenizers are written as source.spm, target.spm and vocab.json, for MarianTokenizer"]


def pieces_of(tokenizer: Tokenizer) -> SentencePieceModel:
    """The sentencepiece model of one side: pieces that its texts can have."""
    source = tokenizer.source
    assert source is not None
    hidden = {*source.hidden, *source.special_ids, source.special.unk}
    normal = [
        (piece, score, NORMAL)
        for i, (piece, score) in enumerate(source.data["model"]["vocab"])
        if i not in hidden
    ]
    parts = list(steps(source.data.get("normalizer")))
    charsmaps = [part["precompiled_charsmap"] for part in parts if part["type"] == "Precompiled"]
    patterns = [part.get("pattern") for part in parts]
    return SentencePieceModel(
        [*BEGIN, *normal],
        charsmap=base64.b64decode(charsmaps[0]) if charsmaps else b"",
        add_prefix=any(part["type"] == "Prepend" for part in parts),
        one_space={"Regex": AROUND} in patterns,
        roles={"unk": 0, "bos": 1, "eos": 2},
    )


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
