"""Tokenizers trained here: round trips, special tokens, offsets, training, errors."""

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translucid.core.errors import ConfigError, InputError
from translucid.data.tokenizers.pipelines import (
    BYTE_CHARACTERS,
    BYTE_LEVEL,
    KINDS,
    SPECIAL,
    WORDS,
    Kind,
)
from translucid.data.tokenizers.tokenizer import Tokenizer, WordPieces

CORPUS = [
    "The dog runs. The dogs don't run!",
    "Ein Hund rennt, und <pad> </s> <s> <unk> stehen im Text; </s></s> <pad><pad>",
    "<pad> <pad> <s> <s> </s> </s> <unk> <unk> </s> </s>",  # often enough to be worth a merge
    "naïve café 😀 12 345\ttab",
] * 5


# Spaces for Python, but not for Unicode, by which the library goes.
NO_SPACE = "\x1c\x1d\x1e\x1f"


def build(kind: Kind) -> Tokenizer:
    return Tokenizer.train(kind, CORPUS, 300 if kind in ("bpe", "unigram") else None)


TOKENIZERS = {kind: build(kind) for kind in KINDS}


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return TOKENIZERS[request.param]


# Text with what is dangerous in it: special tokens, letters of byte-level pieces, odd spaces.
dangerous = st.lists(
    st.one_of(
        st.text(max_size=5),
        st.sampled_from([*SPECIAL, "</", "s>", "Ġ", "Ċ", "▁", " ", "  ", "\n", "\r", "\0", "\x85"]),
        st.sampled_from(["😀", "👩‍👩‍👧", "e\u0301", "\u2028", "\ufeff", "\U0010ffff", "�", "dog"]),
    )
).map("".join)


@given(dangerous)
def test_byte_level_kinds_give_back_any_text(text: str) -> None:
    for kind in BYTE_LEVEL:
        tokenizer = TOKENIZERS[kind]
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(dangerous)
def test_text_never_produces_a_special_id(text: str) -> None:
    for kind, tokenizer in TOKENIZERS.items():
        ids = tokenizer.encode(text)
        forged = set(ids) & {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
        assert not forged
        assert kind not in BYTE_LEVEL or tokenizer.unk_id not in ids


@pytest.mark.parametrize("special", SPECIAL)
def test_a_literal_special_token_stays_text(tokenizer: Tokenizer, special: str) -> None:
    for text in (special, f"The {special}", f"{special} {special}"):
        ids = tokenizer.encode(text)
        assert len(ids) > 1 or tokenizer.kind == "space"
        assert not set(ids) & {0, 1, 2, 3}  # all of its characters and words were seen
        assert tokenizer.decode(ids) == text
    joined = tokenizer.encode(f"dog{special}{special}dog")
    assert not set(joined) & {0, 1, 2}


def test_special_ids_are_fixed(tokenizer: Tokenizer) -> None:
    ids = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id)
    assert ids == (0, 1, 2, 3)
    assert [tokenizer.vocab[token] for token in SPECIAL] == [0, 1, 2, 3]
    assert tokenizer.decode([1, 0, *tokenizer.encode("dog"), 2, 0]) == "dog"


@given(dangerous, st.lists(st.text(max_size=8)))
def test_encode_batch_equals_encode(text: str, more: list[str]) -> None:
    for tokenizer in TOKENIZERS.values():
        texts = [text, *more]
        assert tokenizer.encode_batch(texts) == [tokenizer.encode(t) for t in texts]


@given(st.text(max_size=30))
def test_decode_equals_the_library(text: str) -> None:
    for kind in BYTE_LEVEL:
        tokenizer = TOKENIZERS[kind]
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == tokenizer._backend.decode(ids)


@given(dangerous)
def test_offsets_cover_the_text_in_order(text: str) -> None:
    for kind, tokenizer in TOKENIZERS.items():
        spans = tokenizer.offsets(text)
        assert len(spans) == len(tokenizer.encode(text))
        assert all(0 <= a <= b <= len(text) for a, b in spans)
        assert spans == sorted(spans)
        if kind not in WORDS:  # words leave out what is between them
            assert {i for a, b in spans for i in range(a, b)} == set(range(len(text)))


