"""The tokenizer inside a GGUF file: its metadata `tokenizer.ggml.*`, a plain dictionary."""

from typing import Any

from translucid.core.errors import InputError
from translucid.data.tokenizers import patterns
from translucid.data.tokenizers.imported import MOST_TOKENS, Imported
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
    USER_DEFINED,
    Pieces,
)
from translucid.interop.tokenizers.specs import (
    Part,
    ReadTokenizers,
    added_token,
    bpe,
    byte_level,
    damaged,
    spec_text,
    split_on,
)
from translucid.interop.tokenizers.word_piece import word_piece_spec

KEY = "tokenizer.ggml."
DIGITS = {"type": "Digits", "individual_digits": True}
GPT2 = [byte_level(use_regex=True)]
DIGITS_APART = [DIGITS, *GPT2]


def _pattern(pattern: str) -> list[Part]:
    return [split_on(pattern), byte_level(use_regex=False)]


# How text is split before its bytes are merged, by the name that the file gives.
PRE_TOKENIZERS: dict[str, list[Part]] = {
    **dict.fromkeys(("default", "gpt-2", "phi-2", "jina-es", "jina-de", "mpt", "olmo"), GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), DIGITS_APART),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "smaug-bpe", "dbrx"),
                    _pattern(patterns.CL100K)),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen"), _pattern(patterns.QWEN2)),
    **dict.fromkeys(("gpt-4o", "llama4"), _pattern(patterns.O200K)),
}  # fmt: skip


def tokenizer(metadata: dict[str, Any]) -> ReadTokenizers:
    """What the metadata of a GGUF file says; keys of other things are ignored."""
    with damaged("the GGUF file"):
        return _read(metadata)


def _read(metadata: dict[str, Any]) -> ReadTokenizers:
    values = {k.removeprefix(KEY): v for k, v in metadata.items() if k.startswith(KEY)}
    kind, tokens = values.get("model"), values.get("tokens")
    if kind not in _MAKERS:
        raise InputError(
            f"{KEY}model = {kind!r}: known tokenizers of GGUF files are {', '.join(_MAKERS)}"
        )
    whole = isinstance(tokens, list) and 0 < len(tokens) <= MOST_TOKENS
    if not whole or not all(isinstance(token, str) for token in tokens or ()):
        raise InputError(f"{KEY}tokens must be a list of at most {MOST_TOKENS:,} texts")
    pieces = _pieces(values, tokens or [])
    special = _roles(values, pieces, kind)
    made = Tokenizer.imported(_MAKERS[kind](values, pieces, special))
    notes, files = [note_of(special, tokens or [])], {"tokenizer": f"{KEY}tokens"}
    return ReadTokenizers({"tokenizer": made}, notes, "none", files)


def _pieces(values: dict[str, Any], tokens: list[str]) -> list[tuple[str, float, int]]:
    scores = _numbers(values, "scores", len(tokens), 0.0)
    kinds = _numbers(values, "token_type", len(tokens), NORMAL)
    return [(t, float(s), int(k)) for t, s, k in zip(tokens, scores, kinds, strict=True)]


def _numbers(values: dict[str, Any], key: str, size: int, otherwise: float) -> list[float]:
    numbers = values.get(key)
    if numbers is None:
        return [otherwise] * size
    if not isinstance(numbers, list) or len(numbers) != size:
        length = len(numbers) if isinstance(numbers, list) else type(numbers).__name__
        raise InputError(
            f"{KEY}{key}: {length}, but there are {size:,} tokens; the file is damaged"
        )
    if not all(isinstance(number, int | float) for number in numbers):
        raise InputError(f"{KEY}{key} holds something that is no number; the file is damaged")
    return numbers


