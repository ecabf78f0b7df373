"""Read the tokenizer of a folder in Hugging Face's layout, from any kind of tokenizer file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers.pre_tokenizers import ByteLevel

from translucid.core.errors import InputError
from translucid.core.untrusted_files import present, read_object, read_text
from translucid.data.tokenizers.files import MAX_FILE
from translucid.data.tokenizers.imported import Imported
from translucid.data.tokenizers.special_tokens import Frame
from translucid.data.tokenizers.surface import steps
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers import marian, sentencepiece
from translucid.interop.tokenizers.plain_vocabulary import read_lines
from translucid.interop.tokenizers.sentencepiece import SentencePieceModel, read_model
from translucid.interop.tokenizers.specs import (
    UNUSED,
    Part,
    ReadTokenizers,
    Spare,
    bpe,
    byte_level,
    check_room,
    damaged,
    spec_text,
    token,
    word_piece_spec,
)
from translucid.interop.tokenizers.tokenizer_config import (
    RoleFiles,
    check_class,
    check_keys,
    clean_up_note,
    first_ids,
    note_of,
    special_tokens,
    template,
    with_options,
)

TARGET = "target"  # the folder of a second vocabulary
SENTENCEPIECE = ("tokenizer.model", "spiece.model", "spm.model")
LOOKED_FOR = (
    "tokenizer.json", "source.spm + target.spm + vocab.json", *SENTENCEPIECE,
    "vocab.json + merges.txt", "vocab.txt",
)  # fmt: skip


class Spec(NamedTuple):
    """A tokenizer.json, with settings from the files in the same folder."""

    model: Imported
    frame: Frame | None = None
    hidden: tuple[int, ...] = ()
    names: Mapping[str, str] = {}  # default tokens for some roles
    file: str = "tokenizer.json"  # the file with the vocabulary
    spare: Spare = "some"
    fixed: bool = False  # the file defines the frame, so flags cannot change it


def read_tokenizers(
    folder: Path, config: Mapping[str, Any] | None = None, rows: int | None = None
) -> ReadTokenizers:
    """Read all tokenizers of a folder. config: the contents of config.json; None: read it. rows:
    the number of rows of the largest embedding table, if known; a vocabulary with more tokens is
    rejected early."""
    with damaged(str(folder)):
        return _read(folder, config, rows)


def _read(folder: Path, config: Mapping[str, Any] | None, rows: int | None) -> ReadTokenizers:
    files = RoleFiles(
        _held(folder, "config.json") if config is None else config,
        *(_held(folder, name) for name in
          ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json")),
    )  # fmt: skip
    check_keys(files.tokenizer, folder)
    if all(present(folder / f"{side}.spm") for side in marian.SIDES):
        return marian.tokenizers(folder, files)
    if present(folder / TARGET / "tokenizer.json"):  # as Translucid's export writes it
        source = _one(folder, files, rows)
        target = _read(folder / TARGET, files.config, rows)
        return ReadTokenizers(
            {"source": source.tokenizers["tokenizer"], "target": target.tokenizers["tokenizer"]},
            [f"source: {note}" for note in source.notes]
            + [f"target: {note}" for note in target.notes],
            files={
                "source": source.files["tokenizer"],
                "target": f"{TARGET}/{target.files['tokenizer']}",
            },
        )
    return _one(folder, files, rows)


def _one(folder: Path, files: RoleFiles, rows: int | None) -> ReadTokenizers:
    spec = _spec(folder, files, rows)
    data, names = spec.model.data, spec.model.names
    check_room(folder / spec.file, len(names), rows, unused=UNUSED)
    usual = {f"{role}_token": name for role, name in spec.names.items()}
    unknown = _unknown(data["model"])
    if unknown is not None:
        usual = {"unk_token": unknown} | usual
    files = replace(files, special_map=usual | dict(files.special_map))
    special = special_tokens(
        names, files, spec.frame, spells_all=_spells_all(data, set(names)), fixed=spec.fixed
    )
    notes = [note_of(special, names), *clean_up_note(data, files)]
    made = Tokenizer.imported(spec.model.with_roles(special, spec.hidden))
    return ReadTokenizers({"tokenizer": made}, notes, spec.spare, {"tokenizer": spec.file})


def _unknown(model: Mapping[str, Any]) -> str | None:
    """The unknown token that a tokenizer.json names in its model."""
    if model["type"] == "Unigram":
        place, pieces = model.get("unk_id"), model["vocab"]
        known = isinstance(place, int) and 0 <= place < len(pieces)
        return str(pieces[place][0]) if known else None
    name = model.get("unk_token")
    return name if isinstance(name, str) else None


def _spells_all(data: Mapping[str, Any], names: set[str]) -> bool:
    """Whether the tokenizer can represent any text by bytes; small vocabularies may lack some
    bytes."""
    if data["model"].get("byte_fallback"):
        return {f"<0x{byte:02X}>" for byte in range(256)} <= names
    kinds = {step.get("type") for key in ("pre_tokenizer", "normalizer")
             for step in steps(data.get(key))}  # fmt: skip
    return "ByteLevel" in kinds and set(ByteLevel.alphabet()) <= names


def _held(folder: Path, name: str) -> dict[str, Any]:
    return read_object(folder / name) if present(folder / name) else {}


def _spec(folder: Path, files: RoleFiles, rows: int | None) -> Spec:
    def there(*names: str) -> bool:
        return all(present(folder / name) for name in names)

    if there("tokenizer.json"):
        return _whole(folder / "tokenizer.json", files)
    for name in SENTENCEPIECE:
        if there(name):
            return _sentencepiece(folder / name, files, _added(folder, files))
    if there("vocab.json", "merges.txt"):
        return _byte_pairs(folder, files, rows)
    if there("vocab.txt"):
        return _word_pieces(folder, files, rows)
    raise InputError(
        f"{folder} contains no known tokenizer (looked for {', '.join(LOOKED_FOR)}); copy the "
        "model's tokenizer files, too"
    )


def _whole(path: Path, files: RoleFiles) -> Spec:
    """Read a tokenizer.json, with the tokens that tokenizer_config.json adds."""
    text = read_text(path, MAX_FILE, "copy it again")
    model = Imported.read(text, str(path))
    data = model.data
    known = {entry["id"] for entry in data.get("added_tokens") or []}
    more = [t for t in _decoder_tokens(files) if t["id"] not in known]
    more = [t for t in more if t["id"] >= len(model.names) or model.names[t["id"]] == t["content"]]
    if more:
        data = data | {"added_tokens": [*(data.get("added_tokens") or []), *more]}
    data = with_options(data, files, path.parent)
    if data is not model.data:
        model = Imported.read(json.dumps(data, ensure_ascii=False), str(path))
    processor = data.get("post_processor")
    frame = template(processor, first_ids(model.names))
    return Spec(model, Frame() if frame is None and processor else frame, fixed=True)


def _decoder_tokens(files: RoleFiles) -> list[Part]:
    """Tokens that tokenizer_config.json lists by their ids."""
    listed = files.tokenizer.get("added_tokens_decoder") or {}
    tokens = []
    for i, entry in listed.items() if isinstance(listed, Mapping) else ():
        if (
            str(i).isdigit()
            and isinstance(entry, Mapping)
            and isinstance(entry.get("content"), str)
        ):
            flags = {key: bool(entry.get(key)) for key in ("single_word", "lstrip", "rstrip",
                                                           "normalized", "special")}  # fmt: skip
            tokens.append({"id": int(i), "content": entry["content"], **flags})
    return tokens


def _added(folder: Path, files: RoleFiles) -> list[Part]:
    """The tokens added to a vocabulary, in a folder without a tokenizer.json. The vocabulary file
    does not contain them."""
    tokens = {t["id"]: t for t in _decoder_tokens(files)}
    for content, i in _held(folder, "added_tokens.json").items():
        if isinstance(i, int):
            tokens.setdefault(i, token(i, content, special=True))
    return list(tokens.values())


def _sentencepiece(path: Path, files: RoleFiles, added: Sequence[Part]) -> Spec:
    model = read_model(path)
    if files.config.get("model_type") == "pegasus":
        model = _with_mask_tokens(model, path, files)
    names = model.names
    extra = files.tokenizer.get("extra_ids")
    more = list(added)
    if (
        isinstance(extra, int) and 0 < extra < 1000 and not more
    ):  # T5's extra tokens, numbered downwards
        last = len(names) + extra - 1
        more = [token(last - i, f"<extra_id_{i}>", special=True) for i in range(extra)]
    outside = [t for t in more if t["id"] >= len(names)]
    roles = {role: names[i] for role, i in model.roles.items()}
    bos = model.roles.get("bos")
    encodes = bool(files.config.get("is_encoder_decoder"))
    frame = None if encodes or bos is None else Frame((bos,), (), (bos,))
    check_class(files, "a sentencepiece model", path.parent)
    text = sentencepiece.spec(model, str(path), added=outside)
    made = Imported.read(text, str(path.with_name("tokenizer.json")))
    with_options(made.data, files, path.parent)  # raises if they do not agree
    return Spec(made, frame, model.hidden, roles, path.name)


def _with_mask_tokens(
    model: SentencePieceModel, path: Path, files: RoleFiles
) -> SentencePieceModel:
    offset = files.tokenizer.get("offset", 103)
    if not isinstance(offset, int) or not 0 <= offset < 1000:
        raise InputError(
            f"{path.with_name('tokenizer_config.json')}: offset = {str(offset)[:60]!r}; expected "
            "a whole number from 0 to 999"
        )
    sentence = str(files.tokenizer.get("mask_token_sent") or "<mask_1>")
    return sentencepiece.with_mask_tokens(model, sentence, files.name("mask") or "<mask_2>", offset)


def _byte_pairs(folder: Path, files: RoleFiles, rows: int | None) -> Spec:
    """Read GPT-2's two tokenizer files, vocab.json and merges.txt."""
    check_class(files, "merges.txt", folder)
    vocab = read_object(folder / "vocab.json")
    check_room(folder / "vocab.json", len(vocab), rows, unused=UNUSED)
    if any("</w>" in piece for piece in vocab):
        raise InputError(
            f"{folder / 'vocab.json'} contains pieces with </w>, so it is not a GPT-2 vocabulary; "
            "copy the model's tokenizer.json, too"
        )
    lines = read_lines(folder / "merges.txt")
    lines = lines[1:] if lines and lines[0].startswith("#version") else lines
    merges = [line.split(" ") for line in lines if line]
    if wrong := [pair for pair in merges if len(pair) != 2]:
        raise InputError(
            f"{folder / 'merges.txt'}: {' '.join(wrong[0])[:80]!r} is not a merge; expected two "
            "pieces separated by a space"
        )
    usual = {"bos": "<s>", "eos": "</s>", "pad": "<pad>", "mask": "<mask>"}
    if "<s>" not in vocab:
        usual = dict.fromkeys(("bos", "eos"), "<|endoftext|>")
    elif "<mask>" in vocab:
        usual |= {"cls": "<s>", "sep": "</s>"}
    usual = {role: name for role, name in usual.items() if name in vocab}
    named = {files.name(role) or name for role, name in usual.items()} | {"<unk>"}
    control = {i: piece for piece, i in vocab.items() if piece in named}
    hidden = files.name("mask") or usual.get("mask")
    mask = next((i for i, piece in control.items() if piece == hidden), None)
    strips = {"lstrip": True}  # <mask> replaces a token that begins with a space
    masks = [] if mask is None else [token(mask, control.pop(mask), special=True) | strips]
    prefix = bool(files.tokenizer.get("add_prefix_space"))
    text = spec_text(
        bpe(vocab, merges), pre_tokenizers=[byte_level(use_regex=True, add_prefix_space=prefix)],
        decoders=[byte_level(use_regex=True)], control=control,
        added=[*masks, *(t for t in _added(folder, files) if t["id"] not in (*control, mask))],
    )  # fmt: skip
    frame = None
    if "cls" in usual:
        start, end = (vocab[files.name(role) or usual[role]] for role in ("cls", "sep"))
        frame = Frame((start,), (end,), (end, end))
    model = Imported.read(text, str(folder / "tokenizer.json"))
    return Spec(model, frame, names=usual, file="vocab.json")


def _word_pieces(folder: Path, files: RoleFiles, rows: int | None) -> Spec:
    check_class(files, "vocab.txt", folder)
    tokens = read_lines(folder / "vocab.txt", rows)
    usual = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    named = {role: files.name(role) or name for role, name in usual.items()}
    if named["unk"] not in tokens:
        raise InputError(
            f"{folder / 'vocab.txt'} has no {named['unk']} for unknown words; it is not a "
            "WordPiece vocabulary"
        )
    control = {i: piece for i, piece in enumerate(tokens) if piece in named.values()}
    accents = files.tokenizer.get("strip_accents")
    text = word_piece_spec(
        tokens, unk=named["unk"], control=control,
        lowercase=files.tokenizer.get("do_lower_case") is not False,
        strip_accents=accents if isinstance(accents, bool) else None,
        chinese=files.tokenizer.get("tokenize_chinese_chars") is not False,
        added=[t for t in _added(folder, files) if t["id"] not in control],
    )  # fmt: skip
    model = Imported.read(text, str(folder / "tokenizer.json"))
    return Spec(model, names=named, file="vocab.txt", spare="padding")
