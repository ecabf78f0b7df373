"""Labels of words on subwords, and spans of characters."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translucid.core.errors import InputError
from translucid.data.spans import Span, chunks, first_subwords, split_words, tag_spans
from translucid.data.tokenizers.tokenizer import Tokenizer

word = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=6)
TOKENIZERS = [Tokenizer.train(kind, ["a dog, a 😀 cat"] * 3) for kind in ("bpe", "char", "word")]


@given(st.lists(word, min_size=1))
def test_every_word_has_a_first_subword(words: list[str]) -> None:
    for tokenizer in TOKENIZERS:
        if tokenizer.kind == "word" and "▁" in "".join(words):
            continue
        ids, index = tokenizer.encode_words(words)
        assert len(index) == len(ids)
        firsts = first_subwords(index)
        assert [index[place] for place in firsts] == list(range(len(words)))
        assert all(word not in index[:place] for word, place in enumerate(firsts))


@given(st.text())
def test_split_words_leave_out_spaces_only(text: str) -> None:
    places = split_words(text)
    assert "".join(text[a:b] for a, b in places) == re.sub(r"\s", "", text)
    assert all(a < b for a, b in places)


def test_split_words() -> None:
    text = "Don't stop, Dr. Müller!"
    words = [text[a:b] for a, b in split_words(text)]
    assert words == ["Don't", "stop", ",", "Dr", ".", "Müller", "!"]


@given(st.lists(st.tuples(st.sampled_from(["O", "X", "Y"]), st.integers(1, 3))))
def test_chunks_are_what_was_tagged(plan: list[tuple[str, int]]) -> None:
    bio: list[str] = []
    bioes: list[str] = []
    expected = []
    for label, length in plan:
        if label == "O":
            bio += ["O"] * length
            bioes += ["O"] * length
            continue
        expected.append((len(bio), len(bio) + length, label))
        bio += [f"B-{label}"] + [f"I-{label}"] * (length - 1)
        inner = [f"B-{label}"] + [f"I-{label}"] * (length - 2) + [f"E-{label}"]
        bioes += [f"S-{label}"] if length == 1 else inner
    assert chunks(bio) == expected
    assert chunks(bioes) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("I-X I-X O", [(0, 2, "X")]),  # conlleval: an I- that continues nothing opens a chunk
        ("B-X I-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("B-X B-X", [(0, 1, "X"), (1, 2, "X")]),
        ("O E-X I-X", [(1, 2, "X"), (2, 3, "X")]),
        ("B-a-b I-a-b", [(0, 2, "a-b")]),
        ("", []),
    ],
)
def test_odd_tags(tags: str, expected: list[tuple[int, int, str]]) -> None:
    assert chunks(tags.split()) == expected


def test_tags_come_back_as_characters() -> None:
    text = "Ada Lovelace met Babbage."
    tags = ["B-PER", "I-PER", "O", "B-PER", "O"]
    assert tag_spans(text, split_words(text), tags) == [
        Span(0, 12, "PER", "Ada Lovelace"),
        Span(17, 24, "PER", "Babbage"),
    ]
    assert tag_spans("a b", [(0, 1), (2, 3)], ["DET", "NOUN"]) == [
        Span(0, 1, "DET", "a"),
        Span(2, 3, "NOUN", "b"),
    ]
    with pytest.raises(InputError, match="1 tags for 2 words"):
        tag_spans("a b", [(0, 1), (2, 3)], ["O"])
