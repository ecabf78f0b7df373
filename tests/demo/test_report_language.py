"""The report of the language demo, and the guesses it is compared with."""

import math

import pytest
from tests.demo.pages import check_stands_alone
from tests.demo.small_runs import Run, small_run

from translucid.data.records import Text
from translucid.demo.report import baselines
from translucid.demo.report import language as report

TEXT = "The dog sleeps."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tmp_path_factory, "language", "model.d_model=8", "model.heads=2")


def test_expectations_are_the_largest_of_the_traced_probabilities(run: Run) -> None:
    model = run[1]
    found = report.expectations(model, TEXT, top=3)
    rows = model.trace(TEXT)["head.logits"][0].softmax(dim=-1)
    ids = [*model.task.tokenizer.encode(TEXT), model.task.tokenizer.eos_id]
    assert [each.read for each in found] == ["", "The", "dog", "sleeps", "."]
    assert [each.came for each in found] == ["The", "dog", "sleeps", ".", "(end)"]
    for each, row, came in zip(found, rows, ids, strict=True):
        assert each.probabilities == pytest.approx(row.sort(descending=True).values[:3].tolist())
        assert each.came_probability == pytest.approx(float(row[came]))
        if each.came in each.words:
            place = each.words.index(each.came)
            assert each.probabilities[place] == pytest.approx(each.came_probability)


def test_what_came_multiplies_to_the_perplexity(run: Run) -> None:
    """The same numbers by the way of the score."""
    model = run[1]
    found = report.expectations(model, TEXT)
    nats = -sum(math.log(each.came_probability) for each in found)
    score = model.task.evaluate(model.network, [model.task.encode(Text(TEXT, 1))])
    assert math.exp(nats / len(found)) == pytest.approx(score.numbers["perplexity"], rel=1e-4)


def test_a_text_begins_as_the_texts_of_training_did(run: Run) -> None:
    """Between two texts of a row stands one token; a prompt and a trace start after the same."""
    model = run[1]
    task = model.task
    first, second = (task.encode(Text(text, 1)) for text in (TEXT, "I wait."))
    (row,) = task.rows([Text(TEXT, 1), Text("I wait.", 2)], 64)
    assert row.ids == [*first.ids, *second.ids]
    start = model.trace(TEXT)["decoder.embedding.lookup"][0, 0]
    table = model.network.decoder.embedding.table.weight
    assert start.tolist() == table[row.ids[len(first.ids)]].tolist()


def test_agreement_reads_both_forms_after_the_whole_text(run: Run) -> None:
    model = run[1]
    found = report.agreement(model, "The dogs")
    last = model.trace("The dogs")["head.logits"][0, -1].softmax(dim=-1)
    both = [float(last[model.task.tokenizer.encode(f"The {form}")[-1]]) for form in ("is", "are")]
    assert [found.singular, found.plural] == pytest.approx(both)
    assert both[0] != both[1]


def test_guesses_by_hand(run: Run) -> None:
    """Three texts of known words; the counts and the one added are worked out here."""
    task = run[1].task
    training = [Text("the dog", 1), Text("the dog", 2), Text("the cat", 3)]
    held_out = [task.encode(Text("the cat", 1))]
    vocab = len(task.tokenizer)
    found = baselines.guesses(task, training, held_out)
    assert found.uniform == vocab
    # 9 targets: the (3), dog (2), cat (1), end (3); of them the test has the, cat, end.
    the, cat, end = (4 / (9 + vocab), 2 / (9 + vocab), 4 / (9 + vocab))
    assert found.unigram == pytest.approx((the * cat * end) ** (-1 / 3))
    after = ((3 + the) / 4, (1 + cat) / 4, (1 + end) / 2)  # end -> the, the -> cat, cat -> end
    assert found.bigram == pytest.approx(math.prod(after) ** (-1 / 3))


def test_the_page_stands_alone(run: Run) -> None:
    out, model, _ = run
    compared = baselines.Guesses(9.0, 5.0, 3.0)
    path = report.write(out, model, [TEXT], {"perplexity": 2.0}, compared)
    check_stands_alone(path, figures=1 + 1 + 1)
