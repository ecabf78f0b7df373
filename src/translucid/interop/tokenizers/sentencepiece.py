"""Sentencepiece models: unigram (Kudo 2018, https://arxiv.org/abs/1804.10959) and BPE (Sennrich et
al. 2016, https://arxiv.org/abs/1508.07909) on text in which ▁ stands for a space.

Control pieces have no way in from text, as in the library itself; pieces that a user defined are
found wherever they stand. One thing is not as in the library: its table of normalised characters is
looked up cluster by cluster, so that a character with marks of six bytes or more (three accents
on one, Hangul in single signs) may stay apart where it would be composed.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from translucid.core.errors import InputError
from translucid.data.tokenizers.imported import Imported, check_pieces
from translucid.data.tokenizers.pipelines import WORD_START
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers.roles import note_of
from translucid.interop.tokenizers.sentencepiece_proto import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Pieces,
    read_model,
)
from translucid.interop.tokenizers.specs import (
    Part,
    ReadTokenizers,
    bpe,
    replace_pattern,
    replace_text,
    spec_text,
    split_on,
)

AROUND = rf"\A +|(?<![ {WORD_START}])[ {WORD_START}]+\z"  # spaces that `one_space` takes away


def tokenizer(path: Path) -> ReadTokenizers:
    """A .model file by itself; nothing is put around a text."""
    model = read_model(path)
    roles = model.roles
    special = SpecialTokens(
        pad=roles.get("pad"), bos=roles.get("bos"), eos=roles.get("eos"), unk=unknown(model),
        frame=Frame(), never=() if "pad" not in roles else (roles["pad"],),
    )  # fmt: skip
    made = Tokenizer.imported(imported(model, special, str(path)))
    return ReadTokenizers({"tokenizer": made}, [note_of(special, names(model))])


def names(model: Pieces) -> list[str]:
    return [piece for piece, _, _ in model.pieces]


def unknown(model: Pieces) -> int | None:
    """The piece of what cannot be spelt; none where bytes can."""
    numbers = (i for i, (_, _, kind) in enumerate(model.pieces) if kind == UNKNOWN)
    return None if model.byte_fallback else next(numbers, None)


def with_mask_tokens(model: Pieces, sentence: str, token: str, offset: int) -> Pieces:
    """Pegasus's vocabulary: after padding and end it has `offset` tokens of its pre-training,
    which its .model file lacks. sentence, token: those that hide a sentence and a token."""
    own = [sentence, token, *(f"<unk_{i}>" for i in range(2, offset))][:offset]
    pieces = [*model.pieces[:2], *((name, 0.0, CONTROL) for name in own), *model.pieces[2:]]
    roles = {role: i if i < 2 else i + len(own) for role, i in model.roles.items()}
    return replace(model, pieces=pieces, roles=roles)


def hidden(model: Pieces) -> tuple[int, ...]:
    return tuple(i for i, (_, _, kind) in enumerate(model.pieces) if kind == UNUSED)


def imported(
    model: Pieces, special: SpecialTokens, where: str, *, added: Iterable[Part] = ()
) -> Imported:
    return Imported(spec(model, where, added=added), special, hidden(model))


def spec(model: Pieces, where: str, *, added: Iterable[Part] = ()) -> str:
    """Its tokenizer.json."""
    check_pieces(names(model), where)  # merges take the square of a piece's length
    if model.kind not in ("unigram", "bpe") or model.space_behind or not model.escape:
        raise InputError(
            f"{where}: a sentencepiece model of kind {model.kind}"
            f"{' with the space behind a word' if model.space_behind else ''}"
            f"{'' if model.escape else ' without ▁ for a space'}; unigram and bpe models with ▁ in "
            "front are read: train one of these"
        )
    control = {i: piece for i, (piece, _, kind) in enumerate(model.pieces) if kind == CONTROL}
    user = [piece for piece, _, kind in model.pieces if kind == USER_DEFINED]
    if model.kind == "bpe":
        part = bpe_of(model.pieces, byte_fallback=model.byte_fallback)
        splits = [split_on("|".join(map(re.escape, by_length(user))))] if user else []
    else:
        part = unigram_of(model)
        # A byte that is spelt out in a text is no byte.
        splits = [split_on("<(?=0x[0-9A-F]{2}>)", "MergedWithPrevious")] if (
            model.byte_fallback
        ) else []  # fmt: skip
    return spec_text(
        part, normalizers=_normalizers(model), pre_tokenizers=splits, decoders=_decoders(model),
        control=control, added=added,
    )  # fmt: skip


def by_length(pieces: Sequence[str]) -> list[str]:
    return sorted(pieces, key=lambda piece: (-len(piece), piece))


def _normalizers(model: Pieces) -> list[Part]:
    steps: list[Part] = []
    if model.charsmap:
        charsmap = base64.b64encode(model.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if model.one_space:
        steps += [replace_pattern(AROUND, ""), replace_pattern(" {2,}", " ")]
    steps.append(replace_text(" ", WORD_START))
    if model.add_prefix:
        steps.append({"type": "Prepend", "prepend": WORD_START})
    return steps


def _decoders(model: Pieces) -> list[Part]:
    most = 1 << 16 if model.one_space else int(model.add_prefix)
    strip = [{"type": "Strip", "content": " ", "start": most, "stop": 0}] if most else []
    return [replace_text(WORD_START, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]


def unigram_of(model: Pieces) -> Part:
    best = max((score for _, score, kind in model.pieces if kind == NORMAL), default=0.0)
    scores: list[list[str | float]] = []
    for piece, score, kind in model.pieces:
        if kind == USER_DEFINED:  # the library's bonus, so that it is always taken
            score = len(piece.encode()) * best - 0.1
        scores.append([piece, score if kind in (NORMAL, USER_DEFINED, BYTE) else 0.0])
    unk = next((i for i, (_, _, kind) in enumerate(model.pieces) if kind == UNKNOWN), None)
    return {
        "type": "Unigram", "unk_id": unk, "vocab": scores, "byte_fallback": model.byte_fallback,
    }  # fmt: skip


def bpe_of(pieces: Sequence[tuple[str, float, int]], *, byte_fallback: bool) -> Part:
    vocab = {piece: i for i, (piece, _, _) in reversed(list(enumerate(pieces)))}
    unk = next((piece for piece, _, kind in pieces if kind == UNKNOWN), None)
    merged = [piece for piece in pieces if piece[2] in (NORMAL, USER_DEFINED, UNUSED)]
    whole = any(kind == USER_DEFINED for _, _, kind in pieces)
    return bpe(
        vocab, merges_of(merged), unk=unk, byte_fallback=byte_fallback, whole_pieces=whole
    )  # fmt: skip


def merges_of(pieces: Sequence[tuple[str, float, int]]) -> list[tuple[str, str]]:
    """Two pieces that are a third together become it, the one with the best score first."""
    known = {piece: i for i, (piece, _, _) in enumerate(pieces)}
    merges: list[tuple[float, int, int, str, str]] = []
    for piece, score, kind in pieces:
        if kind == USER_DEFINED:
            continue
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in known and right in known:
                merges.append((-score, known[left], known[right], left, right))
    merges.sort()
    return [(left, right) for *_, left, right in merges]
