# ruff: noqa: E501
"""Hostile JSON, written by hand: whole texts, and values in configurations, tokenizers and
vocabularies.
"""

import json
from collections.abc import Callable
from typing import Any

Change = Callable[[Any], Any]


def _repeated(unit: str, size: int) -> bytes:
    return ("[" + (unit + ",") * (size // (len(unit) + 1)) + unit + "]").encode()


MB = 1 << 20
JSON_TEXTS: dict[str, Callable[[], bytes]] = {
    "6 MB of [[]]": lambda: _repeated("[[]]", 6 * MB),
    "200,000 lists": lambda: _repeated("[]", 590_000),
    "4 MB of numbers": lambda: _repeated("1", 4 * MB),
    "4 MB of keys": lambda: ("{" + ",".join(f'"{i}":1' for i in range(4 * MB // 11)) + "}").encode(),
    "a text of 4 MB": lambda: b'"' + b"a" * (4 * MB) + b'"',
    "astral characters": lambda: b'{"a": "' + "😀".encode() * MB + b'"}',
    "escapes": lambda: b'{"a": "' + b"\\ud83d" * MB + b'"}',
    "deep lists": lambda: b"[" * 200_000, "deep objects": lambda: b'{"a":' * 100_000,
    "990 deep": lambda: b"[" * 990 + b"]" * 990,
    "a number of 4,000 digits": lambda: b'{"model_type": "bert", "vocab_size": ' + b"9" * 4000 + b"}",
    "a number of 100,000 digits": lambda: b'{"a": ' + b"9" * 100_000 + b"}",
    "an exponent": lambda: b'{"model_type": "llama", "vocab_size": 1e999999}',
    "a list": lambda: b"[1, 2]", "empty": lambda: b"", "null": lambda: b"null",
    "not UTF-8": lambda: b'{"a": "\xff\xfe"}', "UTF-16": lambda: '{"a": 1}'.encode("utf-16"),
    "a mark in front": lambda: b"\xef\xbb\xbf{}", "NUL": lambda: b"\0" * 100, "two": lambda: b"{}{}",
}  # fmt: skip


def _set(**values: Any) -> Change:
    return lambda held: held | values


def _model(**values: Any) -> Change:
    return lambda held: held | {"model": held["model"] | values}


def _piece(piece: str) -> Change:
    """Replace the last piece of the vocabulary by this one."""

    def change(held: Any) -> Any:
        vocab = held["model"]["vocab"]
        if isinstance(vocab, list):
            return _model(vocab=[*vocab[:-1], [piece, -1.0]])(held)
        last = list(vocab)[-1]
        return _model(vocab={k: v for k, v in vocab.items() if k != last} | {piece: vocab[last]},
                      merges=[])(held)  # fmt: skip

    return change


def _added(*tokens: tuple[int, str]) -> Change:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    more = [{"id": i, "content": content, **flags} for i, content in tokens]
    return lambda held: held | {"added_tokens": [*(held.get("added_tokens") or []), *more]}


def _split(pattern: Any) -> Change:
    return _set(pre_tokenizer={"type": "Split", "pattern": {"Regex": pattern},
                               "behavior": "Isolated", "invert": False})  # fmt: skip


def _nested(depth: int) -> Any:
    part: Any = {"type": "Digits", "individual_digits": True}
    for _ in range(depth):
        part = {"type": "Sequence", "pretokenizers": [part]}
    return part


_BPE, _UNIGRAM = "tokenizer.json, BPE", "tokenizer.json, Unigram"
_CHANGES: dict[str, Change] = {
    **{f"a piece of {n:,} characters": _piece("b" * n) for n in (1000, 1025, 200_000, 2_000_000)},
    "a piece of 50,000 accents": _piece("e" + "\u0301" * 50_000),
    "a piece that is half a pair": _piece("\ud800"), "an empty piece": _piece(""),
    "a token with id 4,194,303": _added((4_194_303, "<far>")),
    "a token with id 1,048,575": _added((1_048_575, "<far>")),
    "a token with id 20,000": _added((20_000, "<far>")),
    "a token with id -1": _added((-1, "<far>")),
    "100,000 tokens more": _added(*((500 + i, f"<t{i}>") for i in range(100_000))),
    "5,000 tokens more": _added(*((500 + i, f"<t{i}>") for i in range(5000))),
    "a token of 1,000,000 characters": _added((500, "x" * 1_000_000)),
    "one token 50,000 times": _added(*((500, "<t>") for _ in range(50_000))),
    "an id of 4,000 digits": lambda held: held | {"added_tokens": [{"id": 10**4000, "content": "x"}]},
    **{f"pattern {pattern[:20]}": _split(pattern) for pattern in (
        "(a+)+b", r"\s*\s*\s*\s*\s*x", "a*a*a*a*a*a*b", "(ab)*(ab)*(ab)*(ab)*c", "(?:ab|ba)*(?:ab|ba)*c",
        "[^x]*[^x]*[^x]*x", "(" * 5000, "[" * 5000, "(?:" * 900 + ")" * 900, "a{1000}{1000}{1000}", "a{99999}",
        "(a{1,500}){1,500}", r"\p{L}" * 300, "(?<=a{1,99})b", "x" * 60_000, "(?i:" + "a" * 1900 + ")", "\0", "\ud800",
        "(?=(?=(?=a*)*)*)", "|" * 2000, ".*" * 900, r"\X\X\X\X*", r"(?~abc)", r"\R*\R*\R*x")},
    "a pattern that is a list": _split([1]), "sequences 100 deep": _set(pre_tokenizer=_nested(100)),
    "sequences 300 deep": _set(pre_tokenizer=_nested(300)),
    "10,000 steps": _set(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}] * 10_000}),
    "replacements that grow": _set(normalizer={"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaa"}] * 30}),
    "a replacement of nothing": _set(normalizer={"type": "Replace", "pattern": {"String": ""}, "content": "aaaaaaa"}),
    "a replacement of what is empty": _set(normalizer={"type": "Replace", "pattern": {"Regex": "x*"}, "content": "aaaaaaa"}),
    "a prefix of 1 MB": _set(normalizer={"type": "Prepend", "prepend": "a" * 1_000_000}),
    "a table of characters": _set(normalizer={"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
    "a long table of characters": _set(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAQAAP//" + "/" * 400_000}),
    "a fixed length": _set(pre_tokenizer={"type": "FixedLength", "length": 0}),
    "a length of one": _set(pre_tokenizer={"type": "FixedLength", "length": 1}),
    "a suffix of 1 MB": _model(end_of_word_suffix="x" * 1_000_000, continuing_subword_prefix="y" * 1_000_000),
    "a dropout": _model(dropout=7), "an unknown token": _model(unk_token=[1]), "unk_id": _model(unk_id=10**9),
    "a cache": _model(cache_capacity=10**18), "scores that are no numbers": _model(vocab=[["a", None]]),
    "a score of 1e999": lambda held: _model(vocab=[["a", float("inf")], ["b", float("nan")]])(held),
    "300,000 merges": _model(merges=[["a", "b"]] * 300_000), "merges as texts": _model(merges=["a"] * 10),
    "padding": _set(padding={"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}),
    "truncation": _set(truncation={"max_length": 0, "strategy": "LongestFirst", "stride": 10, "direction": "Right"}),
    "a template": _set(post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 50_000, "pair": [], "special_tokens": {"x": {"id": "x", "ids": [1], "tokens": ["x"]}}}),
    "a template of numbers": _set(post_processor={"type": "TemplateProcessing", "single": [1], "pair": 2}),
    "a decoder": _set(decoder={"type": "Strip", "content": " ", "start": 10**12, "stop": 0}),
    "WordPiece with long words": lambda held: held | {"model": {"type": "WordPiece", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 10**9}},
}  # fmt: skip
TOKENIZERS: dict[str, tuple[str, str, Change]] = {
    f"{file}: {name}": (file, "tokenizer.json", change)
    for file in (_BPE, _UNIGRAM)
    for name, change in _CHANGES.items()
}
_ODD_MAPS = (2, [1], {"a": [1]}, {"a": {"b": 1}}, {"a": "\ud800"}, {"a": "../../x"}, {"a": ""}, {"a": None},
             {"a": "config.json"}, {"a": "/dev/zero"}, {}, {f"t{i}": f"f{i}" for i in range(100_000)},
             {f"t{i}": "model-00001-of-00002.safetensors" for i in range(100_000)})  # fmt: skip
_ODD_CLASSES = (2, "x", [2], [[]], {"a": 1}, [None], ["x" * 100_000], [], True, 1.5)
_HUGE = (10**6, 10**12, 10**30, -1, 0, "x", [1], None, 1.5, True)
CONFIGS: dict[str, tuple[str, str, Change]] = {
    **{f"weight_map {i}": ("sharded safetensors", "model.safetensors.index.json", _set(weight_map=value))
       for i, value in enumerate(_ODD_MAPS)},
    **{f"{format}: architectures {i}": (format, "config.json", _set(architectures=value))
       for format in ("WordPiece, classifier", "safetensors", "Marian") for i, value in enumerate(_ODD_CLASSES)},
    **{f"{format}: {key} {i}": (format, "config.json", _set(**{key: value}))
       for format, key in (("safetensors", "n_layer"), ("safetensors", "n_positions"), ("Marian", "decoder_layers"),
                           ("WordPiece, classifier", "num_hidden_layers"), ("sentencepiece, BPE", "max_position_embeddings"),
                           ("WordPiece, classifier", "id2label"), ("sentencepiece, Unigram", "num_layers"))
       for i, value in enumerate(_HUGE)},
    **{f"added_tokens_decoder {i}": (_BPE, "tokenizer_config.json", _set(added_tokens_decoder=value))
       for i, value in enumerate(({"4194303": {"content": "x"}}, {"9" * 5000: {"content": "x"}}, {"²": {"content": "x"}},
                                  {str(300 + i): {"content": f"<{i}>"} for i in range(50_000)}, {"300": {"content": "x" * 10**6}}, [1], "x"))},
    **{f"modules.json {i}": ("sentence-transformers", "modules.json", lambda held, value=value: value)
       for i, value in enumerate(([], {}, [1], [{"type": 3}], [{"idx": 0, "name": "0", "path": "../..", "type": "x"}] * 3,
                                  [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}] * 50_000, "x", 7))},
    **{f"generation_config {i}": ("Marian", "generation_config.json", _set(**value))
       for i, value in enumerate(({"eos_token_id": list(range(100_000))}, {"bad_words_ids": [[1]] * 100_000}, {"num_beams": 10**9},
                                  {"num_beams": -1}, {"max_length": 10**12}, {"length_penalty": 1e308}, {"forced_bos_token_id": 10**9}))},
}  # fmt: skip


def _vocab_with(piece: str) -> Callable[[bytes], bytes]:
    def change(raw: bytes) -> bytes:
        vocab = json.loads(raw)
        if isinstance(vocab, list):
            return json.dumps([*vocab[:-1], piece]).encode()
        last = list(vocab)[-1]
        return json.dumps(
            {k: v for k, v in vocab.items() if k != last} | {piece: vocab[last]}
        ).encode()

    return change


_LINES: dict[str, Callable[[bytes], bytes]] = {
    "a line of 200,000 characters": lambda raw: raw.replace(b"\n", b"x" * 200_000 + b"\n", 1),
    "a line of 5 MB": lambda raw: b"y" * 5_000_000 + b" 1\n" + raw,
    "500,000 lines": lambda raw: raw + b"".join(b"x%d 1\n" % i for i in range(500_000)),
    "empty lines": lambda raw: raw + b"\n" * 10_000, "empty": lambda raw: b"",
    "NUL": lambda raw: b"\0" + raw, "not UTF-8": lambda raw: b"\xff" + raw,
    "a line twice": lambda raw: raw + raw, "no end": lambda raw: raw[:-2],
}  # fmt: skip


def _spm(piece: bytes) -> Callable[[bytes], bytes]:
    """Add a piece at the beginning of a sentencepiece model."""

    def varint(n: int) -> bytes:
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    inner = b"\x0a" + varint(len(piece)) + piece + b"\x15\0\0\0\0"
    return lambda raw: b"\x0a" + varint(len(inner)) + inner + raw


_SPM: dict[str, Callable[[bytes], bytes]] = {
    **{f"a piece of {n:,} characters": _spm(b"c" * n) for n in (1000, 1025, 200_000, 4_000_000)},
    "200,000 empty pieces": lambda raw: raw + b"\x0a\x00" * 200_000,
    "a number without an end": lambda raw: raw + b"\xff" * 100_000,
    "a field without an end": lambda raw: raw + b"\x0a\xff\xff\xff\xff\x7f",
    "unknown fields": lambda raw: raw + b"\xa0\x06\x01" * 300_000, "empty": lambda raw: b"",
}  # fmt: skip
VOCABULARIES: dict[str, tuple[str, str, Callable[[bytes], bytes]]] = {
    **{f"{format}: {file}: {name}": (format, file, change)
       for format, file in (("fairseq", "dict.en.txt"), ("JoeyNMT", "src_vocab.txt"), ("WordPiece, classifier", "vocab.txt"),
                            ("safetensors", "merges.txt"))
       for name, change in _LINES.items()},
    **{f"{format}: {file}: {name}": (format, file, change)
       for format, file in (("sentencepiece, BPE", "tokenizer.model"), ("sentencepiece, Unigram", "spiece.model"),
                            ("Marian", "source.spm"))
       for name, change in _SPM.items()},
    **{f"{format}: {file}: a piece of 200,000 characters": (format, file, _vocab_with("d" * 200_000))
       for format, file in (("Marian", "vocab.json"), ("safetensors", "vocab.json"), ("CTranslate2", "shared_vocabulary.json"))},
    "llama2.c: tokenizer.bin: a long piece": ("llama2.c", "tokenizer.bin", lambda raw: raw[:8] + (200_000).to_bytes(4, "little") + b"e" * 200_000 + raw[17:]),
    "llama2.c: tokenizer.bin: 300,000 pieces": ("llama2.c", "tokenizer.bin", lambda raw: raw + bytes(8) * 300_000),
}  # fmt: skip
