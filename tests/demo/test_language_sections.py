"""What the demos on sentences draw are the model's own numbers."""

import math

import numpy as np
import pytest
import torch
from tests.demo.small_runs import Run, small_run

from translucid.data.records import Labelled, Text
from translucid.data.toyland import Toyland
from translucid.demo import baselines
from translucid.demo.language_sections import (
    agreement,
    confusion,
    evidence,
    tag_map,
    tag_sections,
    word_by_word,
)

NAMES = "Anna sees Peter in Rome."
FOOD = "The food was not bad."


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tmp_path_factory, "tag", "model.d_model=8", "model.hidden=6")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tmp_path_factory, "classify", "model.d_model=8", "model.hidden=6")


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tmp_path_factory, "language", "model.d_model=8", "model.heads=2")


# ---- tagging ----


def test_the_map_is_the_softmax_of_the_traced_logits(tagger: Run) -> None:
    heat = tag_map(tagger[1], NAMES)
    logits = tagger[1].trace(NAMES)["head.logits"][0]  # (words, tags)
    assert heat.columns.labels == ("Anna", "sees", "Peter", "in", "Rome", ".")
    assert heat.rows.labels == ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    for tag, row in zip(heat.rows.labels, heat.values, strict=True):
        column = tagger[1].task.tags.index(tag)
        assert row == pytest.approx(logits.softmax(dim=-1)[:, column].tolist(), abs=1e-6)


def test_the_right_tags_are_framed(tagger: Run) -> None:
    heat = tag_map(tagger[1], "Anna sleeps .", ["B-PER", "O", "O"])
    assert heat.frames == ((5, 0), (0, 1), (0, 2))


