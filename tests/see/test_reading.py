"""Figures show the numbers of the trace, with the right words beside them."""

import json

import numpy as np
import pytest
import torch
from tests.see.small import pair, reading, words

from translucid.core.errors import InputError, TraceBudgetError, UnknownPointError
from translucid.see.pictures import Bars, Grid, Heat, Lines
from translucid.see.reading import read
from translucid.see.render.drawing import Box, Cells
from translucid.tasks.words import readable

ENGLISH, GERMAN = "the dog sees a cat .", "der hund sieht eine katze ."
CROSS = "decoder.layers.1.cross_attention.pattern"


def test_a_head_is_a_table_of_the_trace():
    seen = reading("translate", ENGLISH, GERMAN)
    heat = seen.figure(CROSS, head=1)
    assert isinstance(heat, Heat)
    np.testing.assert_array_equal(heat.values, seen[CROSS][0, 1].numpy())
    assert heat.scale == "unit"
    assert heat.columns.labels == (*ENGLISH.split(), "</s>")
    steps = ["<s>", *GERMAN.split()]
    follows = [*GERMAN.split(), "</s>"]
    assert heat.rows.labels == tuple(f"{a} → {b}" for a, b in zip(steps, follows, strict=True))


def test_all_heads_of_all_layers_stand_in_order():
    seen = reading("translate", ENGLISH, GERMAN)
    grid = seen.figure("*.cross_attention.pattern")
    assert isinstance(grid, Grid)
    assert grid.columns == 2
    assert grid.title == "decoder.layers.*.cross_attention.pattern, each head"
    assert [heat.title for heat in grid.heats] == [
        f"layer {layer}, head {head}" for layer in (0, 1) for head in (0, 1)
    ]
    for number, heat in enumerate(grid.heats):
        layer, head = divmod(number, 2)
        name = f"decoder.layers.{layer}.cross_attention.pattern"
        assert heat.address == name
        np.testing.assert_array_equal(heat.values, seen[name][0, head].numpy())


def test_the_mean_over_heads():
    seen = reading("translate", ENGLISH, GERMAN)
    heat = seen.figure(CROSS, head="mean")
    assert isinstance(heat, Heat)
    np.testing.assert_allclose(heat.values, seen[CROSS][0].float().mean(0).numpy(), rtol=1e-6)


def test_known_alignments_are_framed():
    seen = reading("translate", ENGLISH, GERMAN)
    heat = seen.figure(CROSS, head=0, gold=[(1, 1), (4, 4), (3, 2)])
    assert isinstance(heat, Heat)
    assert heat.frames == ((1, 1), (4, 4), (2, 3))  # (row that writes the target, source word)


@pytest.mark.parametrize("family", ["lstm", "gru", "rnn"])
def test_gates_go_from_left_to_right(family):
    seen = reading("language", ENGLISH, family=family)
    names = seen.names(f"*.{family}.*")
    grid = seen.figure(f"*.{family}.*")
    assert isinstance(grid, Grid)
    assert grid.columns == 1
    assert len(grid.heats) == len(names)
    for name, heat in zip(names, grid.heats, strict=True):
        np.testing.assert_array_equal(heat.values, seen[name][0].T.numpy())
        assert heat.columns.labels == ("</s>", *ENGLISH.split())
        assert (heat.scale == "unit") == name.endswith("_gate")


def test_signed_tables_of_one_picture_share_their_colours():
    seen = reading("classify", ENGLISH)
    signs = set()
    for point in ("query", "key", "value", "scores", "mixed"):
        grid = seen.figure(f"encoder.layers.*.self_attention.{point}")
        assert isinstance(grid, Grid)
        together = np.concatenate([heat.values.ravel() for heat in grid.heats])
        largest = together[np.abs(together).argmax()]
        assert {heat.most for heat in grid.heats} == {abs(largest)}
        signs.add(np.sign(largest))
    assert signs == {-1, 1}  # both were met


