"""Classifiers with n-gram features: what they refuse, and that the features are added."""

import pytest
import torch

from translucid.core.errors import ConfigError
from translucid.core.trace import Trace
from translucid.models import RecurrentConfig, TransformerConfig, build
from translucid.parts.embedding import Tokens

LABELS = {"shape": "encoder", "head": "classify", "outputs": 3, "vocab": 9, "d_model": 8}
IDS = torch.tensor([[4, 5, 6], [7, 8, 0]])


@pytest.mark.parametrize("config", [RecurrentConfig, TransformerConfig])
def test_only_a_classifier_has_ngram_features(config: type) -> None:
    with pytest.raises(
        ConfigError,
        match="ngram_features = 5: only an encoder with head classify has them, not encoder ",
    ):
        config(**LABELS | {"head": "tag", "ngram_features": 5})
    with pytest.raises(ConfigError, match="ngram_features = -1: input should be greater than or"):
        config(**LABELS, ngram_features=-1)


@pytest.mark.parametrize("config", [RecurrentConfig, TransformerConfig])
def test_features_are_added_to_what_the_network_says(config: type) -> None:
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


def test_a_share_of_weights_is_below_one() -> None:
    with pytest.raises(ConfigError, match=r"weight_dropout = 1.0: input should be less than 1"):
        RecurrentConfig(**LABELS, weight_dropout=1.0)


def test_dropout_of_a_model_is_locked_where_it_is_told() -> None:
    torch.manual_seed(0)
    options = LABELS | {"dropout": 0.5, "hidden": 8}
    for locked in (False, True):
        encoder = build(RecurrentConfig(**options, locked_dropout=locked)).get_submodule("encoder")
        tokens = Tokens(torch.full((4, 6), 5))
        hidden = encoder(tokens).outputs == 0  # (batch, length, hidden)
        assert torch.equal(hidden, hidden[:, :1].expand_as(hidden)) == locked