def test_offsets_say_where_a_token_comes_from() -> None:
    text = "The dog runs"
    assert [text[a:b] for a, b in TOKENIZERS["word"].offsets(text)] == ["The", " dog", " runs"]
    assert TOKENIZERS["bytes"].offsets("é!") == [(0, 1), (0, 1), (1, 2)]
    assert TOKENIZERS["char"].offsets("é!") == [(0, 1), (1, 2)]


def test_tokens_are_readable() -> None:
    assert TOKENIZERS["word"].tokens("The dog's cat!") == ["The", "<unk>", "<unk>", "!"]
    assert TOKENIZERS["char"].tokens("dog.") == ["d", "o", "g", "."]
    assert TOKENIZERS["bytes"].tokens("aé 😀") == [
        "a", "\\xc3", "\\xa9", " ", "\\xf0", "\\x9f", "\\x98", "\\x80",
    ]  # fmt: skip
    assert "".join(TOKENIZERS["bpe"].tokens("The dog runs")) == "The dog runs"
    assert " dog" in TOKENIZERS["bpe"].tokens("The dog runs")


def test_word_tokens_are_joined_with_the_original_spaces() -> None:
    tokenizer = TOKENIZERS["word"]
    for text in ("The dogs don't run!", "Ein Hund rennt, und </s> stehen im Text;"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(" The\t\n dog  ")) == "The dog"
    assert tokenizer.decode(tokenizer.encode("The zebra runs")) == "The <unk> runs"


@pytest.mark.parametrize(("text", "as_if"), [
    ("The dogs run !", "The dogs run!"),  # the texts have "!" without a space
    ("«The» dogs-run", "« The » dogs - run"),
    ("a cat ,the dog", "a cat, the dog"),
])  # fmt: skip
def test_a_word_or_sign_is_known_with_and_without_a_space_before_it(text: str, as_if: str) -> None:
    tokenizer = Tokenizer.train("word", ["The dogs run!", "a cat, the dog - - «"])
    ids = tokenizer.encode(text)
    assert ids == tokenizer.encode(as_if)
    assert ids == tokenizer.encode_batch([text, as_if])[0]
    assert ids == tokenizer.encode_words(text.split(" "))[0]
    assert ids.count(3) == text.count("»")
    both = Tokenizer.train("word", ["run ! run!"])
    assert both.encode("run !") != both.encode("run!")  # if both are known, they are two tokens


@given(dangerous)
def test_space_splits_at_spaces_only(text: str) -> None:
    """Each word as the text has it is one token, and comes back if it was learnt."""
    plain = "".join(" " if c in NO_SPACE else c for c in text)
    words = plain.split()
    tokenizer = Tokenizer.train("space", [plain, "dog"])
    assert tokenizer.tokens(plain) == words
    assert tokenizer.decode(tokenizer.encode(plain)) == " ".join(words)
    assert TOKENIZERS["space"].encode(plain) == [
        TOKENIZERS["space"].vocab.get(f" {word}", 3) for word in words
    ]


def test_space_keeps_a_word_whole_and_the_text_as_it_was() -> None:
    tokenizer = Tokenizer.train("space", ["don't <unk> @,@ 1,000 </s> ▁x a▁b"])
    text = "don't  <unk> @,@ </s>\t▁x a▁b 1,000\n"
    assert tokenizer.tokens(text) == text.split()
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())
    assert tokenizer.tokens("x don't.") == ["<unk>", "<unk>"]
    assert tokenizer.decode(tokenizer.encode("</s> zebra x")) == "</s> <unk> <unk>"
    assert [text[a:b].strip() for a, b in tokenizer.offsets(text)] == text.split()
    assert tokenizer.encode_words(["a", "don't", "@,@"])[1] == [0, 1, 2]
    assert len(Tokenizer.train("space", ["a b c a"], 6)) == 6


def test_bytes_are_numbered_by_value() -> None:
    assert TOKENIZERS["bytes"].encode("\0A\x7fÿ") == [4, 4 + 65, 4 + 127, 4 + 0xC3, 4 + 0xBF]
    assert len(set(BYTE_CHARACTERS)) == len(TOKENIZERS["bytes"]) - 4 == 256


