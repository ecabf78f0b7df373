"""Tokenizer files that are damaged, or meant to do harm: a named error, and nothing hangs."""

import json
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.interop.tokenizer_files import (
    BYTES,
    CONTROLS,
    LETTERS,
    WORDS,
    gguf_llama,
    sentencepiece_alone,
    sentencepiece_model,
)
from tests.tiny.dealt import dealt

from translucid.core.errors import InputError, TokenizerMismatchError
from translucid.data.tokenizers import patterns
from translucid.data.tokenizers.imported import Imported
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families import llama2c, llama_cpp
from translucid.interop.tokenizers import plain_vocabulary, read_tokenizers
from translucid.interop.tokenizers.specs import split_on

SPEC: dict[str, Any] = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3}, "merges": [["a", "b"]]},
    "added_tokens": [{"id": 3, "content": "<s>", "special": True}],
}


def opened(**changes: Any) -> Tokenizer:
    return Tokenizer.imported(Imported(json.dumps(SPEC | changes), SpecialTokens(bos=3)))


def model(**changes: Any) -> dict[str, Any]:
    return SPEC["model"] | changes


def test_a_valid_tokenizer_opens() -> None:
    assert opened().encode("ab") == [2]
    assert opened(model=model(dropout=0.999)).encode("ab" * 500) == [2] * 500


@pytest.mark.parametrize("pattern", [
    "(a+)+b", "(?:a*)*$", "(a|a)*b", r"(a)\1+", "(?:(?:a|b){2,50}){2,50}c", "(?<name>a)", "(?R)",
    "([ab]+x?)+y", "((a+))+", "(?>(a+)+)b", "x" * 70_000, 7, None,
])  # fmt: skip
def test_a_pattern_that_may_take_forever_is_refused(pattern: Any) -> None:
    split = split_on(pattern)
    inner = {"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": [split]}]}
    for part in (split, inner):
        with pytest.raises(InputError, match="pattern"):
            opened(pre_tokenizer=part)


@pytest.mark.parametrize("pattern", [
    patterns.GPT2, patterns.CL100K, patterns.QWEN2, patterns.O200K, r"\p{N}{1,3}",
    r"\d{1,3}(?=(?:\d{3})*\b)", r"[\p{L}\p{M}]+|[^\s]", "(?i:'s|'t)|x+", r"[\]()*+]+a", r"\(a+\)+",
])  # fmt: skip
def test_known_patterns_are_accepted(pattern: str) -> None:
    split = split_on(pattern)
    made = opened(pre_tokenizer=split)
    known = pattern in patterns.KNOWN
    assert made.max_bytes == (1 << 20 if known else patterns.MAX_BYTES)
    assert made.encode("ab") == [2]


