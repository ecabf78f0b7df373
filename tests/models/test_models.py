"""What a user meets: the summary, the start of training, the errors of a run."""

import math

import pytest
import torch

from translucid.core.errors import ConfigError, InputError
from translucid.models import (
    GenerationInputs,
    MLPConfig,
    PerceptronConfig,
    RecurrentConfig,
    TransformerConfig,
    build,
)
from translucid.models.mlp import Perceptron
from translucid.models.recurrent import RecurrentDecoder
from translucid.models.summary import rows

LANGUAGE = {"shape": "decoder", "head": "language"}


def test_the_summary_counts_what_torch_counts() -> None:
    for config in (
        TransformerConfig(**LANGUAGE, vocab=50, d_model=16, heads=4, kv_heads=2, layers=3),
        TransformerConfig(shape="encoder-decoder", head="language", vocab=50, d_model=16, layers=2),
        TransformerConfig(**LANGUAGE, vocab=50, positions="learned", tied=False, norm="rms"),
        RecurrentConfig(shape="encoder-decoder", head="language", vocab=50, layers=2),
        RecurrentConfig(shape="encoder", head="tag", outputs=3, vocab=50, bidirectional=True),
        MLPConfig(inputs=3, hidden=(4, 4)),
        PerceptronConfig(inputs=3),
    ):
        model = build(config)
        assert sum(row.parameters for row in rows(model, 10)) == model.parameters_count
        total = f"{model.parameters_count:,}"
        assert model.summary().splitlines()[-1].split()[:2] == ["total", total]


def test_the_summary_of_768_by_12_shows_the_textbook_numbers() -> None:
    summary = build(
        TransformerConfig(**LANGUAGE, vocab=50, d_model=768, heads=12, layers=2)
    ).summary()
    (line,) = [line for line in summary.splitlines() if "qkv" in line]
    assert "Q, K, V of 12 heads, d_head 64" in line
    assert "1,769,472" in line
    assert "layers.0-1" in line


def test_flops_of_a_matrix_are_two_per_weight_and_attention_pays_per_key() -> None:
    model = build(TransformerConfig(**LANGUAGE, vocab=50, d_model=16, heads=4, layers=1))
    found = {row.part: row.flops for row in rows(model, 100)}
    assert found["decoder.layers.0.feedforward.expand"] == 2 * 16 * 64
    assert found["decoder.layers.0.self_attention pattern"] == 4 * 100 * 16
    assert found["decoder.embedding.table"] == 0  # looked up
    assert found["head.linear"] == 2 * 16 * 50  # tied: stored once, multiplied all the same


def test_an_lstm_starts_with_an_open_forget_gate_and_orthogonal_memory() -> None:
    torch.manual_seed(0)
    config = RecurrentConfig(**LANGUAGE, vocab=9, d_model=8, hidden=8, cell="lstm", forget_bias=2.0)
    decoder = build(config).get_submodule("decoder")
    assert isinstance(decoder, RecurrentDecoder)
    _, u, b, b_hidden = decoder.recurrent.weights(0, "forward")
    assert b.chunk(4)[1].eq(2.0).all()
    assert b.abs().sum() + b_hidden.abs().sum() == 16
    for block in u.chunk(4):
        torch.testing.assert_close(block @ block.T, torch.eye(8), atol=1e-5, rtol=0)


def test_a_transformer_starts_with_unit_embeddings_and_even_guesses() -> None:
    torch.manual_seed(0)
    model = build(TransformerConfig(**LANGUAGE, vocab=1000, d_model=256, layers=4, tied=False))
    ids = torch.randint(0, 1000, (8, 32))
    deviation = model.get_submodule("decoder.embedding")(ids).std().item()
    assert deviation == pytest.approx(1.0, abs=0.05)
    loss = torch.nn.functional.cross_entropy(
        model(ids).flatten(0, 1), torch.randint(0, 1000, (256,))
    )
    assert float(loss.detach()) == pytest.approx(math.log(1000), abs=0.4)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_deep_mlp_starts_with_a_signal_that_neither_dies_nor_explodes(activation: str) -> None:
    torch.manual_seed(0)
    model = build(MLPConfig(inputs=64, hidden=(64,) * 20, outputs=64, activation=activation))
    assert 0.05 < float(model(torch.randn(256, 64)).detach().std()) < 20


def test_learned_positions_end_with_a_clear_error() -> None:
    model = build(
        TransformerConfig(**LANGUAGE, vocab=9, d_model=8, positions="learned", max_length=4)
    )
    with pytest.raises(InputError, match=r"position 4 .* 3 .*max_length 4.*shorten"):
        model(torch.zeros(1, 5, dtype=torch.long))
    with pytest.raises(InputError, match="position 9"):
        model.start(GenerationInputs(1), capacity=10)
    mask = torch.tensor([[False, True, True, True, True]])
    assert model(torch.zeros(1, 5, dtype=torch.long), mask).isfinite().all()  # padding is free