def test_incomplete_characters_decode_to_the_replacement_character() -> None:
    tokenizer = TOKENIZERS["bytes"]
    assert tokenizer.decode(tokenizer.encode("😀")[:2] + tokenizer.encode("a")) == "�a"


def test_unknown_rate() -> None:
    assert TOKENIZERS["word"].unknown_rate(["The dog", "The zebra"]) == 0.25
    assert TOKENIZERS["char"].unknown_rate(["ΩΩ", "do"]) == 0.5
    assert TOKENIZERS["bpe"].unknown_rate(["Ω zebra"]) == 0.0
    assert TOKENIZERS["bpe"].unknown_rate([]) == 0.0


# Words for tagging

word = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=6)


@given(st.lists(st.one_of(word, st.sampled_from(["dog", "don't", "</s>", "#1"])), min_size=1))
def test_words_have_the_ids_of_their_sentence(words: list[str]) -> None:
    for kind, tokenizer in TOKENIZERS.items():
        if kind == "word" and "▁" in "".join(words):
            continue
        ids, index = tokenizer.encode_words(words)
        assert ids == tokenizer.encode(" ".join(words))
        assert len(index) == len(ids)
        owned = [i for i in index if i is not None]
        assert owned == sorted(owned)
        assert sorted(set(owned)) == list(range(len(words)))
        if kind in BYTE_LEVEL:
            for i, word in enumerate(words):
                own = [token for token, owner in zip(ids, index, strict=True) if owner == i]
                assert tokenizer.decode(own).removeprefix(" ") == word


def test_a_space_alone_belongs_to_no_word() -> None:
    assert TOKENIZERS["char"].encode_words(["do", "g"])[1] == [0, 0, None, 1]
    assert TOKENIZERS["bytes"].encode_words(["é", "g"])[1] == [0, 0, None, 1]


def test_a_word_without_tokens_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="word 2 of 3 is ''"):
        tokenizer.encode_words(["a", "", "b"])


def test_words_are_remembered_and_read_once() -> None:
    tokenizer = Tokenizer.train("bpe", CORPUS)
    read: list[str] = []

    def encode(texts: list[str]):  # type: ignore[no-untyped-def]
        read.extend(texts)
        made = tokenizer._backend.encode_batch(texts, add_special_tokens=False)
        return [(each.ids, each) for each in made]

    pieces = WordPieces(encode, most=3)
    first = pieces.of(["New", "York", "York", "New"])
    assert read == ["New", " York", " New"]  # the first word has no space before it
    assert pieces.of(["New", "York"]) == first[:2]
    assert len(read) == 3
    pieces.of(["the"])
    pieces.of(["mat,"])  # more than three, so all are forgotten
    assert len(read) == 5
    assert pieces.of(["New", "York"]) == first[:2]
    assert len(read) == 7


# Training