@pytest.mark.parametrize(
    ("pattern", "text"),
    dealt(
        [patterns.GPT2, patterns.CL100K, patterns.QWEN2, patterns.O200K],
        [" ", "\n ", "a", "'", "1", "\u00e9", "\u0301", "! ", " \t", "Aa"],
        share=2,
        rest=pytest.mark.slow,
    ),
)
def test_known_patterns_are_fast_on_anything(pattern: str, text: str) -> None:
    split = split_on(pattern)
    begun = time.process_time()
    opened(pre_tokenizer=split).encode(text * (100_000 // len(text.encode())) + "x")
    assert time.process_time() - begun < 20


@pytest.mark.parametrize("normalizer", [
    {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000},
    {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaa"}] * 40},
    {"type": "Prepend", "prepend": "a" * 100_000},
])  # fmt: skip
def test_normalizers_that_lengthen_a_text_are_refused(normalizer: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="256 times as long"):
        opened(normalizer=normalizer)


@pytest.mark.parametrize("changes", [
    {"model": None}, {"model": {"type": "Python", "vocab": {}}}, {"model": model(vocab=[1, 2])},
    {"model": model(vocab={"a": "0"})}, {"model": model(vocab={"a": -1})},
    {"model": model(vocab={"a": 1 << 40})}, {"model": model(vocab={})},
    {"model": model(merges=[["a", "z"]])}, {"model": model(merges=["ab"])},
    {"model": model(merges=[[1, 2]])}, {"model": {"type": "Unigram", "vocab": [["a"]]}},
    {"model": {"type": "Unigram", "vocab": [["a", "x"]]}},
    {"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 9}},
    {"added_tokens": {"a": 1}}, {"added_tokens": [{"id": 1 << 60, "content": "x"}]},
    {"added_tokens": [{"content": "x"}]}, {"added_tokens": ["x"]},
    {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA/////w=="}},
    {"normalizer": {"type": "Nothing"}}, {"pre_tokenizer": []}, {"pre_tokenizer": {"type": 3}},
])  # fmt: skip
def test_damaged_parts_are_named(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        opened(**changes).encode("ab")


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "null", '{"model": 1}', "\0"])
def test_invalid_tokenizer_json_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(text, "utf-8")
    with pytest.raises(InputError):
        read_tokenizers(tmp_path)


def test_odd_configuration_files_raise_only_named_errors(tmp_path: Path) -> None:
    """None of these may fail in another way than by name."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(SPEC))
    odd: list[Any] = [
        {"eos_token": 5, "bos_token": {"content": 7}}, {"added_tokens_decoder": [1]},
        {"added_tokens_decoder": {"-1": {"content": "x"}, "7": {"content": 5}, "x": 3}},
        {"added_tokens_decoder": {"9" * 40: {"content": "x"}}}, {"bos_token": "<s>"},
    ]  # fmt: skip
    for values in odd:
        for name in ("tokenizer_config.json", "special_tokens_map.json"):
            (tmp_path / name).write_text(json.dumps(values))
            try:
                read_tokenizers(tmp_path)
            except InputError:
                continue
    (tmp_path / "tokenizer_config.json").write_text("{}")
    for key in ("eos_token_id", "decoder_start_token_id", "pad_token_id", "bad_words_ids"):
        for value in (-1, 1 << 70, "x", [[1, "x"], [2]], {"a": 1}, [None], True, 2.5):
            try:
                read_tokenizers(tmp_path, {key: value, "is_encoder_decoder": True})
            except InputError:
                continue


@pytest.mark.parametrize("processor", [
    {"type": "TemplateProcessing", "single": "x", "pair": 3}, {"type": "TemplateProcessing"},
    {"type": "BertProcessing", "cls": "x"}, {"type": "Sequence", "processors": {"a": 1}}, 7,
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {}}],
     "special_tokens": {"<s>": {"ids": [99]}}},
])  # fmt: skip
def test_odd_templates_raise_only_named_errors(processor: Any, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(SPEC | {"post_processor": processor}))
    try:
        read_tokenizers(tmp_path)
    except InputError:
        return
    assert not isinstance(processor, dict) or "cls" not in processor


def broken(raw: bytes, chance: random.Random) -> bytes:
    """Cut off, or with some bytes changed."""
    if chance.random() < 0.3:
        return raw[: chance.randrange(len(raw))]
    changed = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        changed[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(changed)


PIECES = [*CONTROLS, *WORDS, *LETTERS]


def llama2c_file() -> bytes:
    named = ((text.encode(), score) for text, score, _ in PIECES)
    return b"\5\0\0\0" + b"".join(
        struct.pack("<fi", score, len(text)) + text for text, score in named
    )


FILES: dict[str, tuple[Callable[[], bytes], Callable[[Path], Any]]] = {
    "unigram": (lambda: sentencepiece_model(PIECES), sentencepiece_alone),
    "bpe": (
        lambda: sentencepiece_model([*CONTROLS, *BYTES, *WORDS], kind=2, byte_fallback=1),
        sentencepiece_alone,
    ),
    "charsmap": (
        lambda: sentencepiece_model(PIECES, precompiled_charsmap=b"\x08\0\0\0" + b"\1" * 12),
        sentencepiece_alone,
    ),
    "llama2c": (llama2c_file, llama2c.tokenizer),
    "lines": (
        lambda: "<unk>\n</s>\nä\nb\n".encode(),
        lambda path: plain_vocabulary.tokenizers(plain_vocabulary.read_lines(path)),
    ),
    "fairseq": (
        lambda: b"the 12\ncat 3\n",
        lambda path: plain_vocabulary.tokenizers(plain_vocabulary.read_fairseq(path)),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_bytes(name: str, tmp_path: Path) -> None:
    """Either a tokenizer, or a named error: never another one, and never a stall."""
    make, open_file = FILES[name]
    chance, path, raw = random.Random(5), tmp_path / "file", make()
    refused = 0
    for _ in range(100):
        path.write_bytes(broken(raw, chance))
        try:
            for tokenizer in open_file(path).tokenizers.values():
                tokenizer.encode("the cat ä\n")
        except InputError:
            refused += 1
    assert refused
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        open_file(path)
    os.mkfifo(path)
    with pytest.raises(InputError, match="pipe"):
        open_file(path)


@pytest.mark.parametrize("key", ["tokens", "scores", "token_type", "model", "bos_token_id"])
@pytest.mark.parametrize("value", [None, 7, "x", [], [1], ["a", 5], {"a": 1}, [None] * 287, -1])
def test_odd_metadata_of_a_gguf_file(key: str, value: Any) -> None:
    metadata = gguf_llama() | {f"tokenizer.ggml.{key}": value}
    try:
        llama_cpp.tokenizer(metadata)
    except InputError:
        return
    assert key in ("bos_token_id", "scores", "token_type")


def test_changed_files_of_a_saved_tokenizer_are_refused(tmp_path: Path) -> None:
    opened().save(tmp_path)
    meta = tmp_path / "tokenizer_meta.json"
    plain = json.loads(meta.read_text("utf-8"))
    for key, value, error in (
        ("special", {"bos": 1}, TokenizerMismatchError), ("special", {"bos": "x"}, InputError),
        ("special", None, InputError), ("hidden", [0], TokenizerMismatchError),
        ("hidden", "x", InputError), ("limit", 2, TokenizerMismatchError),
        ("sha256", "0", TokenizerMismatchError), ("kind", "word", InputError),
        ("special", {"start": [9], "evil": 1}, InputError),
    ):  # fmt: skip
        meta.write_text(json.dumps(plain | {key: value}))
        with pytest.raises(error):
            Tokenizer.load(tmp_path)
    meta.write_text(json.dumps(plain))
    assert Tokenizer.load(tmp_path).encode("ab") == [2]


def test_a_text_that_is_too_long_is_named() -> None:
    with pytest.raises(InputError, match="above the limit of 1,048,576"):
        opened().encode("ab" * (1 << 20))


def test_a_frame_outside_the_vocabulary_is_named() -> None:
    special = SpecialTokens(frame=Frame((99,)))
    with pytest.raises(InputError, match=r"token 99 is set as a special token, but .* ids up to 3"):
        Tokenizer.imported(Imported(json.dumps(SPEC), special))
