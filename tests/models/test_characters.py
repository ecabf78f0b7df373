"""Models that read characters: what they refuse, how they start, what they cost."""

import pytest
import torch

from translucid.core.errors import InputError
from translucid.models import Network, RecurrentConfig, TransformerConfig, build
from translucid.models.summary import rows

TAGS = {"shape": "encoder", "head": "tag", "outputs": 3, "vocab": 9, "d_model": 8}
IDS = torch.tensor([[4, 5, 6]])
CHARACTERS = torch.tensor([[[98, 99], [100, 0], [0, 0]]])


def tagger(**options: object) -> Network:
    torch.manual_seed(0)
    return build(RecurrentConfig(hidden=8, **(TAGS | {"characters": 4} | options)))


@pytest.mark.parametrize(
    ("characters", "message"),
    [
        (None, r"characters=.* b \+ 1"),
        ([[1]], "characters: .*list.*torch.long"),
        (torch.zeros(1, 3, 2), "characters: got torch.float32.*torch.long"),
        (CHARACTERS[:, :2], r"\(1, 2, 2\), but ids .*\(1, 3\).*\(batch, length, characters\)"),
        (CHARACTERS[..., :0], r"\(1, 3, 0\).* at least one character"),
        (IDS, r"characters .*\(1, 3\), but ids .*\(1, 3\)"),
        (CHARACTERS + 200, "characters .*300.* 0 to 256"),
        (CHARACTERS - 1, "characters .*-1"),
    ],
)
def test_wrong_characters_are_explained(characters: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tagger()(IDS, characters=characters)


def test_a_model_without_character_features_refuses_characters() -> None:
    with pytest.raises(InputError, match=r"characters.*omit characters"):
        tagger(characters=0)(IDS, characters=CHARACTERS)


def test_characters_distinguish_unknown_words() -> None:
    for model in (tagger().eval(), build(TransformerConfig(**TAGS, characters=4)).eval()):
        one = model(IDS, characters=CHARACTERS)
        assert torch.equal(model(IDS, characters=CHARACTERS), one)
        assert not torch.allclose(model(IDS, characters=CHARACTERS.flip(-1)), one)


def test_word_dropout_is_for_training_only() -> None:
    model = tagger(dropout=0.0, word_dropout=0.9, characters=0)
    hidden = torch.full_like(IDS, 3)
    torch.manual_seed(0)
    logits = [model.train()(IDS) for _ in range(60)]
    assert any(torch.equal(each, model(hidden)) for each in logits)
    assert torch.equal(model.eval()(IDS), model(IDS))
    assert not torch.equal(model(IDS), model(hidden))


def test_character_vectors_start_at_the_size_of_embeddings() -> None:
    torch.manual_seed(0)
    characters = torch.randint(1, 257, (20, 20, 6))
    options = TAGS | {"vocab": 500, "d_model": 256, "characters": 128, "dropout": 0.0}
    for config in (RecurrentConfig(**options), TransformerConfig(**options)):
        encoder = build(config).get_submodule("encoder")
        said = encoder.characters(characters).detach()
        assert 0.2 < float(said.std()) < 2
        assert encoder.characters.filters.bias.abs().sum() == 0


def test_the_summary_counts_the_filters_once_for_each_window() -> None:
    model = tagger(characters=4)
    found = {row.part: row for row in rows(model, 10)}
    filters = found["encoder.characters.filters"]
    assert (filters.weights, filters.vectors) == (4 * 48 * 3, 4)
    assert filters.flops == 2 * 4 * 48 * 3 * (5 + 2)
    assert filters.shape == "4 x 144, 7 windows of a usual word"
    assert found["encoder.characters.table"].flops == 0
    assert sum(row.parameters for row in rows(model, 10)) == model.parameters_count
