"""Words as characters."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from translucid.data.batching import MAX_BYTES, pad_characters, spell
from translucid.parts.characters import NUMBERS

words = st.lists(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4), max_size=4
)


@given(words)
def test_every_character_is_in_its_place(rows: list[list[str]]) -> None:
    padded = pad_characters([[spell(word) for word in row] for row in rows])
    assert padded.dtype == torch.long
    assert padded.dim() == 3
    assert padded.shape[2] >= 1
    assert not padded.numel() or int(padded.max()) < NUMBERS
    for row, texts in zip(padded.tolist(), rows, strict=True):
        for place, characters in enumerate(row):
            word = spell(texts[place]) if place < len(texts) else b""
            assert bytes(character - 1 for character in characters if character) == word
            assert characters == sorted(
                characters, key=lambda character: character == 0
            )  # padding comes last


def test_of_a_long_word_beginning_and_end_are_kept() -> None:
    word = "ab" + "x" * 50 + "yz"
    assert spell(word) == b"ab" + b"x" * 16 + b"yz"
    assert len(spell(word)) == MAX_BYTES
    assert spell("x" * MAX_BYTES) == b"x" * MAX_BYTES
    assert spell("é") == b"\xc3\xa9"
