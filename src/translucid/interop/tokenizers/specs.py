"""Build a tokenizer.json from parts, for tokenizers that are stored in other kinds of files."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from translucid.core.errors import InputError, TranslucidError
from translucid.data.tokenizers.tokenizer import Tokenizer

Part = dict[str, Any]


# How many rows without a token an embedding table may have: see agreement.py.
Spare = Literal["none", "padding", "some", "any"]
UNUSED = 1024  # maximum of special tokens without a row; agreement.py checks each of them


class ReadTokenizers(NamedTuple):
    """The tokenizers of a model, notes for the user, and the files they come from."""

    tokenizers: dict[str, Tokenizer]  # "tokenizer", or "source" and "target"
    notes: list[str]
    spare: Spare = "some"
    files: Mapping[str, str] = {}  # file names, by tokenizer


def check_room(file: Path | str, tokens: int, rows: int | None, *, unused: int = 0) -> None:
    """Raise an error if a vocabulary has more tokens than the embedding table has rows, before a
    tokenizer is built from it. rows: None if unknown. unused: how many tokens without a row are
    allowed, since no text produces them."""
    if rows is not None and tokens > rows + unused:
        raise InputError(
            f"{file} has {tokens:,} tokens, but the embedding table has {rows:,} rows; copy the "
            "complete vocabulary of these weights"
        )


@contextmanager
def damaged(where: str) -> Iterator[None]:
    """Convert errors about malformed tokenizer files into an InputError that names the file."""
    try:
        yield
    except TranslucidError:
        raise
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        raise InputError(
            f"{where} contains no readable tokenizer: {type(error).__name__}: "
            f"{str(error)[:200]}; copy its files again"
        ) from error


def spec_text(
    model: Part,
    *,
    normalizers: Sequence[Part] = (),
    pre_tokenizers: Sequence[Part] = (),
    decoders: Sequence[Part] = (),
    control: Mapping[int, str] | None = None,
    added: Iterable[Part] = (),
) -> str:
    """The text of a tokenizer.json. control: tokens that no text produces, by id. added: tokens
    that are matched before a text is split."""
    special = [token(i, name, special=True) for i, name in sorted((control or {}).items())]
    spec = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": sorted([*special, *added], key=lambda entry: entry["id"]),
        "normalizer": _sequence(normalizers, "normalizers"),
        "pre_tokenizer": _sequence(pre_tokenizers, "pretokenizers"),
        "post_processor": None,
        "decoder": _sequence(decoders, "decoders"),
        "model": model,
    }  # fmt: skip
    return json.dumps(spec, ensure_ascii=False)


def token(i: int, content: str, *, special: bool) -> Part:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": i, "content": content, **flags, "special": special}


def added_token(i: int, content: str) -> Part:
    """A token of ordinary text that is matched before the text is split."""
    return token(i, content, special=False)


def _sequence(parts: Sequence[Part], key: str) -> Part | None:
    if len(parts) <= 1:
        return parts[0] if parts else None
    return {"type": "Sequence", key: list(parts)}


def replace_text(old: str, new: str) -> Part:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def replace_pattern(pattern: str, new: str) -> Part:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": new}


def split_on(pattern: str, behavior: str = "Isolated") -> Part:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def byte_level(*, use_regex: bool, add_prefix_space: bool = False) -> Part:
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True,
            "use_regex": use_regex}  # fmt: skip


def bpe(
    vocab: Mapping[str, int], merges: Sequence[Sequence[str]], *, unk: str | None = None,
    byte_fallback: bool = False, whole_pieces: bool = False,
) -> Part:  # fmt: skip
    """A BPE model. whole_pieces: text that equals a token becomes that token without merging."""
    return {
        "type": "BPE", "dropout": None, "unk_token": unk, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": unk is not None, "byte_fallback": byte_fallback,
        "ignore_merges": whole_pieces, "vocab": dict(vocab), "merges": [list(m) for m in merges],
    }  # fmt: skip


def word_piece_spec(
    tokens: Sequence[str], *, unk: str, control: Mapping[int, str], lowercase: bool,
    strip_accents: bool | None = None, chinese: bool = True, added: Iterable[Part] = (),
) -> str:  # fmt: skip
    """The tokenizer.json of a WordPiece vocabulary. added: tokens that are matched before a text is
    split."""
    model = {
        "type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {token: i for i, token in reversed(list(enumerate(tokens)))},
    }  # fmt: skip
    normalizer = {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": chinese,
        "strip_accents": strip_accents, "lowercase": lowercase,
    }  # fmt: skip
    return spec_text(
        model, normalizers=[normalizer], pre_tokenizers=[{"type": "BertPreTokenizer"}],
        decoders=[{"type": "WordPiece", "prefix": "##", "cleanup": True}], control=control,
        added=added,
    )  # fmt: skip
