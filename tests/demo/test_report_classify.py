"""The report of the classification demo, and the bag of words it is compared with."""

import pytest
import torch
from tests.demo.pages import check_stands_alone
from tests.demo.small_runs import Run, small_run

from translucid.data.records import Labelled
from translucid.demo.report import baselines
from translucid.demo.report import classify as report
from translucid.recipe.examples import load_examples

TEXT = "The food was not bad."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tmp_path_factory, "classify", "model.d_model=8", "model.hidden=6")


def test_the_last_point_of_the_reading_is_the_verdict(run: Run) -> None:
    found = report.reading(run[1], TEXT)
    (verdict,) = run[1].classify([TEXT])
    assert found.words == ["The", "food", "was", "not", "bad", "."]
    assert max(found.probabilities[-1]) == pytest.approx(verdict.probability, abs=1e-6)
    assert (
        found.labels[found.probabilities[-1].index(max(found.probabilities[-1]))] == verdict.label
    )


def test_each_point_of_the_reading_is_the_verdict_on_the_words_so_far(run: Run) -> None:
    found = report.reading(run[1], TEXT)
    beginnings = ["", "The", "The food", "The food was", "The food was not", "The food was not bad"]
    assert len(found.probabilities) == len(beginnings) + 1
    for text, row in zip(beginnings, found.probabilities, strict=False):
        logits = run[1].trace(text)["head.class_logits"][0]
        assert row == pytest.approx(logits.softmax(dim=-1).tolist(), abs=1e-6)


def test_confusion_counts_every_text_once_in_the_row_of_its_label(run: Run) -> None:
    texts = ["The food was bad.", "The dog sleeps.", "The wine was good.", "I wait."]
    labels = ["negative", "neutral", "positive", "neutral"]
    records = [Labelled(*each, line) for line, each in enumerate(zip(texts, labels, strict=True))]
    found = report.confusion(run[1], records)
    said = [answer.label for answer in run[1].classify(texts)]
    for row, right in enumerate(found.labels):
        for column, given in enumerate(found.labels):
            pairs = zip(labels, said, strict=True)
            assert found.counts[row][column] == sum(pair == (right, given) for pair in pairs)
    assert [sum(row) for row in found.counts] == [1, 2, 1]


def test_a_bag_of_words_is_blind_to_order() -> None:
    bag = baselines.BagOfWords(vocab=9, labels=3)
    one, other = torch.tensor([[3, 5, 7, 2]]), torch.tensor([[7, 3, 2, 5]])
    assert torch.allclose(bag(one), bag(other), atol=1e-6)
    assert not torch.allclose(bag(one), bag(torch.tensor([[3, 5, 7, 4]])), atol=1e-6)


def test_a_bag_of_words_learns_what_words_tell_and_no_more(run: Run) -> None:
    _, model, recipe = run
    longer = recipe.model_copy(
        update={"training": recipe.training.model_copy(update={"steps": 60})}
    )
    words = [("good wine", "positive"), ("bad wine", "negative"), ("wine", "neutral")]
    order = [("not good but bad", "positive"), ("not bad but good", "negative")]
    for texts, wanted in ((words, {1.0}), (order, {0.0, 0.5, 1.0})):
        records = [Labelled(text, label, 1) for text, label in texts] * 10
        found = baselines.bag_of_words_accuracy(model.task, records, records, longer)
        assert found in wanted
    rows = [model.task.encode(record).ids for record in records[:2]]
    assert sorted(rows[0]) == sorted(rows[1]), "the two differ in order only"


def test_the_page_stands_alone(run: Run) -> None:
    out, model, recipe = run
    records = load_examples(recipe, lambda line: None).test
    path = report.write(out, model, records, [TEXT, "A <b> word"], {"accuracy": 0.5}, 0.25)
    text = check_stands_alone(path, figures=1 + 1 + 2)
    assert "0.25" in text