def test_one_number_for_each_word_is_a_line():
    seen = reading("tag", ENGLISH)
    names = seen.names("encoder.layers.*norm.mean")
    lines = seen.figure("encoder.layers.*norm.mean")
    assert isinstance(lines, Lines)
    assert lines.x.labels == tuple(ENGLISH.split())
    for name, values in zip(names, lines.series.values(), strict=True):
        np.testing.assert_array_equal(values, seen[name][0, :, 0].numpy())


def test_classes_are_bars_with_their_names():
    seen = reading("classify", ENGLISH)
    bars = seen.figure("head.class_logits")
    assert isinstance(bars, Bars)
    assert bars.labels == ("bad", "good")
    np.testing.assert_array_equal(bars.values, seen["head.class_logits"][0].numpy())


def test_numbers_that_are_read_are_bars():
    seen = reading("regress", "1 2.5 -3")
    name = seen.names("*.preactivation")[0]
    bars = seen.figure(name)
    assert isinstance(bars, Bars)
    np.testing.assert_array_equal(bars.values, seen[name][0].numpy())


def test_masked_scores_show_nothing():
    seen = reading("language", ENGLISH)
    name = "decoder.layers.0.self_attention.masked"
    heat = seen.figure(name, head=0)
    assert isinstance(heat, Heat)
    np.testing.assert_array_equal(np.isnan(heat.values), torch.isinf(seen[name][0, 0]).numpy())
    assert json.loads(seen.figure(name, head=0).json())["values"][0][1] is None


def test_every_point_of_every_kind_of_model_can_be_drawn():
    for task, family in [
        ("translate", "transformer"), ("translate", "lstm"), ("classify", "gru"),
        ("tag", "transformer"), ("language", "rnn"), ("regress", ""),
    ]:  # fmt: skip
        text = "1 2 3" if task == "regress" else ENGLISH
        target = GERMAN if task == "translate" else None
        seen = reading(task, text, target, family)
        for name in seen:
            figure = seen.figure(name)
            json.loads(figure.json())
            assert figure.title


@pytest.mark.parametrize("family", ["transformer", "lstm"])
def test_long_texts_are_cut_and_say_so(family):
    long = " ".join(["dog", "cat"] * 50)
    seen = reading("language", long, family=family)
    name = seen.names("*.pattern" if family == "transformer" else "*.forget_gate")[0]
    heat = seen.figure(name, head=0)
    assert isinstance(heat, Heat)
    assert len(heat.columns.labels) == 64
    assert heat.note.startswith("tokens 0 to 63 of 101; tokens=(a, b) shows others")
    later = seen.figure(name, head=0, tokens=(60, 101))
    assert isinstance(later, Heat)
    assert later.note.startswith("tokens 60 to 100 of 101")
    whole = seen[name][0, 0] if family == "transformer" else seen[name][0].T
    rows = slice(60, 101) if family == "transformer" else slice(None)
    np.testing.assert_array_equal(later.values, whole[rows, 60:101].numpy())


def test_wide_vectors_show_the_largest_of_neighbours():
    task, network = pair("language", d_model=160, heads=2)
    seen = read(network, task, ENGLISH)
    heat = seen.figure("decoder.embedding.lookup")
    assert isinstance(heat, Heat)
    assert heat.note == "each cell is the largest of 3 of 160 values along d model"
    vectors = seen["decoder.embedding.lookup"][0].numpy()
    for row, vector in enumerate(vectors):
        for column, first in enumerate(range(0, 160, 3)):
            group = vector[first : first + 3]
            wanted = group[np.abs(group).argmax()]
            assert heat.values[row, column] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.slow
def test_a_trace_of_many_tokens_and_heads_keeps_to_its_budget():
    task, network = pair("language", d_model=48, heads=12, layers=12)
    text = " ".join(["dog"] * 511)
    with pytest.raises(TraceBudgetError, match=r"50,000,000.*fewer"):
        read(network, task, text, budget_bytes=50_000_000)
    one = "decoder.layers.7.self_attention.pattern"
    seen = read(network, task, text, keep=one, budget_bytes=12 * 512 * 512 * 8)
    assert seen.bytes == 12 * 512 * 512 * 8
    assert len(seen.figure(one).svg()) < 500_000