def test_a_full_state_is_refused() -> None:
    model = build(TransformerConfig(**LANGUAGE, vocab=9, d_model=8))
    state = model.start(GenerationInputs(1), capacity=3)
    model.step(torch.zeros(1, 2, dtype=torch.long), state)
    with pytest.raises(InputError, match=r"3 positions.* 2 .* 2 more .*larger capacity"):
        model.step(torch.zeros(1, 2, dtype=torch.long), state)


def test_a_recurrent_state_cannot_be_rewound() -> None:
    model = build(RecurrentConfig(**LANGUAGE, vocab=9))
    with pytest.raises(InputError, match=r"recurrent state .*copy\(\)"):
        model.start(GenerationInputs(1), capacity=3).trim(0)


def test_the_perceptron_learns_linearly_separable_data_and_counts_its_mistakes() -> None:
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    model = build(PerceptronConfig(inputs=2))
    assert isinstance(model, Perceptron)
    y = torch.tensor([0, 0, 0, 1])
    mistakes = [model.learn(x, y) for _ in range(10)]
    assert mistakes[0] > 0
    assert mistakes[-1] == 0
    assert model(x).tolist() == [0, 0, 0, 1]


def test_standardise_measures_and_keeps_constant_features_finite() -> None:
    model = build(MLPConfig(inputs=2, standardise=True))
    standardise = model.get_submodule("standardise")
    x = torch.tensor([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    standardise.fit(x)
    out = standardise(x)
    torch.testing.assert_close(out.mean(dim=0), torch.zeros(2))
    torch.testing.assert_close(out[:, 0].std(correction=0), torch.tensor(1.0))
    with pytest.raises(InputError, match="NaN or infinity; remove"):
        standardise.fit(torch.tensor([[float("nan"), 1.0]]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1, 2]], "ids: got list.*torch.long"),
        (torch.zeros(1, 2), "ids: .*torch.float32.*torch.long"),
        (torch.tensor([1, 2]), r"ids has shape \(2,\); expected \(batch, length\)"),
        (torch.tensor([[1, 60]]), "ids contains 60.* 0 to 8"),
        (torch.tensor([[1, -1]]), "ids contains -1.* 0 to 8"),
    ],
)
def test_wrong_ids_are_explained(given: object, message: str) -> None:
    for shape, head, outputs in (("decoder", "language", None), ("encoder", "tag", 2)):
        config = TransformerConfig(shape=shape, head=head, outputs=outputs, vocab=9, d_model=8)
        with pytest.raises(InputError, match=message):
            build(config)(given)


def test_wrong_masks_and_targets_are_explained() -> None:
    ids = torch.zeros(1, 3, dtype=torch.long)
    model = build(TransformerConfig(**LANGUAGE, vocab=9, d_model=8))
    with pytest.raises(InputError, match=r"mask of ids .*boolean"):
        model(ids, ids)
    with pytest.raises(InputError, match=r"mask of ids .*\(1, 2\), but ids .*\(1, 3\)"):
        model(ids, torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(InputError, match=r"tokens has shape \(3,\)"):
        model.step(ids[0], model.start(GenerationInputs(1), capacity=4))
    config = TransformerConfig(
        shape="encoder-decoder", head="language", vocab=9, target_vocab=5, d_model=8
    )
    with pytest.raises(InputError, match=r"target contains 7.* 0 to 4"):
        build(config)(ids + 7, ids + 7)
    with pytest.raises(InputError, match=r"source contains 9.* 0 to 8"):
        build(config).start(GenerationInputs.of(ids + 9), capacity=3)


def test_wrong_numbers_are_explained() -> None:
    with pytest.raises(InputError, match=r"x .*\(5, 4\).* 3 inputs"):
        build(MLPConfig(inputs=3))(torch.zeros(5, 4))
    with pytest.raises(InputError, match=r"x: got list.*floating-point"):
        build(PerceptronConfig(inputs=1))([1.0])


def test_a_tagger_does_not_generate() -> None:
    config = TransformerConfig(shape="decoder", head="tag", outputs=2, vocab=9, d_model=8)
    model = build(config)
    with pytest.raises(InputError, match=r"head tag .*call model\(ids\)"):
        model.step(
            torch.zeros(1, 1, dtype=torch.long), model.start(GenerationInputs(1), capacity=2)
        )


def test_build_wants_a_config() -> None:
    with pytest.raises(ConfigError, match=r"build\(\) got 'gpt2'; .*MLPConfig"):
        build("gpt2")


def test_the_summary_of_a_perceptron_counts_its_weights() -> None:
    (row,) = rows(build(PerceptronConfig(inputs=3)), 10)
    assert (row.weights, row.vectors, row.flops) == (3, 1, 6)
