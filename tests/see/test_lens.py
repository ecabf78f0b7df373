"""The lens ends in what the model says; before that, it is the same head on an earlier stream."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from tests.see import small_readings as small

from translucid.core.errors import InputError, UnknownPointError
from translucid.see.lens import lens
from translucid.see.predictions import likeliest
from translucid.see.reading import Reading, read
from translucid.tasks.tag import Tag

NORMS_AND_PLACES = list(product(("layer", "rms", "batch", "none"), ("pre", "post")))
TAGGED = ("O", "B-A", "O", "B-A", "I-A")
ODD: dict[str, tuple[str, dict[str, Any]]] = {
    "not tied": ("language", {"tied": False}),
    "no added positions": ("translate", {"positions": "rotary"}),
    "fewer decoder layers": ("translate", {"decoder_layers": 1}),
    "one table": ("translate", {"tied": True, "positions": "learned"}),
    "ensemble that writes": ("language", {"ensemble_size": 3}),
    "ensemble that tags": ("tag", {"ensemble_size": 2}),
}


def check_last_row(reading: Reading) -> None:
    heat, said = lens(reading), small.say(reading).exp().numpy()
    np.testing.assert_allclose(heat.values[-1], said.max(axis=-1), rtol=1e-12)
    ranked = likeliest(reading, 1)
    assert heat.texts[-1] == tuple(text.rpartition(" ")[0] for (text,) in ranked.texts)
    assert {at for row, at in heat.frames if row == len(heat.values) - 1} == {
        row for row, _ in ranked.frames
    }


@pytest.mark.parametrize(("norm", "placement"), NORMS_AND_PLACES)
@pytest.mark.parametrize("task", ["translate", "language", "tag"])
def test_the_last_row_is_the_prediction_of_the_model(task: str, norm: str, placement: str) -> None:
    network = small.transformer(task, norm=norm, placement=placement)
    check_last_row(small.reading_of(task, network))


@pytest.mark.parametrize("case", ODD)
def test_the_last_row_is_the_prediction_of_unusual_models(case: str) -> None:
    task, options = ODD[case]
    check_last_row(small.reading_of(task, small.transformer(task, **options)))


@pytest.mark.parametrize("pooling", ["mean", "last", "first", "attention"])
@pytest.mark.parametrize(
    "options",
    [{}, {"ngram_features": 7}, {"ensemble_size": 2}, {"ensemble_size": 2, "ngram_features": 5}],
)
def test_a_classifier_ends_in_its_classes(pooling: str, options: dict[str, int]) -> None:
    network = small.transformer("classify", pooling=pooling, **options)
    reading = small.reading_of("classify", network)
    heat = lens(reading)
    np.testing.assert_allclose(heat.values[-1], small.say(reading).exp().numpy(), rtol=1e-12)
    assert heat.values.sum(axis=1) == pytest.approx(1)
    assert heat.columns.labels == tuple(small.LABELS)
    best = heat.values.argmax(axis=1)
    assert heat.frames == tuple((row, 2) for row in range(3) if best[row] == 2)


@pytest.mark.parametrize(("norm", "placement"), NORMS_AND_PLACES)
@pytest.mark.parametrize("task", ["translate", "language", "tag", "classify"])
def test_each_row_is_the_model_with_its_later_layers_taken_out(
    task: str, norm: str, placement: str
) -> None:
    reading = small.reading_of(task, small.transformer(task, norm=norm, placement=placement))
    values = lens(reading).values
    stack = reading.network.get_submodule("encoder" if task in ("tag", "classify") else "decoder")
    layers = list(stack.layers)
    assert len(values) == len(layers) + 1
    for depth in range(len(layers) + 1):
        stack.layers = torch.nn.ModuleList(layers[:depth])
        said = small.say(reading).exp().numpy()
        stack.layers = torch.nn.ModuleList(layers)
        wanted = said if task == "classify" else said.max(axis=-1)
        np.testing.assert_allclose(values[depth], wanted, rtol=1e-12)


def test_rows_and_columns_have_names() -> None:
    heat = lens(small.reading_of("translate"))
    assert heat.rows.labels == ("embedding", "layer 0", "layer 1")
    assert heat.columns.labels[2] == "Hund → sieht"
    assert lens(small.reading_of("tag")).columns.labels == ("the", "dog", "sees", "a", "cat")


def test_frames_mark_right_first_predictions() -> None:
    for task in ("translate", "language", "tag"):
        reading = small.reading_of(task)
        heat = lens(reading)
        follows = reading.words.follows or TAGGED
        assert set(heat.frames) == {
            (row, at)
            for row, line in enumerate(heat.texts)
            for at, word in enumerate(line)
            if word == follows[at]
        }


def test_several_words_in_a_cell() -> None:
    reading = small.reading_of("language")
    one, three, ranked = lens(reading), lens(reading, 3), likeliest(reading, 3)
    np.testing.assert_array_equal(one.values, three.values)
    assert one.frames == three.frames
    assert three.texts[-1] == tuple(
        " / ".join(text.rpartition(" ")[0] for text in row) for row in ranked.texts
    )
    assert len(lens(reading, 1000).texts[0][0].split(" / ")) == len(small.SOURCE)


def test_characters_are_part_of_the_embedding() -> None:
    network, task = (
        small.transformer("tag", characters=5),
        Tag(small.SOURCE, small.TAGS, characters=True),
    )
    check_last_row(read(network, task, "the dog sees a cat"))


def test_an_edit_is_seen_from_its_layer_on() -> None:
    network = small.transformer("language")
    plain = lens(small.reading_of("language", network)).values
    off = {"decoder.layers.1.feedforward_residual.branch": 0.0}
    reading = small.reading_of("language", network, edit=off)
    edited = lens(reading).values
    np.testing.assert_array_equal(edited[:2], plain[:2])
    wanted = reading["head.logits"][0].softmax(dim=-1).amax(dim=-1).numpy()
    np.testing.assert_allclose(edited[2], wanted, rtol=1e-12)
    assert not np.allclose(edited[2], plain[2])


def test_tokens_selects_a_window_of_a_long_text() -> None:
    reading = read(small.transformer("language"), small.TASKS["language"], "the dog runs " * 30)
    heat, whole = lens(reading, tokens=(60, 70)), small.say(reading).exp().amax(dim=-1).numpy()
    np.testing.assert_allclose(heat.values[-1], whole[60:70], rtol=1e-12)
    assert heat.columns.labels == reading.words.steps[60:70]
    assert heat.note.endswith("; tokens 60 to 69 of 91; tokens=(a, b) shows others")
    assert lens(reading).values.shape == (3, 64)


def test_subword_labels_depend_on_the_token_before() -> None:
    reading = small.reading_in_pieces()
    whole, some = lens(reading, 1000), lens(reading, 1000, tokens=(1, 3))
    for row in range(2):
        for at, cell in enumerate(whole.texts[row]):
            assert ("·h" in cell.split(" / ")) == (at > 0)
        assert some.texts[row] == whole.texts[row][1:3]


def test_the_lens_does_not_change_the_model() -> None:
    network = small.transformer("language", norm="batch")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    lens(small.reading_of("language", network))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(InputError, match="Transformer"):
        lens(small.reading_of("language", small.recurrent("language")))
    with pytest.raises(InputError, match="k = -1"):
        lens(small.reading_of("language"), -1)
    with pytest.raises(InputError, match=r"network\.eval\(\)"):
        lens(small.reading_of("language", small.transformer("language").train()))
    with pytest.raises(UnknownPointError, match=r"not kept.*keep"):
        lens(small.reading_of("language", keep="head.logits"))