def test_points_that_cannot_be_drawn_are_refused():
    seen = reading("translate", ENGLISH, GERMAN)
    with pytest.raises(UnknownPointError, match=r"Did you mean head\.logits"):
        seen.figure("head.logit")
    with pytest.raises(InputError, match=r"head = 7: .*cross_attention.pattern has heads 0 to 1"):
        seen.figure(CROSS, head=7)
    with pytest.raises(InputError, match=r"tokens = \(5, 2\)"):
        seen.figure(CROSS, tokens=(5, 2))
    with pytest.raises(InputError, match=r"tokens = \(200, 300\): the text has tokens 0 to 6"):
        seen.figure(CROSS, tokens=(200, 300))
    with pytest.raises(InputError, match="tokens = 5"):
        seen.figure(CROSS, tokens=5)
    with pytest.raises(InputError, match="head = 'max'"):
        seen.figure(CROSS, head="max")
    with pytest.raises(InputError, match=r"nowhere.x\.svg: .*folder nowhere"):
        seen.figure(CROSS).save("nowhere/x.svg")
    with pytest.raises(UnknownPointError, match=r"Points end in .*, pattern, .*"):
        reading_kept(keep="*.qqq")
    with pytest.raises(InputError, match=r"x\.gif.* \.svg, \.png, \.pdf"):
        seen.figure(CROSS).save("x.gif")


def reading_kept(keep):
    task, network = pair("translate")
    return read(network, task, ENGLISH, GERMAN, keep=keep)


@pytest.mark.slow
def test_a_sign_that_the_font_lacks_is_no_warning():
    seen = reading("classify", "the \N{DOG FACE} sees a cat .")
    assert "\N{DOG FACE}" in seen.figure("encoder.embedding.lookup").svg()
    seen.figure("encoder.embedding.lookup").png()  # warnings are errors here


@pytest.mark.slow
def test_files_are_written_and_the_same_each_time(tmp_path):
    figure = reading("translate", ENGLISH, GERMAN).figure(CROSS)
    for ending in (".svg", ".png", ".pdf"):
        first = figure.save(tmp_path / f"a{ending}").read_bytes()
        assert first == figure.save(tmp_path / f"b{ending}").read_bytes()
    assert "katze" in (tmp_path / "a.svg").read_text("utf-8")


def test_pieces_of_words_are_tied_and_blanks_are_seen():
    source, _ = words("bpe")
    ids = source.encode("the catbird")
    labels = readable(source, ids)
    assert "".join(label.removeprefix("·") for label in labels) == "thecatbird"
    assert [label.startswith("·") for label in labels].count(False) == 2
    letters, _ = words("char")
    assert readable(letters, letters.encode("a b")) == ("a", "␣", "b")


def test_an_unknown_word_is_shown_as_it_was_written():
    seen = reading("classify", "the zebra sleeps .")
    assert seen.words.source == ("<s>", "the", "zebra", "sleeps", ".", "</s>")


def test_bad_targets_are_refused():
    with pytest.raises(InputError, match="label 'fine': the model knows bad, good"):
        reading("classify", ENGLISH, "fine")
    with pytest.raises(InputError, match="2 tags for 6 words"):
        reading("tag", ENGLISH, "O O")
    with pytest.raises(InputError, match="tag 'X': the model knows O, B-PER, I-PER"):
        reading("tag", "dog", "X")
    with pytest.raises(InputError, match="task language"):
        reading("language", ENGLISH, GERMAN)
    with pytest.raises(InputError, match="commas or spaces"):
        reading("regress", "one two")


def test_frames_are_drawn_where_row_meets_column():
    seen = reading("translate", ENGLISH, GERMAN)
    drawing = seen.figure(CROSS, head=0, gold=[(3, 2)]).drawing()
    (frame,) = [mark for mark in drawing.marks if isinstance(mark, Box)]
    cells = next(mark for mark in drawing.marks if isinstance(mark, Cells))
    assert frame.stroke == "mark"
    assert (frame.x + frame.width / 2 - cells.x) / cells.width == pytest.approx(3.5)
    assert (frame.y + frame.height / 2 - cells.y) / cells.height == pytest.approx(2.5)
