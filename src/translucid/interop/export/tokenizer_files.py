"""Write tokenizers for transformers: tokenizer.json with the special tokens that the task adds, and
their roles, so that AutoTokenizer gives the ids that the model was trained with."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.tokenizers.files import CONFIG, META, TOKENIZER
from translucid.data.tokenizers.imported import IMPORTED, vocabulary
from translucid.data.tokenizers.special_tokens import Frame
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
from translucid.interop.tokenizers.tokenizer_folder import TARGET
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS


def write_tokenizers(held: Bundle, folder: Path) -> list[str]:
    """Write the tokenizers of a model, and return notes. The input's tokenizer is written into the
    folder itself, that of a separate target into a subfolder."""
    for tokenizer in held.tokenizers.values():
        check_pieces(tokenizer)
    first = reading(held)
    frame = first.frame(*TASKS[held.task].around)
    write_tokenizer(first, frame, folder)
    if TARGET not in held.tokenizers:
        return []
    second = held.tokenizers[TARGET]
    write_tokenizer(second, second.special.frame or Frame((), (second.eos_id,)), folder / TARGET)
    return [f"two vocabularies: the source's tokenizer is in the folder, the target's in {TARGET}/"]


def check_pieces(tokenizer: Tokenizer) -> None:
    """Raise an error if the tokenizer has pieces that are not in the vocabulary, as Marian's
    source.spm may: a tokenizer.json would give them ids beyond the embedding table."""
    source = tokenizer.source
    if source is None or source.tokens is None:
        return
    lacking = [piece for i, piece in vocabulary(source.data["model"]) if i >= source.tokens]
    raise InputError(
        f"{len(lacking):,} pieces of this tokenizer, such as {lacking[0][:40]!r}, are not in the "
        f"vocabulary of {source.tokens:,} tokens and are treated as unknown, which a "
        "tokenizer.json cannot express; use the folder that the model came from"
    )


def reading(held: Bundle) -> Tokenizer:
    """The tokenizer of a model's input."""
    return held.tokenizers.get("source") or next(iter(held.tokenizers.values()))


def writing(held: Bundle) -> Tokenizer:
    """The tokenizer of the text that a model generates."""
    return held.tokenizers.get(TARGET) or next(iter(held.tokenizers.values()))


def write_tokenizer(tokenizer: Tokenizer, frame: Frame, folder: Path) -> None:
    tokenizer.save(folder)  # includes pieces that CTranslate2 treats as unknown
    spec = json.loads((folder / TOKENIZER).read_text("utf-8"))
    names = list(tokenizer.vocab)
    if not spec.get("post_processor"):
        spec["post_processor"] = _template(frame, names)
        write_json(folder / TOKENIZER, spec, indent=1)
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    if tokenizer.kind != IMPORTED:
        config["split_special_tokens"] = True  # texts never produce special tokens
        if frame.prefix:
            config["bos_token"] = names[frame.prefix[0]]
    config["model_input_names"] = ["input_ids", "attention_mask"]
    write_json(folder / CONFIG, config)
    (folder / META).unlink()


def write_json(path: Path, content: object, indent: int = 2) -> None:
    path.write_text(json.dumps(content, indent=indent, ensure_ascii=False) + "\n", "utf-8")


def _template(frame: Frame, names: Sequence[str]) -> dict[str, Any] | None:
    """The special tokens around a text, in the format of tokenizer.json; None if there are none."""
    used = dict.fromkeys((*frame.prefix, *frame.between, *frame.suffix))
    if not used:
        return None

    def tokens(ids: Sequence[int], side: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": names[i], "type_id": side}} for i in ids]

    first, second = ({"Sequence": {"id": text, "type_id": i}} for i, text in enumerate("AB"))
    return {
        "type": "TemplateProcessing",
        "single": [*tokens(frame.prefix, 0), first, *tokens(frame.suffix, 0)],
        "pair": [*tokens(frame.prefix, 0), first, *tokens(frame.between, 0), second,
                 *tokens(frame.suffix, 1)],
        "special_tokens": {
            names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]} for i in used
        },
    }  # fmt: skip


# ---- Marian ----


BEGIN = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]


def are_marian(held: Bundle) -> bool:
    """Whether both tokenizers are sentencepiece models with a separate vocabulary."""
    sources = [tokenizer.source for tokenizer in held.tokenizers.values()]
    return set(held.tokenizers) == {*SIDES} and all(
        source is not None
        and source.data["model"]["type"] == "Unigram"
        and (source.tokens is not None or source.hidden)
        for source in sources
    )


def write_marian(held: Bundle, folder: Path) -> list[str]:
    """Write source.spm, target.spm and vocab.json for MarianTokenizer: a tokenizer.json cannot
    express that a piece is unknown, or occurs only on the other side."""
    vocabularies = [dict(held.tokenizers[side].vocab) for side in SIDES]
    apart = vocabularies[0] != vocabularies[1]
    for side in SIDES:
        (folder / f"{side}.spm").write_bytes(serialised(pieces_of(held.tokenizers[side])))
    write_json(folder / "vocab.json", vocabularies[0])
    if apart:
        write_json(folder / "target_vocab.json", vocabularies[1])
    special, names = held.tokenizers["target"].special, list(vocabularies[1])
    roles = {"eos_token": special.eos, "unk_token": special.unk, "pad_token": special.pad}
    config: dict[str, Any] = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": apart}
    config |= {name: names[i] for name, i in roles.items() if i is not None}
    write_json(folder / "tokenizer_config.json", config)
    return ["tokenizers are written as source.spm, target.spm and vocab.json, for MarianTokenizer"]


def pieces_of(tokenizer: Tokenizer) -> SentencePieceModel:
    """The sentencepiece model of a source or target tokenizer, reduced to the pieces that a text
    can contain."""
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
