"""An extended tokenizer cuts what it knew as before, and its new words are one token each."""

from pathlib import Path

import pytest
from tests.interop.encoders import write_word_pieces

from translucid.core.errors import InputError
from translucid.data.tokenizers.extended import extended
from translucid.data.tokenizers.imported import Imported
from translucid.data.tokenizers.special_tokens import OURS
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers import read_tokenizers

OLD = ["the dog sleeps in the house", "the cat runs over the wall", "a dog and a cat"] * 3
NEW = ["Zygomorphy of the abcdefghabc in the house", "the cat met Zygomorphy, abcdefghabc"] * 4
KNOWN = ("the dog runs", "a cat sleeps over a wall")


def made(kind: str, folder: Path) -> Tokenizer:
    if kind == "wordpiece":
        write_word_pieces(folder)
        return read_tokenizers(folder).tokenizers["tokenizer"]
    base, _, form = kind.partition(" ")
    size = {"bpe": 290, "unigram": 290}.get(base)
    own = Tokenizer.train(base, OLD, size)  # type: ignore[arg-type]
    return own if not form else Tokenizer.imported(Imported(own.spec, OURS))


KINDS = ("bpe", "unigram", "word", "space", "bpe imported", "unigram imported", "wordpiece")


@pytest.mark.parametrize("kind", KINDS)
def test_new_words_are_one_token_and_the_rest_is_as_before(kind: str, tmp_path: Path) -> None:
    old = made(kind, tmp_path)
    extension = extended(old, NEW)
    new = extension.tokenizer
    assert list(new.vocab)[: len(old)] == list(old.vocab)
    assert len(new) == len(old) + len(extension.parts) > len(old)
    for text in KNOWN:
        assert new.encode(text) == old.encode(text)
    before = len(new.encode("the"))
    for word in ("Zygomorphy", "abcdefghabc"):
        (one,) = new.encode(f"the {word}")[before:]
        assert one >= len(old)
        assert extension.parts[one - len(old)] == old.encode(f"the {word}")[before:]
        if old.unk_id not in old.encode(word):
            assert new.decode([one]).strip() == word
    new.save(tmp_path / "saved")
    again = Tokenizer.load(tmp_path / "saved", expect=new.fingerprint)
    assert again.encode(NEW[0]) == new.encode(NEW[0])


def test_bytes_have_nothing_to_learn() -> None:
    old = Tokenizer.train("bytes", OLD)
    assert extended(old, NEW).tokenizer is old


def test_what_cannot_be_extended_is_refused() -> None:
    own = Tokenizer.train("bpe", OLD, 290)
    limited = Tokenizer.imported(Imported(own.spec, OURS, tokens=280))
    with pytest.raises(InputError, match="cannot be extended"):
        extended(limited, NEW)
