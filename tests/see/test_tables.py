"""Tables of positions against the formulas of their papers, neighbours against all cosines."""

import math

import numpy as np
import pytest
from tests.see import small_readings as small

from translucid.core.errors import InputError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import MLPConfig, TransformerConfig, build
from translucid.models.base import EncoderDecoderModel
from translucid.models.ensemble import Ensemble
from translucid.see.embeddings import neighbours, position_gram, position_table


def sinusoid(position: int, dimension: int, d_model: int) -> float:
    angle = position / 10000 ** (2 * (dimension // 2) / d_model)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


def test_sinusoidal_is_sines_and_cosines() -> None:
    heat = position_table(small.transformer("language"), 70)
    wanted = [[sinusoid(p, i, 8) for i in range(8)] for p in range(70)]
    np.testing.assert_allclose(heat.values, wanted, atol=1e-12)
    assert heat.rows.labels == tuple(map(str, range(70)))
    assert heat.columns.labels == tuple(map(str, range(8)))
    assert heat.note == ""


def test_the_table_is_what_the_model_adds() -> None:
    for positions in ("sinusoidal", "learned"):
        network = small.transformer("translate", positions=positions)
        reading = small.reading_of("translate", network)
        for side, scope in (("source", "encoder"), ("target", "decoder")):
            added = reading[f"{scope}.positions.encoding"][0].numpy()
            heat = position_table(network, len(added), side=side)
            np.testing.assert_array_equal(heat.values, added)


def test_sides_of_a_translator_have_tables_of_their_own() -> None:
    network = small.transformer("translate", positions="learned")
    assert isinstance(network, EncoderDecoderModel)
    for side, stack in (("source", network.encoder), ("target", network.decoder)):
        table = stack.positions.table.detach().numpy()
        heat = position_table(network, 1000 // 2, side=side)
        np.testing.assert_array_equal(heat.values, table)
        assert "40 learned positions" in heat.note
        np.testing.assert_allclose(
            position_gram(network, 9, side=side).values, table[:9] @ table[:9].T, rtol=1e-12
        )


def test_of_a_wide_table_pairs_are_chosen_evenly() -> None:
    heat = position_table(small.transformer("language", d_model=256), 5)
    chosen = [int(label) for label in heat.columns.labels]
    assert chosen[:6] == [0, 1, 8, 9, 16, 17]
    assert len(chosen) == 64
    wanted = [[sinusoid(p, i, 256) for i in chosen] for p in range(5)]
    np.testing.assert_allclose(heat.values, wanted, atol=1e-12)
    assert heat.note == "64 of 256 dimensions are shown, evenly chosen"


def test_the_gram_of_sinusoids_is_a_sum_of_cosines() -> None:
    heat = position_gram(small.transformer("language"), 12)
    wanted = [
        [sum(math.cos((p - q) / 10000 ** (i / 8)) for i in (0, 2, 4, 6)) for q in range(12)]
        for p in range(12)
    ]
    np.testing.assert_allclose(heat.values, wanted, atol=1e-12)
    assert heat.title == "Dot product of the vectors of two positions"


def test_rotary_shows_turns() -> None:
    network = small.transformer(
        "language", positions="rotary", rotary_base=50.0, rotary_scaling=2.0, d_model=16
    )
    table, gram = position_table(network, 9), position_gram(network, 9)
    turns = [50 ** (-2 * i / 8) for i in range(4)]  # d_head = 8
    wanted = [[math.cos(p / 2 * turn) for turn in turns] for p in range(9)]
    np.testing.assert_allclose(table.values, wanted, atol=1e-12)
    assert table.columns.labels == ("0", "1", "2", "3")
    assert table.note == ""
    between = [
        [sum(math.cos((p - q) / 2 * turn) for turn in turns) / 4 for q in range(9)]
        for p in range(9)
    ]
    np.testing.assert_allclose(gram.values, between, atol=1e-12)
    assert "Mean cosine of the rotations" in gram.title


def test_alibi_shows_what_heads_take_off() -> None:
    network = build(TransformerConfig(**small.SHAPES["language"], heads=4, positions="alibi"))
    heat = position_table(network, 9)
    wanted = [[-(2.0 ** (-8 * (h + 1) / 4)) * far for far in range(9)] for h in range(4)]
    np.testing.assert_allclose(heat.values, wanted, rtol=1e-12)
    assert (heat.rows.name, heat.columns.name) == ("head", "distance")
    with pytest.raises(InputError, match=r"alibi.*position_table"):
        position_gram(network)


@pytest.mark.parametrize("family", [small.transformer, small.recurrent])
@pytest.mark.parametrize("side", ["source", "target"])
def test_neighbours_are_those_of_all_cosines(family, side) -> None:
    network = family("translate")
    tokenizer, word = (small.SOURCE, "dog") if side == "source" else (small.TARGET, "Hund")
    stack = network.encoder if side == "source" else network.decoder
    table = stack.embedding.table.weight.detach().numpy()
    (own,) = tokenizer.encode(word)
    cosines = {
        tokenizer.pieces([i])[0]: float(
            table[i]
            @ table[own]
            / math.sqrt(table[i] @ table[i])
            / math.sqrt(table[own] @ table[own])
        )
        for i in range(len(table))
        if i != own
    }
    best = sorted(cosines, key=cosines.__getitem__, reverse=True)
    for k in (1, 8, 1000):
        bars = neighbours(network, tokenizer, word, k, side=side)
        assert bars.labels == tuple(best[:k])
        np.testing.assert_allclose(bars.values, [cosines[name] for name in best[:k]], rtol=1e-9)
        assert word in bars.title
        assert bars.note == f"{min(k, len(best))} of {len(best)} other words"
    assert bars.marked == ()


def test_a_word_is_rather_sought_within_a_text() -> None:
    tokenizer = Tokenizer.train("bpe", ["the dog and the dog", "dogs"] * 4, vocab_size=275)
    config = TransformerConfig(**{**small.SHAPES["language"], "vocab": len(tokenizer)}, d_model=8)
    network = small.random(config)
    table = network.decoder.embedding.table.weight.detach().numpy()
    lengths = np.sqrt((table**2).sum(-1))
    for word, spelling, note in (
        ("dog", " dog", "different token"),
        ("dogs", "dogs", "other words"),
    ):
        (number,) = tokenizer.encode(spelling)
        assert len(tokenizer.encode(f" {word}")) == (1 if word == "dog" else 2)
        cosines = np.delete(table @ table[number] / lengths / lengths[number], number)
        bars = neighbours(network, tokenizer, word, 400)
        np.testing.assert_allclose(bars.values, np.sort(cosines)[::-1], rtol=1e-9)
        assert len(set(bars.labels)) == len(tokenizer) - 1  # what looks alike is told apart
        assert bars.note.endswith(note)
    with pytest.raises(InputError, match=r"'dogthe' is 2 tokens \(dog, ·the\); choose one of them"):
        neighbours(network, tokenizer, "dogthe")


def test_impossible_requests_are_refused() -> None:
    language, translate = small.transformer("language"), small.transformer("translate")
    ensemble = small.transformer("language", ensemble_size=2)
    assert isinstance(ensemble, Ensemble)
    for show in (position_table, position_gram):
        with pytest.raises(InputError, match=r"positions = none"):
            show(small.transformer("language", positions="none"))
        with pytest.raises(InputError, match="recurrent"):
            show(small.recurrent("language"))
        with pytest.raises(InputError, match=r"length = 0.*between 1 and 512"):
            show(language, 0)
        with pytest.raises(InputError, match="'target'"):
            show(language, side="target")
        with pytest.raises(InputError, match=r"side = 'left'.*source or target"):
            show(translate, side="left")
        with pytest.raises(InputError, match=r"every member of an ensemble has .* pass one of"):
            show(ensemble)
        with pytest.raises(InputError, match="reads numbers"):
            show(build(MLPConfig(inputs=2, hidden=(3,), outputs=1)))
    with pytest.raises(InputError, match=r"'dof' is not in the model's vocabulary; .* know.* dog"):
        neighbours(language, small.SOURCE, "dof")
    with pytest.raises(InputError, match=r"'xyzzy' is not in the model's .*; try a different word"):
        neighbours(language, small.SOURCE, "xyzzy")
    with pytest.raises(InputError, match=r"'old dog' is 2 tokens \(old, dog\); choose one of them"):
        neighbours(language, small.SOURCE, "old dog")
    with pytest.raises(InputError, match="''"):
        neighbours(language, small.SOURCE, "")
    with pytest.raises(InputError, match=r"12 embedding rows.*13 tokens"):
        neighbours(translate, small.TARGET, "Hund")
    with pytest.raises(InputError, match="k = 0"):
        neighbours(language, small.SOURCE, "dog", 0)