@pytest.mark.slow
def test_with_subwords_a_word_has_the_tag_of_its_first(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    sizes = ("model.d_model=8", "model.hidden=6", "tokenizer.kind=bpe", "tokenizer.vocab_size=300")
    model = small_run(tmp_path_factory, "tag", *sizes)[1]
    heat = tag_map(model, NAMES)
    logits = model.trace(NAMES)["head.logits"][0].softmax(dim=-1)
    firsts = model.task.encode_words(heat.columns.labels).firsts
    assert len(firsts) == len(heat.columns.labels) < len(logits)
    assert heat.values[0] == pytest.approx(logits[firsts, 0].tolist(), abs=1e-6)


def test_the_evidence_of_both_directions_and_the_bias_is_the_logit_difference(tagger: Run) -> None:
    terms = evidence(tagger[1], NAMES)
    assert terms is not None
    assert list(terms.terms) == ["forward", "backward", "bias"]
    logits = tagger[1].trace(NAMES)["head.logits"][0]
    tags = tagger[1].task.tags
    assert terms.heat().values.sum(0) == pytest.approx(
        [float(best - second) for best, second in logits.topk(2).values], abs=1e-5
    )
    for word, row in enumerate(logits):
        assert terms.chosen[word] == tags[int(row.argmax())]
        assert terms.rival[word] != terms.chosen[word]


def test_the_term_of_a_direction_comes_from_that_directions_cell(tagger: Run) -> None:
    """The head is linear, and its first columns read the state of the forward cell."""
    terms = evidence(tagger[1], NAMES)
    assert terms is not None
    trace, tags = tagger[1].trace(NAMES), tagger[1].task.tags
    weight = tagger[1].network.head.linear.weight.detach()
    for direction, columns in {"forward": slice(0, 6), "backward": slice(6, 12)}.items():
        states = trace[f"encoder.recurrent.layers.0.{direction}.lstm.hidden"][0]  # (words, 6)
        for word, (chosen, rival) in enumerate(zip(terms.chosen, terms.rival, strict=True)):
            difference = weight[tags.index(chosen)] - weight[tags.index(rival)]
            wanted = float(difference[columns] @ states[word])
            assert terms.terms[direction][word] == pytest.approx(wanted, abs=1e-5)


def test_a_transformer_reads_in_no_direction(tmp_path_factory: pytest.TempPathFactory) -> None:
    sizes = ("model.kind=transformer", "model.d_model=8", "model.heads=2", "model.layers=2")
    model = small_run(tmp_path_factory, "tag", *sizes)[1]
    assert evidence(model, NAMES) is None
    sentence = next(iter(Toyland().sentences("test")))
    assert [part.title for part in tag_sections(model, [sentence], [NAMES, " "])] == [
        "How sure it is of each tag"
    ]


# ---- classification ----


def test_each_point_is_the_prediction_for_the_tokens_so_far(classifier: Run) -> None:
    model = classifier[1]
    lines = word_by_word(model, FOOD)
    assert lines.x.labels == ("(start)", "The", "food", "was", "not", "bad", ".")
    prefixes = ["", "The", "The food", "The food was", "The food was not", "The food was not bad"]
    rows = np.array(list(lines.series.values())).T  # (tokens + 1, labels)
    for text, row in zip([*prefixes, FOOD], rows, strict=True):
        logits = model.trace(text)["head.class_logits"][0]
        assert row == pytest.approx(logits.softmax(dim=-1).tolist(), abs=1e-6)
    (answer,) = model.classify([FOOD])
    assert lines.series[answer.label][-1] == pytest.approx(answer.probability, abs=1e-6)


def test_confusion_counts_every_text_once_in_the_row_of_its_label(classifier: Run) -> None:
    texts = ["The food was bad.", "The dog sleeps.", "The wine was good.", "I wait."]
    labels = ["negative", "neutral", "positive", "neutral"]
    records = [Labelled(*pair, line) for line, pair in enumerate(zip(texts, labels, strict=True))]
    heat = confusion(classifier[1], records)
    predicted = [answer.label for answer in classifier[1].classify(texts)]
    for row, right in enumerate(heat.rows.labels):
        for column, label in enumerate(heat.columns.labels):
            pairs = zip(labels, predicted, strict=True)
            assert heat.values[row, column] == sum(pair == (right, label) for pair in pairs)
            assert heat.texts[row][column] == f"{heat.values[row, column]:.0f}"
    assert heat.values.sum(1).tolist() == [1, 2, 1]


def test_a_bag_of_words_is_blind_to_order() -> None:
    bag = baselines.BagOfWords(vocab=9, labels=3)
    one, other = torch.tensor([[3, 5, 7, 2]]), torch.tensor([[7, 3, 2, 5]])
    assert torch.allclose(bag(one), bag(other), atol=1e-6)
    assert not torch.allclose(bag(one), bag(torch.tensor([[3, 5, 7, 4]])), atol=1e-6)


def test_a_bag_of_words_learns_what_words_tell_and_no_more(classifier: Run) -> None:
    _, model, recipe = classifier
    longer = recipe.model_copy(
        update={"training": recipe.training.model_copy(update={"steps": 60})}
    )
    words = [("good wine", "positive"), ("bad wine", "negative"), ("wine", "neutral")]
    order = [("not good but bad", "positive"), ("not bad but good", "negative")]
    for texts, wanted in ((words, {1.0}), (order, {0.0, 0.5, 1.0})):
        records = [Labelled(text, label, 1) for text, label in texts] * 10
        assert baselines.bag_of_words_accuracy(model.task, records, records, longer) in wanted
    rows = [model.task.encode(record).ids for record in records[:2]]
    assert sorted(rows[0]) == sorted(rows[1]), "the two differ in order only"


# ---- language modelling ----


def test_a_text_begins_as_the_texts_of_training_did(language: Run) -> None:
    """Between two texts of a row stands one token; a prompt and a trace start after the same."""
    model = language[1]
    task = model.task
    first, second = (task.encode(Text(text, 1)) for text in (FOOD, "I wait."))
    (row,) = task.rows([Text(FOOD, 1), Text("I wait.", 2)], 64)
    assert row.ids == [*first.ids, *second.ids]
    start = model.trace(FOOD)["decoder.embedding.lookup"][0, 0]
    table = model.network.decoder.embedding.table.weight
    assert start.tolist() == table[row.ids[len(first.ids)]].tolist()


def test_agreement_reads_both_forms_after_the_whole_text(language: Run) -> None:
    model = language[1]
    heat = agreement(model, ["The dogs"])
    last = model.trace("The dogs")["head.logits"][0, -1].softmax(dim=-1)
    both = [float(last[model.task.tokenizer.encode(f"The {form}")[-1]]) for form in ("is", "are")]
    assert heat.values[0].tolist() == pytest.approx(both)
    assert both[0] != both[1]


def test_guesses_by_hand(language: Run) -> None:
    """Three texts of known words; the counts and the one added are worked out here."""
    task = language[1].task
    training = [Text("the dog", 1), Text("the dog", 2), Text("the cat", 3)]
    held_out = [task.encode(Text("the cat", 1))]
    vocab = len(task.tokenizer)
    guesses = baselines.guesses(task, training, held_out)
    assert guesses.uniform == vocab
    # 9 targets: the (3), dog (2), cat (1), end (3); of them the test has the, cat, end.
    the, cat, end = (4 / (9 + vocab), 2 / (9 + vocab), 4 / (9 + vocab))
    assert guesses.unigram == pytest.approx((the * cat * end) ** (-1 / 3))
    after = ((3 + the) / 4, (1 + cat) / 4, (1 + end) / 2)  # end -> the, the -> cat, cat -> end
    assert guesses.bigram == pytest.approx(math.prod(after) ** (-1 / 3))
