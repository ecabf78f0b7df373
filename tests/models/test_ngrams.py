"""Classifiers with n-gram features."""

import pytest
import torch

from translucid.core.trace import Trace
from translucid.models import RecurrentConfig, TransformerConfig, build
from translucid.parts.embedding import Tokens

LABELS = {"shape": "encoder", "head": "classify", "outputs": 3, "vocab": 9, "d_model": 8}
IDS = torch.tensor([[4, 5, 6], [7, 8, 0]])


@pytest.mark.parametrize("config", [RecurrentConfig, TransformerConfig])
def test_features_are_added_to_the_logits(config: type) -> None:
    torch.manual_seed(0)
    model = build(config(**LABELS, ngram_features=5)).eval()
    for table in (model.ngrams.words, model.ngrams.pairs):
        torch.nn.init.normal_(table.weight)
    trace = Trace()
    logits = model(IDS, IDS > 0, trace=trace)
    added = (trace["ngrams.words"] + trace["ngrams.pairs"]) * (IDS > 0)[..., None]
    torch.testing.assert_close(logits, trace["head.class_logits"] + added.sum(dim=1))
    torch.testing.assert_close(logits[1:], model(IDS[1:, :2]))


def test_hidden_words_still_have_features() -> None:
    """Word dropout takes a word from the network, not its features."""
    torch.manual_seed(0)
    model = build(
        RecurrentConfig(**LABELS, ngram_features=5, dropout=0.0, word_dropout=0.9)
    ).train()
    torch.nn.init.normal_(model.ngrams.words.weight)
    trace = Trace()
    model(IDS, IDS > 0, trace=trace)
    assert torch.equal(trace["ngrams.words"], model.ngrams.words(IDS))


def test_locked_dropout_is_the_same_at_all_positions() -> None:
    torch.manual_seed(0)
    options = LABELS | {"dropout": 0.5, "hidden": 8}
    for locked in (False, True):
        encoder = build(RecurrentConfig(**options, locked_dropout=locked)).get_submodule("encoder")
        tokens = Tokens(torch.full((4, 6), 5))
        hidden = encoder(tokens).outputs == 0  # (batch, length, hidden)
        assert torch.equal(hidden, hidden[:, :1].expand_as(hidden)) == locked
