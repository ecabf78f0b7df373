"""Two runs compared, against the same numbers computed by hand."""

import numpy as np
import pytest
import torch
from tests.see.test_edits import inputs, network, run

from translucid.core.errors import InputError, UnknownPointError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import RecurrentConfig, TransformerConfig, build
from translucid.see.difference import difference
from translucid.see.pictures import Grid, Heat
from translucid.see.reading import read
from translucid.tasks.language import Language
from translucid.tasks.translate import Translate

TEXTS = ["the dog sees a cat", "a bird sees the dog"]
SUM = "decoder.layers.{}.{}_residual.sum"


def reader(**options: object) -> tuple[torch.nn.Module, Language]:
    tokenizer = Tokenizer.train("word", TEXTS)
    torch.manual_seed(0)
    sizes = {"vocab": len(tokenizer), "d_model": 8, "heads": 2, "layers": 2}
    model = build(TransformerConfig(shape="decoder", head="language", **(sizes | options)))
    return model.double().eval(), Language(tokenizer)


def test_every_point_is_compared_as_by_hand() -> None:
    model = network("translator")
    a, b = (run(model, inputs("translator", seed), keep="*")[1] for seed in (0, 1))
    found = difference(a, b)
    assert [point.name for point in found.points] == list(a)
    for point in found.points:
        x, y = (trace[point.name].double().flatten() for trace in (a, b))
        real = x.isfinite() & y.isfinite()
        x, y = x[real], y[real]
        assert point.most == pytest.approx(float((x - y).abs().max()))
        assert point.relative == pytest.approx(float((x - y).norm() / x.norm()))
        assert point.cosine == pytest.approx(float(torch.cosine_similarity(x, y, dim=0)))
    assert found.first is not None
    assert found.first.name == "encoder.embedding.lookup"
    assert found.widest == max(found.points, key=lambda point: point.relative)


def test_an_edit_differs_from_where_it_is_made_and_not_before() -> None:
    model, task = reader()
    a = read(model, task, TEXTS[0])
    b = read(model, task, TEXTS[0], edit={"decoder.layers.1.self_attention.mixed": 0.0})
    found = difference(a, b)
    assert found.first is not None
    assert found.first.name == "decoder.layers.1.self_attention.mixed"
    said = str(found).splitlines()
    assert said[0] == "first differs at decoder.layers.1.self_attention.mixed"
    before = list(a).index("decoder.layers.1.self_attention.mixed")
    assert said[2] == f"  ({before} points the same)"
    assert said[3].startswith("decoder.layers.1.self_attention.mixed")
    assert said[3].endswith("<- first") or said[3].endswith("<- first and widest")
    assert str(difference(a, a)) == f"no difference at {len(a)} points"


def test_nothing_differs_before_the_first_different_token() -> None:
    model, task = reader()
    a, b = (read(model, task, text) for text in ("the dog sees a cat", "the dog sees the cat"))
    picture = difference(a, b).picture()
    assert isinstance(picture, Heat)
    assert picture.columns.labels == ("</s>", "the", "dog", "sees", "a | the", "cat")
    assert picture.rows.labels == (
        "embedding", "with positions",
        "layer 0, after self-attention", "layer 0, after feed-forward",
        "layer 1, after self-attention", "layer 1, after feed-forward", "last norm",
    )  # fmt: skip
    assert picture.scale == "positive"
    place = 4  # of the word that differs; what stands before it cannot know
    assert not picture.values[:, :place].any()
    assert not picture.values[:2, place + 1 :].any()
    assert (picture.values[2:, place:] > 0).all()
    for row, (layer, block) in enumerate(
        [(0, "self_attention"), (0, "feedforward"), (1, "self_attention"), (1, "feedforward")], 2
    ):
        x, y = (trace[SUM.format(layer, block)][0] for trace in (a, b))
        assert np.allclose(picture.values[row], ((x - y).norm(dim=1) / x.norm(dim=1)).numpy())
    part = difference(a, b).picture(tokens=(2, 5))
    assert isinstance(part, Heat)
    assert np.array_equal(part.values, picture.values[:, 2:5])
    assert "tokens 2 to 4 of 6" in part.note


def test_a_translator_has_a_table_for_each_text_and_a_recurrent_one_its_states() -> None:
    tokenizer = Tokenizer.train("word", TEXTS)
    config = RecurrentConfig(
        shape="encoder-decoder", head="language", vocab=len(tokenizer), d_model=8, hidden=8,
        dropout=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model, task = build(config).double().eval(), Translate(tokenizer, tokenizer)
    a, b = (
        read(model, task, text, "the dog") for text in ("the dog sees a cat", "the dog a cat a")
    )
    picture = difference(a, b).picture()
    assert isinstance(picture, Grid)
    ours, theirs = picture.heats
    assert (ours.title, theirs.title) == ("encoder", "decoder")
    assert ours.rows.labels == ("embedding", "layer 0, lstm hidden")
    assert theirs.rows.labels[-1] == "after alignment"
    assert theirs.columns.labels == ("<s>", "the", "dog")
    assert not ours.values[:, :2].any()
    x, y = (trace["encoder.recurrent.layers.0.lstm.hidden"][0] for trace in (a, b))
    assert np.allclose(ours.values[1], ((x - y).norm(dim=1) / x.norm(dim=1)).numpy())
    assert ours.most == theirs.most == max(heat.values.max() for heat in picture.heats)


def test_points_that_cannot_be_compared_are_listed() -> None:
    model, task = reader()
    a = read(model, task, TEXTS[0])
    longer = read(model, task, TEXTS[0] + " a", keep=["*.scale", "*.mixed"])
    found = difference(a, longer, "decoder.layers.0.self_attention.*")
    assert [point.name for point in found.points] == ["decoder.layers.0.self_attention.scale"]
    name = "decoder.layers.0.self_attention.mixed"
    assert found.shapes == ((name, (1, 2, 6, 4), (1, 2, 7, 4)),)
    assert "decoder.layers.0.self_attention.pattern" in found.only_a
    assert difference(longer, a, "*.pattern").only_b == tuple(a.names("*.pattern"))
    said = str(found)
    assert f"not compared: {name} has shape (1, 2, 6, 4) in one run and (1, 2, 7, 4)" in said
    assert "only in the first run: decoder.layers.0.self_attention.query" in said
    with pytest.raises(InputError, match=r"same number of tokens.*_residual\.sum"):
        found.picture()
    with pytest.raises(UnknownPointError, match=r"Did you mean .*\*\.pattern"):
        difference(a, a, "*.patern")
    with pytest.raises(InputError, match=r"\(9, 3\).*6"):
        difference(a, a).picture(tokens=(9, 3))


def test_zeros_and_infinities_are_compared_too() -> None:
    model, task = reader()
    off = {"decoder.layers.0.self_attention.mixed": 0.0}
    silent, whole = (read(model, task, TEXTS[0], edit=edit) for edit in (off, None))
    points = {point.name: point for point in difference(silent, whole).points}
    mixed = points["decoder.layers.0.self_attention.mixed"]
    assert mixed.relative == float("inf")
    assert np.isnan(mixed.cosine)
    assert points["decoder.layers.0.self_attention.masked"].most == 0
    opened = {"decoder.masks.causal": torch.ones_like}
    points = {
        point.name: point
        for point in difference(whole, read(model, task, TEXTS[0], edit=opened)).points
    }
    assert points["decoder.layers.0.self_attention.masked"].most == float("inf")
    assert points["decoder.layers.0.self_attention.mask"].most == 1
