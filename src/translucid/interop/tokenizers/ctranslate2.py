"""The vocabularies beside CTranslate2's model.bin. How texts are split into their tokens is not
known there: at spaces, or where all tokens are single characters, between these."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, present
from translucid.data.tokenizers.special_tokens import Frame
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families.options import Options
from translucid.interop.tokenizers import vocabulary
from translucid.interop.tokenizers.folder import read_tokenizers
from translucid.interop.tokenizers.roles import note_of
from translucid.interop.tokenizers.specs import ReadTokenizers

SHARED = ("shared_vocabulary", "vocabulary")
UNKNOWN = "<unk>"
SPECIAL = 4  # tokens in front may be special, which have longer names
FILLER = re.compile(r"(<unused|madeupword)\d+>?")  # names of rows that no text gives


def tokenizers(folder: Path, config: Options, rows: Mapping[str, int]) -> ReadTokenizers:
    """config: the model's options. rows: of the embedding of each side, source and target."""
    files = _files(folder)
    lists = {name: _tokens(path, rows.get(name, rows["source"])) for name, path in files.items()}
    if present(folder / "tokenizer.json"):
        return _with_splitter(folder, config, lists, rows)
    source, target = lists.get("source") or lists["tokenizer"], lists.get("target")
    characters = all(_is_characters(tokens) for tokens in (source, target or source))
    made = vocabulary.tokenizers(
        source,
        target,
        split="characters" if characters else "space",
        start=_start(config, target or source),
        source_end=_flag(config, "add_source_eos", "with_source_eos"),
    )
    if _flag(config, "add_source_bos", "with_source_bos"):
        side = "tokenizer" if target is None else "source"
        special = made.tokenizers[side].special
        if special.bos is None or special.frame is None:
            raise InputError(f"{folder}: sources begin with <s>, which the vocabulary lacks")
        frame = replace(special.frame, prefix=(special.bos,))
        made.tokenizers[side] = made.tokenizers[side].with_special(replace(special, frame=frame))
    where = "between characters" if characters else "at spaces alone: CTranslate2 keeps no splitter"
    notes, names = [*made.notes, f"texts are split {where}"], {n: p.name for n, p in files.items()}
    return ReadTokenizers(made.tokenizers, notes, "none", names)


def _with_splitter(
    folder: Path, config: Options, lists: Mapping[str, Sequence[str]], rows: Mapping[str, int]
) -> ReadTokenizers:
    """A tokenizer.json beside the vocabularies; the engine itself adds what its options say."""
    read = read_tokenizers(folder, {})
    whole = {side: _known_alone(tokenizer, lists.get(side) or next(iter(lists.values())))
             for side, tokenizer in read.tokenizers.items()}  # fmt: skip
    read = read._replace(tokenizers=whole)
    for side, tokenizer in read.tokenizers.items():
        tokens = lists.get(side) or next(iter(lists.values()))
        known, count = len(tokenizer), rows.get(side, rows["source"])
        if len(tokens) != count:
            raise InputError(
                f"{folder}: its vocabulary ({side}) has {len(tokens):,} tokens, but the embedding "
                f"table has {count:,} rows; copy the vocabulary again, whole"
            )
        if named := [token for token in tokens[known:] if not FILLER.fullmatch(token)]:
            raise InputError(
                f"{folder}: {read.files[side]} has {known:,} tokens, but the vocabulary beside it "
                f"({side}) {len(tokens):,}, among them {named[0][:60]!r}; copy both again, whole"
            )
    if config.text("spec") == "TransformerDecoderSpec":  # whose users say what a text starts with
        return read
    made, notes = {}, []
    for side, tokenizer in read.tokenizers.items():
        special, names = tokenizer.special, list(tokenizer.vocab)
        prefix = [special.bos] * _flag(config, "add_source_bos", "with_source_bos")
        suffix = [special.eos] * _flag(config, "add_source_eos", "with_source_eos")
        around = Frame(*(tuple(i for i in ids if i is not None) for ids in (prefix, suffix)))
        start = None if side == "source" else _start(config, names)
        first = special.bos if start is None else names.index(start)
        starts = () if first is None or side == "source" else (first,)
        special = replace(special, frame=around, start=starts)
        made[side] = tokenizer.with_special(special)
        notes.append(note_of(special, names, "" if side == "tokenizer" else side))
    return ReadTokenizers(made, notes, files=read.files)


def _known_alone(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """The engine gets names, and takes those that the vocabulary lacks for unknown."""
    source, size = tokenizer.source, len(tokens)
    if source is None or len(tokenizer) <= size or list(tokenizer.vocab)[:size] != [*tokens]:
        return tokenizer
    return Tokenizer.imported(replace(source, tokens=size))


def _files(folder: Path) -> dict[str, Path]:
    """The vocabularies by tokenizer."""
    shared = _file(folder, *SHARED)
    if shared is not None:
        return {"tokenizer": shared}
    files = {side: _file(folder, f"{side}_vocabulary") for side in ("source", "target")}
    if None in files.values():
        raise InputError(
            f"{folder}: its vocabulary is missing; copy shared_vocabulary, or source_vocabulary "
            "and target_vocabulary (.json or .txt), into the same folder"
        )
    return {side: path for side, path in files.items() if path}


def _file(folder: Path, *names: str) -> Path | None:
    for name in names:
        for suffix in (".json", ".txt"):
            if present(folder / (name + suffix)):
                return inside(folder, name + suffix, "a vocabulary")
    return None


def _tokens(path: Path, rows: int) -> list[str]:
    """A token for what is unknown has a row behind all others, where the file does not name it."""
    tokens = vocabulary.read_lines(path)
    return tokens if UNKNOWN in tokens or len(tokens) >= rows else [*tokens, UNKNOWN]


def _is_characters(tokens: Sequence[str]) -> bool:
    return all(len(token) == 1 for token in tokens[SPECIAL:] if token != UNKNOWN)


def _start(config: Options, target: Sequence[str]) -> str | None:
    """What a decoder starts with; None: the token of a text's beginning."""
    start = config.get("decoder_start_token")
    if start is None:
        return None if config.get("with_target_bos", 1) else "</s>"
    if start not in target:
        raise InputError(
            f"{config.where}: decoder_start_token = {str(start)[:60]!r} is no token of the "
            "target's vocabulary; the files do not belong together"
        )
    return str(start)


def _flag(config: Options, name: str, older: str) -> bool:
    return bool(config.get(name, config.get(older, 0)))
