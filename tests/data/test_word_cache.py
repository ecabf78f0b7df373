"""Looking words up gives what the tokenizer gives, for every kind and any text."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from translucid.core.errors import InputError
from translucid.data.corpus.encode import WordCache
from translucid.data.tokenizers.pipelines import KINDS
from translucid.data.tokenizers.tokenizer import Tokenizer

LEARNT = ["the cat's mat, a straße", "über▁all\n don't \t they'll 42 x_1", "a   b    c \n  d"] * 5
SPACES = " \n\t\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2003\u200b\u2028\u2029\u202f\u3000"
awkward = st.sampled_from(
    [*SPACES, *"   ", "  ", "   ", "'", "'s", "'ll", "▁", "</s>", "the", "cat", "é", "\u0301",
     "9", "_"]
)  # fmt: skip
text = st.lists(awkward | st.characters(exclude_categories=["Cs"]), max_size=20).map("".join)


@pytest.fixture(scope="module")
def tokenizers() -> list[Tokenizer]:
    sizes = {"bpe": 300, "unigram": 300}
    return [Tokenizer.train(kind, LEARNT, sizes.get(kind)) for kind in KINDS]


@pytest.mark.slow
@hypothesis_settings(max_examples=60)
@given(st.lists(st.lists(text, max_size=5), max_size=4), st.integers(0, 20))
def test_cache_equals_the_tokenizer(tokenizers, batches: list[list[str]], most: int) -> None:
    for tokenizer in tokenizers:
        memory = WordCache(tokenizer, most)
        for batch in [*batches, *batches]:
            assert memory.encode_batch(batch) == tokenizer.encode_batch(batch)


def test_each_word_is_encoded_once(tokenizers, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizers[0]
    memory = WordCache(tokenizer)
    seen: list[str] = []
    encode = tokenizer.encode_batch

    def watch(texts: list[str]) -> list[list[int]]:
        seen.extend(texts)
        return encode(texts)

    monkeypatch.setattr(tokenizer, "encode_batch", watch)
    long = "x" * 100
    for _ in range(3):
        memory.encode_batch(["the cat the cat", f"the {long}"])
    assert sorted(seen) == sorted(["the", " the", " cat", *[f" {long}"] * 3])  # rare ones not kept
    assert long not in str(memory._known)


def test_number_of_remembered_words_is_bounded(tokenizers) -> None:
    memory = WordCache(tokenizers[0], most=100)
    for number in range(0, 3000, 10):
        memory.encode_batch([" ".join(map(str, range(number, number + 10)))])
        assert len(memory._known) <= 110


def test_texts_above_the_limit_are_refused(tokenizers) -> None:
    small = Tokenizer("bpe", tokenizers[0]._backend, max_bytes=40)
    assert WordCache(small).encode_batch(["é" * 20]) == small.encode_batch(["é" * 20])
    for much in ("a b " * 11, "é " * 14):
        with pytest.raises(InputError, match="limit of 40"):
            WordCache(small).encode_batch([much])
