"""Models that read characters: what they refuse, how they start, what they cost."""

import pytest
import torch

from translucid.core.errors import ConfigError, InputError
from translucid.models import Network, RecurrentConfig, TransformerConfig, build
from translucid.models.summary import rows

TAGS = {"shape": "encoder", "head": "tag", "outputs": 3, "vocab": 9, "d_model": 8}
IDS = torch.tensor([[4, 5, 6]])
CHARACTERS = torch.tensor([[[98, 99], [100, 0], [0, 0]]])


def tagger(**options: object) -> Network:
    torch.manual_seed(0)
    return build(RecurrentConfig(hidden=8, **(TAGS | {"characters": 4} | options)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"shape": "decoder", "head": "language", "outputs": None, "characters": 4},
            "characters = 4: only an encoder with head tag reads characters, not decoder with ",
        ),
        ({"head": "classify", "characters": 4}, "not encoder with head classify; leave it out"),
        ({"characters": -1}, "characters = -1: input should be greater than or equal to 0"),
        ({"word_dropout": 1.0}, r"word_dropout = 1.0: input should be less than 1"),
        (
            {"shape": "decoder", "word_dropout": 0.1},
            "word_dropout = 0.1 is for shape encoder, not decoder; leave it out",
        ),
    ],
)
def test_what_cannot_be_built(options: dict[str, object], message: str) -> None:
    for config in (RecurrentConfig, TransformerConfig):
        with pytest.raises(ConfigError, match=message):
            config(**(TAGS | options))


@pytest.mark.parametrize(
    ("characters", "message"),
    [
        (
            None,
            r"characters: this model reads the characters of each word; give characters=, a tensor",
        ),
        ([[1]], r"characters: list was given; give a tensor of whole numbers"),
        (
            torch.zeros(1, 3, 2),
            r"characters: torch.float32 was given; give a tensor of whole numbers",
        ),
        (
            CHARACTERS[:, :2],
            r"characters has shape \(1, 2, 2\), but ids \(1, 3\); give \(batch, length",
        ),
        (CHARACTERS[..., :0], r"characters has shape \(1, 3, 0\).* at least one character wide"),
        (IDS, r"characters has shape \(1, 3\), but ids \(1, 3\)"),
        (CHARACTERS + 200, r"characters holds 300, but a byte b is b \+ 1: 1 to 256"),
        (CHARACTERS - 1, r"characters holds -1, but"),
    ],
)
def test_wrong_characters_are_explained(characters: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tagger()(IDS, characters=characters)


def test_characters_that_nobody_reads_are_refused() -> None:
    with pytest.raises(InputError, match="characters were given, but this model reads none"):
        tagger(characters=0)(IDS, characters=CHARACTERS)


def test_the_same_unknown_word_is_told_apart_by_its_characters() -> None:
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


def test_characters_start_at_the_size_that_words_have_or_more() -> None:
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