def _roles(
    values: dict[str, Any], pieces: list[tuple[str, float, int]], kind: str
) -> SpecialTokens:
    def role(*names: str) -> int | None:
        ids = (values.get(f"{name}_token_id") for name in names)
        right = (i for i in ids if isinstance(i, int) and 0 <= i < len(pieces))
        return next(right, None)

    bos, eos = role("bos", "cls"), role("eos")
    pad, mask, sep = role("padding"), role("mask"), role("seperator", "separator")
    numbers = (i for i, piece in enumerate(pieces) if piece[2] == UNKNOWN)
    unk = role("unknown") if role("unknown") is not None else next(numbers, None)
    if kind == "gpt2" or any(piece[2] == BYTE for piece in pieces):
        unk = None  # bytes spell everything
    if kind == "bert":
        start, end = (next((i for i, p in enumerate(pieces) if p[0] == name), None)
                      for name in ("[CLS]", "[SEP]"))  # fmt: skip
        bos, eos = start if bos is None else bos, end if sep is None else sep
    add_bos = values.get("add_bos_token", kind in ("llama", "bert"))
    add_eos = values.get("add_eos_token", kind in ("bert", "t5"))
    prefix = () if bos is None or not add_bos else (bos,)
    suffix = () if eos is None or not add_eos else (eos,)
    return SpecialTokens(
        pad=pad, bos=bos, eos=eos, unk=unk, mask=mask, start=prefix,
        frame=Frame(prefix, suffix, suffix), never=() if pad in (None, eos) else (pad,),
        ends=tuple(i for i in (role("eot"), role("eom")) if i not in (None, eos)),
    )  # fmt: skip


def _sentencepiece(
    values: dict[str, Any], pieces: list[tuple[str, float, int]], special: SpecialTokens
) -> Imported:
    charsmap = values.get("precompiled_charsmap") or b""
    model = Pieces(
        pieces,
        kind="unigram" if values["model"] == "t5" else "bpe",
        byte_fallback=any(kind == BYTE for _, _, kind in pieces),
        charsmap=bytes(charsmap) if isinstance(charsmap, bytes | list) else b"",
        add_prefix=bool(values.get("add_space_prefix", True)),
        one_space=bool(values.get("remove_extra_whitespaces", False)),
    )
    return sentencepiece.imported(model, special, f"{KEY}model = {values['model']}")


def _byte_level(
    values: dict[str, Any], pieces: list[tuple[str, float, int]], special: SpecialTokens
) -> Imported:
    name = values.get("pre", "default")
    if name not in PRE_TOKENIZERS:
        raise InputError(
            f"{KEY}pre = {name!r}: how it splits text is not known here; known are "
            f"{', '.join(PRE_TOKENIZERS)}: take the model's folder with its tokenizer.json"
        )
    merges = values.get("merges")
    if not isinstance(merges, list) or not all(isinstance(m, str) and " " in m for m in merges):
        raise InputError(f"{KEY}merges must be a list of pairs with a space between")
    vocab = {piece: i for i, (piece, _, _) in enumerate(pieces)}
    text = spec_text(
        bpe(vocab, [merge.split(" ", 1) for merge in merges], whole_pieces=name == "llama-bpe"),
        pre_tokenizers=PRE_TOKENIZERS[name], decoders=[byte_level(use_regex=True)],
        control={i: piece for i, (piece, _, kind) in enumerate(pieces) if kind == CONTROL},
        added=[added_token(i, p) for i, (p, _, kind) in enumerate(pieces) if kind == USER_DEFINED],
    )  # fmt: skip
    return Imported(text, special)


def _word_piece(
    values: dict[str, Any], pieces: list[tuple[str, float, int]], special: SpecialTokens
) -> Imported:
    """There, the beginning of a word is marked, not its continuation."""
    marked = any(piece.startswith(WORD_START) for piece, _, _ in pieces)
    tokens = [piece for piece, _, _ in pieces]
    control = {i: piece for i, (piece, _, kind) in enumerate(pieces) if kind in (CONTROL, UNKNOWN)}
    if marked:
        tokens = [
            piece if i in control
            else piece.removeprefix(WORD_START) if piece.startswith(WORD_START)
            else f"##{piece}"
            for i, piece in enumerate(tokens)
        ]  # fmt: skip
    unk = "[UNK]" if special.unk is None else tokens[special.unk]
    return Imported(word_piece_spec(tokens, unk=unk, control=control, lowercase=True), special)


_MAKERS = {
    "llama": _sentencepiece, "t5": _sentencepiece, "gpt2": _byte_level, "bert": _word_piece,
}  # fmt: skip
