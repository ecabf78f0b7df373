"""N-gram features against a sum written out word by word."""

import pytest
import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.parts.ngrams import NGramFeatures, make_ngram_features

IDS = torch.tensor([[4, 5, 6, 5], [0, 4, 0, 5], [7, 0, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0]]).bool()


@pytest.fixture
def part() -> NGramFeatures:
    torch.manual_seed(0)
    part = NGramFeatures(8, 13, 3, dropout=0.4).double().eval()
    for table in (part.words, part.pairs):
        torch.nn.init.normal_(table.weight)
    return part


def by_hand(part: NGramFeatures, words: list[int]) -> Tensor:
    total, before = torch.zeros(3, dtype=torch.float64), 0
    for word in words:
        total = total + part.words.weight[word]
        total = total + part.pairs.weight[(before * 1000003 + word * 7919) % 13]
        before = word
    return total


def test_every_word_and_every_pair_of_neighbours_counts_once(part: NGramFeatures) -> None:
    """Padding on either side or in between is neither a word nor a neighbour."""
    logits = torch.randn(3, 3, dtype=torch.float64)
    found = part(logits, IDS, MASK)
    texts = [row[mask].tolist() for row, mask in zip(IDS, MASK, strict=True)]
    expected = logits + torch.stack([by_hand(part, text) for text in texts])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(part(logits[:1], IDS[:1], None), expected[:1])


def test_the_order_of_words_counts(part: NGramFeatures) -> None:
    nothing = torch.zeros(1, 3, dtype=torch.float64)
    assert not torch.allclose(part(nothing, IDS[:1], None), part(nothing, IDS[:1].flip(1), None))


def test_in_training_a_position_keeps_both_features_or_neither(part: NGramFeatures) -> None:
    nothing = torch.zeros(1, 3, dtype=torch.float64)
    trace = Trace()
    part(nothing, IDS[:1], None, trace)
    added = (trace["words"] + trace["pairs"])[0] / 0.6  # (length, outputs)
    possible = [
        sum((added[t] for t in range(4) if kept >> t & 1), torch.zeros(3, dtype=torch.float64))
        for kept in range(16)
    ]
    torch.manual_seed(0)
    seen = set()
    for _ in range(40):
        found = part.train()(nothing, IDS[:1], None)[0]
        near = [n for n, each in enumerate(possible) if torch.allclose(found, each)]
        assert len(near) == 1
        seen.add(near[0])
    assert len(seen) > 5


def test_features_start_at_zero() -> None:
    logits = torch.randn(3, 3)
    assert torch.equal(NGramFeatures(8, 13, 3)(logits, IDS, MASK), logits)
    assert make_ngram_features(8, 0, 3, 0.1) is None
