"""The report of the translation demo: what it draws is what the trace holds."""

from itertools import islice

import pytest
from tests.demo.pages import check_stands_alone
from tests.demo.small_runs import Run, small_run

from translucid.demo.report import page, pictures
from translucid.demo.report import translate as report
from translucid.toyland import Toyland


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tmp_path_factory, "translate", "model.d_model=16")


def test_the_map_is_the_mean_of_the_heads_of_the_last_layer(run: Run) -> None:
    sentence = next(iter(Toyland().sentences("test")))
    found = report.attention_map(run[1], sentence)
    trace = run[1].trace(sentence.source, sentence.target)
    pattern = trace["decoder.layers.1.cross_attention.pattern"][0].mean(dim=0)
    assert found.target == list(sentence.german)
    assert found.source == list(sentence.english)
    for t, row in enumerate(found.weights):
        assert row == pytest.approx(pattern[t, : len(row)].tolist())
    assert 0 <= report.hits(found) <= 1


def test_hits_count_the_words_that_look_where_they_should() -> None:
    weights = [[0.9, 0.1, 0.0], [0.2, 0.1, 0.7], [0.4, 0.3, 0.3]]
    gold = frozenset({(0, 0), (1, 1)})  # the third word is linked to nothing
    found = report.AttentionMap(["a", "b", "c"], ["x", "y", "z"], weights, gold)
    assert report.hits(found) == 0.5


def test_the_gold_alignment_is_framed_where_target_meets_source() -> None:
    found = report.AttentionMap(["a", "b", "c"], ["x", "y"], [[0.1] * 3] * 2, frozenset({(2, 1)}))
    assert report.draw_map(found).frames == ((1, 2),)  # row of the target word, then source


def test_the_worked_row_adds_up(run: Run) -> None:
    sentence = next(iter(Toyland().sentences("test")))
    row = report.worked_row(run[1], sentence)
    trace = run[1].trace(sentence.source, sentence.target)
    pattern = trace["decoder.layers.1.cross_attention.pattern"][0]  # (heads, queries, keys)
    place = sentence.german.index(row.writes)
    assert row.weights == pytest.approx(pattern[row.head, place].tolist(), abs=1e-6)
    words = [t for t, word in enumerate(sentence.german) if word.isalpha()]
    sharpest = pattern[:, words].amax(dim=-1).min().item()
    assert max(row.weights) == pytest.approx(sharpest, abs=1e-6)
    assert row.total == pytest.approx(sum(row.exponentials), abs=1e-5)
    assert sum(row.weights) == pytest.approx(1, abs=1e-5)
    for exponential, weight in zip(row.exponentials, row.weights, strict=True):
        assert weight == pytest.approx(exponential / row.total, abs=1e-6)
    assert len(row.source) == len(row.weights)


def test_the_curves_are_those_of_the_journal(run: Run) -> None:
    curves = pictures.read_curves(run[0], "exact_match")
    assert [step for step, _ in curves.loss] == [1, 2, 3, 4]
    assert [step for step, _ in curves.valid] == [2, 4]
    assert curves.valid[-1][1] == run[1].facts["valid"]["exact_match"]


def test_the_page_stands_alone(run: Run) -> None:
    sentences = list(islice(Toyland().sentences("test"), 3))
    path = report.write(run[0], run[1], sentences, {"exact_match": 0.5}, ["<b>note</b>"])
    text = check_stands_alone(path, figures=4)
    assert "&lt;b&gt;note" in text


def test_text_is_escaped() -> None:
    assert page.table([["<i>"]], ["<b>"]).count("&lt;") == 2
    assert "<i>" not in page.section("<i>", "<i>")


def test_dollar_signs_are_no_formula() -> None:
    drawn = pictures.heat_map([[0.5]], ["$^$"], ["$_$"])  # as a formula, neither can be set
    assert page.figure(drawn).startswith("<figure><svg")
