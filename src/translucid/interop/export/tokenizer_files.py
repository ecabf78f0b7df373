"""A tokenizer as transformers opens it: tokenizer.json with the template of the task, and which
token has which role. AutoTokenizer gives the ids that the model was trained with."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.tokenizers.files import CONFIG, META, TOKENIZER
from translucid.data.tokenizers.imported import IMPORTED, vocabulary
from translucid.data.tokenizers.special_tokens import Frame
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers.tokenizer_folder import TARGET
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS


def write_tokenizers(held: Bundle, folder: Path) -> list[str]:
    """The tokenizers of a model, that of what it reads in the folder itself; notes."""
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
    """Refuse a tokenizer with pieces that are no tokens of the vocabulary (Marian's source.spm may
    have some): a tokenizer.json would give them ids beyond the embedding table."""
    source = tokenizer.source
    if source is None or source.tokens is None:
        return
    lacking = [piece for i, piece in vocabulary(source.data["model"]) if i >= source.tokens]
    raise InputError(
        f"{len(lacking):,} pieces of this tokenizer, such as {lacking[0][:40]!r}, are not in the "
        f"vocabulary of {source.tokens:,} tokens and are read as unknown, which a tokenizer.json "
        "cannot express; use the folder that the model came from"
    )


def reading(held: Bundle) -> Tokenizer:
    """The tokenizer of what a model reads first."""
    return held.tokenizers.get("source") or next(iter(held.tokenizers.values()))


def writing(held: Bundle) -> Tokenizer:
    """The tokenizer of what a model writes."""
    return held.tokenizers.get(TARGET) or next(iter(held.tokenizers.values()))


def write_tokenizer(tokenizer: Tokenizer, frame: Frame, folder: Path) -> None:
    tokenizer.save(folder)  # pieces without a token included: CTranslate2 reads them as unknown
    spec = json.loads((folder / TOKENIZER).read_text("utf-8"))
    names = list(tokenizer.vocab)
    if not spec.get("post_processor"):
        spec["post_processor"] = _template(frame, names)
        text = json.dumps(spec, ensure_ascii=False, indent=1)
        (folder / TOKENIZER).write_text(text + "\n", "utf-8")
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    if tokenizer.kind != IMPORTED:
        config["split_special_tokens"] = True  # as here: no text forges a special token
        if frame.prefix:
            config["bos_token"] = names[frame.prefix[0]]
    config["model_input_names"] = ["input_ids", "attention_mask"]
    (folder / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
    (folder / META).unlink()


def _template(frame: Frame, names: Sequence[str]) -> dict[str, Any] | None:
    """What stands around a text, as a tokenizer.json says it."""
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
