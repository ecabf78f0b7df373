"""Words that were met before have the ids of words that are met for the first time."""

import random

import pytest

from translucid.data.tokenizers.pipelines import KINDS
from translucid.data.tokenizers.tokenizer import Tokenizer, WordPieces

CORPUS = ["the cat's mat, a straße", "über don't they'll 42 x_1", "New York at on"] * 5
WORDS = [
    "the",
    "cat's",
    "mat,",
    "straße",
    "New",
    "York",
    "tea",
    "ü",
    "42",
    "x",
    "unseen-word",
    "🙂",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_has_the_ids_of_its_words_joined_however_often_they_came(kind: str) -> None:
    tokenizer = Tokenizer.train(kind, CORPUS)
    chance = random.Random(0)
    for _ in range(60):
        words = chance.choices(WORDS, k=chance.randint(1, 9))
        ids, owners = tokenizer.encode_words(words)
        assert ids == tokenizer.encode(" ".join(words))
        fresh = Tokenizer.train(kind, CORPUS) if len(words) == 9 else None
        assert fresh is None or fresh.encode_words(words) == (ids, owners)
        assert [w for w in dict.fromkeys(owners) if w is not None] == list(range(len(words)))


def test_few_are_remembered_and_each_is_read_once_until_then() -> None:
    tokenizer = Tokenizer.train("bpe", CORPUS)
    read: list[str] = []

    def encode(texts: list[str]):  # type: ignore[no-untyped-def]
        read.extend(texts)
        return tokenizer._backend.encode_batch(texts, add_special_tokens=False)

    pieces = WordPieces(encode, most=3)
    first = pieces.of(["New", "York", "York", "New"])
    assert read == ["New", " York", " New"]  # at the beginning no space stands before it
    assert pieces.of(["New", "York"]) == first[:2]
    assert len(read) == 3
    pieces.of(["the"])
    pieces.of(["mat,"])  # there were more than three: all are forgotten
    assert len(read) == 5
    assert pieces.of(["New", "York"]) == first[:2]
    assert len(read) == 7
