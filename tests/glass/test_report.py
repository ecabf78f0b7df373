"""The demo's report: what it draws is what the trace holds, and the page stands alone."""

import re
from itertools import islice
from pathlib import Path

import pytest

from translucid.cli.demo import RECIPE
from translucid.data.toyland import Toyland
from translucid.glass import report
from translucid.training import recipe
from translucid.training.model import Model
from translucid.training.run import train_recipe

QUICK = ["training.steps=4", "training.evaluate_every=2", "training.log_every=1",
         "data.toyland=300", "model.d_model=16"]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    out = tmp_path_factory.mktemp("runs") / "demo"
    return out, Model(train_recipe(recipe.parse(RECIPE, QUICK), out, quiet=True))


def test_the_map_is_the_mean_of_the_heads_of_the_last_layer(run: tuple[Path, Model]) -> None:
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


def test_the_worked_row_adds_up(run: tuple[Path, Model]) -> None:
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


def test_the_page_stands_alone(run: tuple[Path, Model]) -> None:
    out, model = run
    sentences = list(islice(Toyland().sentences("test"), 3))
    page = report.write(out, model, sentences, {"exact_match": 0.5}, "<b>note</b>").read_text()
    assert page.count("<svg") == 4
    assert "&lt;b&gt;note" in page
    fetched = re.findall(r'(?:src|href)="(?!#|data:image/png;)[^"]*"', page)
    assert fetched == [], "the page loads something from elsewhere"
    assert "<script" not in page
