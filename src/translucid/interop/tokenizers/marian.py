"""Read Marian's tokenizers: sentencepiece models source.spm and target.spm, with one or two
vocabularies."""

import re
from dataclasses import replace
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import present, read_object
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers import sentencepiece
from translucid.interop.tokenizers.sentencepiece import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    Piece,
    SentencePieceModel,
    read_model,
)
from translucid.interop.tokenizers.specs import ReadTokenizers, added_token
from translucid.interop.tokenizers.tokenizer_config import RoleFiles, note_of

_LANGUAGE = re.compile(r">>.+<<")  # token that begins a text for a multilingual model
SIDES = ("source", "target")


def tokenizers(folder: Path, files: RoleFiles) -> ReadTokenizers:
    shared = _vocabulary(folder / "vocab.json")
    own = folder / "target_vocab.json"
    target = _vocabulary(own) if present(own) else shared
    made: dict[str, Tokenizer] = {}
    notes: list[str] = []
    for side, vocab in zip(SIDES, (shared, target), strict=True):
        tokenizer, lacking = _side(folder / f"{side}.spm", vocab, files, side)
        made[side] = tokenizer
        names = [token for token, _ in sorted(vocab.items(), key=lambda item: item[1])]
        notes.append(note_of(tokenizer.special, names, side))
        if lacking:
            notes.append(f"{side}: {lacking:,} pieces of {side}.spm are not in the vocabulary and "
                         "are read as unknown")  # fmt: skip
    names_of = {"source": "vocab.json", "target": own.name if present(own) else "vocab.json"}
    return ReadTokenizers(made, notes, "padding", names_of)


def _side(path: Path, vocab: dict[str, int], files: RoleFiles, side: str) -> tuple[Tokenizer, int]:
    model = read_model(path)
    known = {piece: (score, kind) for piece, score, kind in model.pieces}
    names = {i: token for token, i in vocab.items()}
    pieces: list[Piece] = []
    for i in range(len(vocab)):
        score, kind = known.get(names[i], (0.0, UNUSED))
        pieces.append((names[i], score, kind))
    special = _roles(vocab, files)
    for role in (special.pad, special.eos):
        if role is not None:
            pieces[role] = (names[role], 0.0, CONTROL)
    if special.unk is None:
        raise InputError(
            f"{path.parent / 'vocab.json'} has no <unk>; it is not a Marian vocabulary"
        )
    pieces[special.unk] = (names[special.unk], 0.0, UNKNOWN)
    lacking = [p for p in model.pieces if p[0] not in vocab and p[2] == NORMAL]
    arranged: SentencePieceModel = replace(model, pieces=[*pieces, *lacking], byte_fallback=False)
    languages = [added_token(i, token) for token, i in vocab.items() if _LANGUAGE.fullmatch(token)]
    imported = sentencepiece.imported(arranged, special, str(path), added=languages)
    shown = {token["id"] for token in languages}
    reach = tuple(i for i in imported.hidden if i not in shown)
    tokens = len(vocab) if lacking else None
    return Tokenizer.imported(replace(imported, hidden=reach, tokens=tokens)), len(lacking)


def _roles(vocab: dict[str, int], files: RoleFiles) -> SpecialTokens:
    pad, eos, unk = (
        vocab.get(files.name(role) or usual)
        for role, usual in (("pad", "<pad>"), ("eos", "</s>"), ("unk", "<unk>"))
    )
    if eos is None:
        raise InputError("vocab.json has no </s> to end a text; it is not a Marian vocabulary")
    start = files.decoder_start() or ([] if pad is None else [pad])
    if wrong := [i for i in start if i >= len(vocab)]:
        raise InputError(
            f"the model starts its texts with token {wrong[0]}, but vocab.json has only "
            f"{len(vocab):,} tokens; the files do not belong together"
        )
    ends = files.ids("eos_token_id") or [eos]
    if eos not in ends:
        raise InputError(
            f"eos_token_id = {ends[0]}, but </s>, which ends a source, is token {eos}; the "
            "files do not belong together"
        )
    return SpecialTokens(
        pad=pad, eos=eos, unk=unk, start=tuple(start), frame=Frame((), (eos,), ()),
        never=() if pad is None else (pad,), ends=tuple(i for i in ends if i != eos),
    )  # fmt: skip


def _vocabulary(path: Path) -> dict[str, int]:
    vocab = read_object(path)
    if sorted(map(str, vocab.values())) != sorted(map(str, range(len(vocab)))) or not vocab:
        raise InputError(f"{path} must number its tokens from 0 without gaps")
    return vocab
