"""Tags of words: read at the right piece, as whole spans, with the right characters beside."""

import pytest
import torch
from torch import Tensor, nn

from translucid.data.batching import spell
from translucid.data.records import Tagged
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.tag import SpanDecoding, Tag

TEXTS = ["the cat sat on the mat", "don't run to New York"]
TAGS = ["O", "B-A", "I-A"]


class Told(nn.Module):
    """Says for the place of each piece in its row what it was told."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores)

    def forward(self, ids: Tensor, mask: Tensor, characters: Tensor | None = None) -> Tensor:
        return self.scores[: ids.shape[1]].expand(len(ids), -1, -1)


@pytest.mark.parametrize(("spans", "wanted"), [("legal", ["B-A", "I-A"]), ("free", ["O", "I-A"])])
def test_legal_decoding_returns_no_broken_spans(spans: SpanDecoding, wanted: list[str]) -> None:
    scores = torch.tensor([[1.0, 0.9, 0.0], [0.0, 0.0, 2.0]])
    task = Tag(Tokenizer.train("space", TEXTS), TAGS, spans=spans)
    items = [task.encode_words(["New", "York"]), task.encode(Tagged(("the", "cat"), ("O", "O"), 1))]
    assert task.predict(Told(scores), items) == [wanted, wanted]
    assert task.predict(Told(scores), [task.encode_words(["the"])]) == [["O"]]


def test_later_subwords_do_not_affect_tags() -> None:
    """By characters a word has several pieces and a space; only its first one counts."""
    task = Tag(Tokenizer.train("char", TEXTS), TAGS)
    item = task.encode_words(["at", "on"])  # a t _ o n
    assert item.firsts == [0, 3]
    scores = torch.zeros(5, 3)
    scores[0, 1] = scores[3, 2] = 1.0
    scores[[1, 2, 4], 0] = 9.0  # would end the span, if anybody asked
    assert task.predict(Told(scores), [item]) == [["B-A", "I-A"]]


def test_tags_without_spans_are_not_constrained() -> None:
    task = Tag(Tokenizer.train("space", TEXTS), ["NOUN", "I-odd"])
    assert not task.has_spans
    found = task.predict(Told(torch.tensor([[0.0, 1.0]])), [task.encode_words(["cat"])])
    assert found == [["I-odd"]]


def test_characters_are_those_of_the_word() -> None:
    words = ("don't", "zebra", "é", "x" * 30)
    for kind in ("space", "bpe", "char"):
        task = Tag(Tokenizer.train(kind, TEXTS), TAGS, characters=True)
        item = task.encode(Tagged(words, ("O",) * 4, 7))
        owners = task.tokenizer.encode_words(words)[1]
        wanted = tuple(b"" if owner is None else spell(words[owner]) for owner in owners)
        assert item.characters == wanted
        assert kind != "space" or item.characters == tuple(spell(word) for word in words)
        batch = task.collate([item, task.encode_words(["cat"])])
        assert batch.inputs["characters"].shape[:2] == batch.inputs["ids"].shape
        row = batch.inputs["characters"][0]
        assert [bytes(b - 1 for b in place if b) for place in row.tolist()] == list(wanted)
        assert task.tags[item.tags[0]] == "O"


def test_without_characters_none_are_kept() -> None:
    task = Tag(Tokenizer.train("space", TEXTS), TAGS)
    assert task.encode_words(["cat"]).characters == ()
    assert set(task.collate([task.encode_words(["cat"])]).inputs) == {"ids", "mask"}


def test_windows_keep_the_characters_of_their_words() -> None:
    task = Tag(Tokenizer.train("char", TEXTS), TAGS, characters=True)
    words = ("the", "cat", "sat", "on")
    item = task.encode(Tagged(words, ("O", "B-A", "I-A", "O"), 1))
    parts = task.split(item, 5)
    assert sum((part.characters for part in parts), ()) == item.characters
    for part in [*parts, task.shorten(item, 6)]:
        assert len(part.characters) == len(part.ids)
    assert [part.characters[part.firsts[0]] for part in parts] == [b"the", b"cat", b"sat", b"on"]