def test_the_same_texts_give_the_same_tokenizer() -> None:
    # In a fresh process: the order of hash tables changes from one to the next.
    code = (
        "from tests.data.test_tokenizers import TOKENIZERS;"
        "print([t.fingerprint for t in TOKENIZERS.values()])"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert there.stdout.decode() == f"{[t.fingerprint for t in TOKENIZERS.values()]}\n"


def test_fingerprints_of_different_tokenizers_differ() -> None:
    prints = {t.fingerprint for t in TOKENIZERS.values()}
    prints.add(Tokenizer.train("bpe", CORPUS, 301).fingerprint)
    prints.add(Tokenizer.train("char", ["another alphabet"]).fingerprint)
    assert len(prints) == len(TOKENIZERS) + 2


def test_sizes() -> None:
    assert len(TOKENIZERS["bpe"]) == 300
    assert len(Tokenizer.train("bpe", CORPUS, 260)) == 260
    assert len(Tokenizer.train("word", CORPUS, 10)) == 10
    assert len(Tokenizer.train("char", ["abc", "a"])) == 7
    assert len(Tokenizer.train("char", ["abc", "a"], min_frequency=2)) == 5
    assert len(Tokenizer.train("unigram", ["a"], 300)) >= 260


def test_progress_is_reported() -> None:
    told: list[int] = []
    Tokenizer.train("char", (f"text {i}" for i in range(2500)), progress=told.append)
    assert told == [1000, 2000, 2500]


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("bep", None, "'bep'.*did you mean bpe"),
        ("wordpiece", 100, "'wordpiece'"),
        ("bpe", 259, "vocab_size = 259.*at least 260"),
        ("unigram", 0, "vocab_size = 0.*at least 260"),
        ("bytes", 8000, "vocab_size = 8000.* 260"),
        ("word", 4, "vocab_size = 4.*at least 5"),
    ],
)
def test_impossible_sizes(kind: Kind, size: int | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Tokenizer.train(kind, CORPUS, size)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_learn_from(kind: Kind) -> None:
    with pytest.raises(InputError, match="0 read"):
        Tokenizer.train(kind, [])
    if kind in ("word", "space", "char"):
        with pytest.raises(InputError, match="2 read"):
            Tokenizer.train(kind, ["", ""])


def test_errors_of_the_texts_pass_through() -> None:
    def texts() -> Iterator[str]:
        yield "fine"
        raise InputError("train.txt:2: bad")

    with pytest.raises(InputError, match=r"^train\.txt:2: bad$"):
        Tokenizer.train("bpe", texts())


# Inputs that the library must not see, and its errors


def test_texts_above_the_limit_are_refused() -> None:
    tokenizer = Tokenizer.train("bpe", CORPUS, max_bytes=100)
    assert tokenizer.encode("a" * 100)
    with pytest.raises(InputError, match=r"102 bytes.*limit of 100"):
        tokenizer.encode("é" * 51)  # bytes count, not characters
    with pytest.raises(InputError, match="text 2 has 101 bytes"):
        tokenizer.encode_batch(["a", "a" * 101])
    with pytest.raises(InputError, match="word 1 has 101 bytes"):
        tokenizer.encode_words(["a" * 101])
    with pytest.raises(InputError, match="text 2 has 101 bytes"):
        Tokenizer.train("bpe", ["a", "b" * 101], max_bytes=100)


@given(st.lists(st.text(max_size=9)))
def test_documents_of_any_size(lines: list[str]) -> None:
    text = "\n".join(lines)
    for kind in BYTE_LEVEL:
        tokenizer = TOKENIZERS[kind]
        small = Tokenizer(kind, tokenizer._backend, max_bytes=40)
        assert small.decode(small.encode_document(text)) == text
        if len(text.encode()) <= 40:
            assert small.encode_document(text) == tokenizer.encode(text)


@pytest.mark.parametrize("call", ["encode", "encode_batch", "offsets", "encode_words", "tokens"])
def test_inputs_that_are_not_text_are_refused(tokenizer: Tokenizer, call: str) -> None:
    method = getattr(tokenizer, call)
    listed = call in ("encode_batch", "encode_words")
    with pytest.raises(InputError, match="surrogate pair at character 2"):
        method(["a\ud800"] if listed else "a\ud800")
    with pytest.raises(InputError, match="int"):
        method([3] if listed else 3)


@pytest.mark.parametrize("bad", [-1, 10**6, 2**40])
def test_ids_that_do_not_exist(tokenizer: Tokenizer, bad: int) -> None:
    with pytest.raises(InputError, match=f"no token {bad}"):
        tokenizer.decode([5, bad])


class PanicException(BaseException):
    """As the library's own, which cannot be imported."""


@pytest.mark.parametrize("error", [PanicException("index out of range"), Exception("odd")])
def test_panics_become_input_errors(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    class Broken:
        def encode(self, *args: object, **options: object) -> None:
            raise error

        encode_batch = encode_batch_fast = encode

    tokenizer = Tokenizer.train("char", ["abc"])
    monkeypatch.setattr(tokenizer, "_backend", Broken())
    for call in (tokenizer.encode, tokenizer.encode_batch, tokenizer.encode_words):
        with pytest.raises(InputError, match=f"tokenizers library: {error}"):
            call("abc")


def test_an_interrupt_stays_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    tokenizer = Tokenizer.train("char", ["abc"])
    monkeypatch.setattr(tokenizer, "_backend", SimpleNamespace(encode=stop))
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode("abc")


def test_repr() -> None:
    tokenizer = TOKENIZERS["bpe"]
    assert repr(tokenizer) == f"Tokenizer(bpe, 300 tokens, {tokenizer.fingerprint[:12]})"
