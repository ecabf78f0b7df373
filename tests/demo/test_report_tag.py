"""The report of the tagging demo: probabilities, evidence and attention are the model's own."""

from itertools import islice

import pytest
from tests.demo.pages import check_stands_alone
from tests.demo.small_runs import Run, small_run

from translucid.demo.report import tag as report
from translucid.toyland import Toyland

TEXT = "Anna sees Peter in Rome."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tmp_path_factory, "tag", "model.d_model=8", "model.hidden=6")


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Run:
    sizes = ("model.kind=transformer", "model.d_model=8", "model.heads=2", "model.layers=2")
    return small_run(tmp_path_factory, "tag", *sizes)


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Run:
    sizes = ("model.d_model=8", "model.hidden=6", "tokenizer.kind=bpe", "tokenizer.vocab_size=300")
    return small_run(tmp_path_factory, "tag", *sizes)


def test_the_heat_map_is_the_softmax_of_the_traced_logits(run: Run) -> None:
    found = report.tag_map(run[1], TEXT)
    logits = run[1].trace(TEXT)["head.logits"][0]  # (words, tags)
    assert found.words == ["Anna", "sees", "Peter", "in", "Rome", "."]
    assert found.tags == ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER"]
    for tag, row in zip(found.tags, found.probabilities, strict=True):
        column = run[1].task.tags.index(tag)
        assert row == pytest.approx(logits.softmax(dim=-1)[:, column].tolist(), abs=1e-6)


def test_with_subwords_a_word_has_the_tag_of_its_first(subwords: Run) -> None:
    found = report.tag_map(subwords[1], TEXT)
    logits = subwords[1].trace(TEXT)["head.logits"][0].softmax(dim=-1)
    firsts = subwords[1].task.encode_words(found.words).firsts
    assert len(firsts) == len(found.words) < len(logits)
    assert found.probabilities[0] == pytest.approx(logits[firsts, 0].tolist(), abs=1e-6)


def test_the_evidence_of_both_directions_and_the_bias_is_the_logit_difference(run: Run) -> None:
    found = report.evidence(run[1], TEXT)
    assert found is not None
    assert set(found.shares) == {"forward", "backward"}
    logits = run[1].trace(TEXT)["head.logits"][0]
    tags = run[1].task.tags
    for word, row in enumerate(logits):
        best, second = row.topk(2)[0].tolist()
        total = sum(shares[word] for shares in found.shares.values()) + found.bias[word]
        assert total == pytest.approx(best - second, abs=1e-5)
        assert found.chosen[word] == tags[int(row.argmax())]
        assert found.rival[word] != found.chosen[word]


def test_the_share_of_a_direction_comes_from_that_directions_cell(run: Run) -> None:
    """The head is linear, and its first columns read the state of the forward cell."""
    found = report.evidence(run[1], TEXT)
    assert found is not None
    trace, tags = run[1].trace(TEXT), run[1].task.tags
    weight = run[1].network.head.linear.weight.detach()
    columns = {"forward": slice(0, 6), "backward": slice(6, 12)}
    for direction, shares in found.shares.items():
        states = trace[f"encoder.recurrent.layers.0.{direction}.lstm.hidden"][0]  # (words, 6)
        for word, (chosen, rival) in enumerate(zip(found.chosen, found.rival, strict=True)):
            difference = weight[tags.index(chosen)] - weight[tags.index(rival)]
            wanted = float(difference[columns[direction]] @ states[word])
            assert shares[word] == pytest.approx(wanted, abs=1e-5)


def test_a_transformer_shows_what_it_looks_at_instead(transformer: Run) -> None:
    model = transformer[1]
    assert report.evidence(model, TEXT) is None
    found = report.looking(model, TEXT)
    assert found is not None
    pattern = model.trace(TEXT)["encoder.layers.1.self_attention.pattern"][0].mean(dim=0)
    for row, wanted in zip(found.weights, pattern.tolist(), strict=True):
        assert row == pytest.approx(wanted, abs=1e-6)


def test_the_right_tags_are_framed() -> None:
    found = report.TagMap(["a", "b"], ["O", "B-PER"], [[0.5, 0.5], [0.5, 0.5]], ["B-PER", "O"])
    assert report.draw_map(found).frames == ((1, 0), (0, 1))  # row of the tag, then word


@pytest.mark.parametrize("kind", ["run", "transformer"])
def test_the_page_stands_alone(kind: str, request: pytest.FixtureRequest) -> None:
    out, model, _ = request.getfixturevalue(kind)
    sentences = list(islice(Toyland().sentences("test"), 2))
    path = report.write(out, model, sentences, ["<b> sleeps."], {"span_f1": 0.5})
    check_stands_alone(path, figures=1 + 2 + 1 + 1)
