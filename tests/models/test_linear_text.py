"""Linear classifiers and taggers of text, fitted to all examples at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.points.given import _spelling as rows_by_hand

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.core.trace import Trace
from translucid.data.batching import pad_characters
from translucid.data.records import Labelled, Tagged
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import LinearConfig, Network, build
from translucid.models.linear_text import LinearClassifier, read_words
from translucid.models.logistic import Entries, Problem, SparseMatrix, solve
from translucid.parts.spelling import affix_rows, lower, ngram_rows
from translucid.tasks.base import Task
from translucid.tasks.classify import Classify
from translucid.tasks.model_folder import Bundle, save
from translucid.tasks.tag import Tag

GOOD = ["wonderful film", "a good film", "good fun", "Wonderful, good acting", "such fun"]
BAD = ["awful film", "a bad film", "bad acting", "Awful and bad", "such a bore"]
TEXTS = [Labelled(text, "no", 1) for text in BAD] + [Labelled(text, "yes", 2) for text in GOOD]
SENTENCES = [
    Tagged(("Anna", "sleeps"), ("NAME", "VERB"), 1),
    Tagged(("Bob", "runs", "to", "Anna"), ("NAME", "VERB", "WORD", "NAME"), 2),
    Tagged(("to", "Rome"), ("WORD", "NAME"), 3),
    Tagged(("Carla", "walks"), ("NAME", "VERB"), 4),
]
TAGS = ("NAME", "VERB", "WORD")


def classifier(features: int = 997) -> tuple[Network, Classify]:
    task = Classify(
        Tokenizer.train("word", [one.text for one in TEXTS]), ("no", "yes"), characters=True
    )
    sizes = {"shape": "encoder", "head": "classify", "vocab": len(task.tokenizer)}
    return build(LinearConfig(**sizes, outputs=2, features=features)).double(), task


def tagger(features: int = 997) -> tuple[Network, Tag]:
    words = Tokenizer.train("space", [" ".join(one.words) for one in SENTENCES])
    task = Tag(words, TAGS, characters=True)
    sizes = {"shape": "encoder", "head": "tag", "vocab": len(words), "outputs": 3}
    return build(LinearConfig(**sizes, features=features)).double(), task


def batches(task: Task[Any, Any], records: Sequence[Any], size: int = 3) -> list[Any]:
    items = task.encode_all(records)
    made = [task.collate(items[i : i + size]) for i in range(0, len(items), size)]
    return [(batch.inputs, batch.targets) for batch in made]


# ---- logistic regression ----


def test_the_solution_is_that_of_plain_gradient_descent() -> None:
    """On dense features in numpy, with nothing in common but the objective."""
    random = np.random.default_rng(0)
    first, second = (random.random((12, 7)) < 0.4) * 1.0, random.standard_normal((7, 5))
    second *= random.random((7, 5)) < 0.6
    classes, scale, penalty = random.integers(3, size=12), random.random(5) + 0.5, 0.05

    def sparse(dense: Any) -> SparseMatrix:
        rows, columns = dense.nonzero()
        entries = (torch.tensor(rows), torch.tensor(columns), torch.tensor(dense[rows, columns]))
        return SparseMatrix(Entries(*entries), dense.shape)

    problem = Problem(
        sparse(first), sparse(second), torch.tensor(classes), torch.tensor(scale)[:, None], 3
    )
    found = solve(problem, penalty, iterations=1000, tolerance=1e-12).numpy()
    x, hot = first @ (second * scale), np.eye(3)[classes]
    weight, bias = np.zeros((5, 3)), np.zeros(3)
    for _ in range(20_000):
        scores = np.exp(x @ weight + bias)
        error = (scores / scores.sum(axis=1, keepdims=True) - hot) / len(x)
        weight, bias = weight - (x.T @ error + penalty * weight), bias - error.sum(axis=0)
    np.testing.assert_allclose(found[:-1], weight, atol=1e-5)
    np.testing.assert_allclose(found[-1] - found[-1].mean(), bias - bias.mean(), atol=1e-5)


def test_a_fitted_tagger_is_at_the_minimum_of_the_penalised_loss() -> None:
    """The gradient of the penalised loss, by autograd, is zero at the fitted weights."""
    network, task = tagger()
    given = batches(task, SENTENCES)
    network.fit(given)  # too few texts to hold any out
    losses = [
        F.cross_entropy(network(**inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        for inputs, targets in given
    ]
    count = sum(int((targets >= 0).sum()) for _, targets in given)
    tables = [network.linear.table(name) for name in network.linear.names]
    penalty = type(network).penalties[2] / count / 2 * sum(t.square().sum() for t in tables)
    (sum(losses) / count + penalty).backward()
    for weight in network.parameters():
        assert float(weight.grad.abs().max()) < 1e-4 < float(weight.detach().abs().max())


def test_a_fitted_classifier_is_at_the_minimum_of_the_penalised_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LinearClassifier, "scale", lambda *_: torch.ones(1, 1).expand(*_shape(_)))
    network, task = classifier()
    given = batches(task, TEXTS[1:])  # too few texts to hold any out
    network.fit(given)
    losses = [
        F.cross_entropy(network(**inputs), targets, reduction="sum") for inputs, targets in given
    ]
    tables = [network.linear.table(name) for name in network.linear.names]
    penalty = type(network).penalties[3] / 9 / 2 * sum(t.square().sum() for t in tables)
    (sum(losses) / 9 + penalty).backward()
    for weight in network.parameters():
        assert float(weight.grad.abs().max()) < 1e-4 < float(weight.detach().abs().max())


def _shape(given: tuple[Any, ...]) -> tuple[int, int]:
    return len(given[2]), 1


def test_rare_features_have_a_larger_scale() -> None:
    """ln((1 + texts) / (1 + texts with it)) + 1."""
    network, task = classifier()
    words = read_words(batches(task, TEXTS))
    design = network.design(words)
    columns = design.units.columns.unique()
    scale = network.scale(design, columns)[:, 0]

    def of(word: str) -> float:
        spelled = pad_characters([[word.encode()]])
        row = int(network.linear.codes(torch.zeros(1, 1, dtype=torch.long), spelled)) % 997
        return float(scale[(columns == row).nonzero()[0, 0]])

    assert of("film") == pytest.approx(np.log(11 / 5) + 1)
    assert of("wonderful") == pytest.approx(np.log(11 / 3) + 1)  # with and without a capital


@pytest.mark.parametrize("make", [classifier, tagger])
def test_a_fit_does_not_depend_on_batches_and_repeats_exactly(make: Any) -> None:
    (one, task), (other, _), (apart, _) = make(), make(), make()
    records = TEXTS if make is classifier else SENTENCES
    one.fit(batches(task, records))
    other.fit(batches(task, records))
    apart.fit(batches(task, records, size=1))
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name])
        torch.testing.assert_close(weight, apart.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_with_enough_texts_some_are_held_out_to_choose_the_penalty() -> None:
    """Words that separate the classes get large weights; words at random get small ones."""
    random = np.random.default_rng(0)
    noise = [" ".join(random.choice(["ax", "bo", "cu", "di"], 4)) for _ in range(60)]
    clear = [Labelled(f"{t} {'yes' * (n % 2)}", "ny"[n % 2], n) for n, t in enumerate(noise)]
    blind = [Labelled(t, "ny"[n % 2], n) for n, t in enumerate(noise)]
    scores = []
    for records in (clear, blind):
        task = Classify(
            Tokenizer.train("word", [one.text for one in records]), ("n", "y"), characters=True
        )
        config = {"shape": "encoder", "head": "classify", "vocab": len(task.tokenizer)}
        network = build(LinearConfig(**config, outputs=2, features=4096))
        network.fit(batches(task, records))
        scores.append(task.evaluate(network, task.encode_all(records)).numbers)
    assert scores[0]["accuracy"] == 1
    assert scores[0]["loss"] < 0.05
    assert scores[1]["loss"] > 0.5  # the strong penalty that the held-out texts ask for


# ---- features ----


@pytest.mark.parametrize("make", [classifier, tagger])
def test_padding_and_other_texts_in_a_batch_change_nothing(make: Any) -> None:
    network, task = make()
    records = TEXTS if make is classifier else SENTENCES
    torch.manual_seed(0)
    for weight in network.parameters():  # of padding too, which a fit leaves at 0
        torch.nn.init.normal_(weight)
    ((inputs, _),) = batches(task, records, size=len(records))
    together = network(**inputs)
    assert inputs["mask"].logical_not().any()
    for row, record in enumerate(records):
        ((alone, _),) = batches(task, [record])
        length = alone["ids"].shape[1]
        found = together[row] if make is classifier else together[row, :length]
        torch.testing.assert_close(found, network(**alone)[0])


def test_features_of_a_spelling_are_its_ngrams_affixes_and_shape() -> None:
    words = [b"", b"I", b"Anna", b"e-mail", b"USA2024", "Übung".encode(), b"extraordinarily"]
    characters = pad_characters([words])
    for tags, (rows, exists) in (
        (False, ngram_rows(lower(characters), 997)),
        (True, affix_rows(characters, 997)),
    ):
        for place, word in enumerate(words):
            expected = rows_by_hand([byte + 1 for byte in word], 997, tags=tags)
            assert sorted(rows[0, place][exists[0, place]].tolist()) == sorted(expected)


def test_words_outside_the_vocabulary_count_by_their_spelling() -> None:
    network, task = classifier()
    network.fit(batches(task, TEXTS))
    assert task.unknown_in("goodness") == ["goodness"]
    (unknown,) = task.predict(network, [task.item("goodness")])
    assert unknown.label == "yes"
    example, trace = task.example("goodness"), Trace()
    network(**example.batch.inputs, trace=trace)
    assert (trace["linear.characters"][0, 1].abs() > 0.01).all()  # <s> goodness </s>


def test_what_a_word_adds_has_the_sign_of_its_label() -> None:
    network, task = classifier()
    network.fit(batches(task, TEXTS))
    trace = Trace()
    with torch.no_grad():
        network(**task.example("Good film").batch.inputs, trace=trace)
    against, towards = trace["linear.words"][0, 1].tolist()
    assert towards > 0.05
    assert against == pytest.approx(-towards, abs=1e-6)


def test_a_word_at_the_length_limit_keeps_its_characters() -> None:
    network, task = classifier()
    item = task.item("a wonderful good film")
    short = task.shorten(item, 4)
    assert [*map(bytes.decode, short.characters)] == ["", "a", "wonderful", ""]
    assert len(short.ids) == 4
    assert task.shorten(item, 50) == item
    batch = task.collate([short])
    assert network(**batch.inputs).shape == (1, 2)


# ---- as a model ----


def saved(folder: Path, network: Network, task: Task[Any, Any], labels: Sequence[str]) -> tl.Model:
    tokenizer = task.vocabularies["text"]
    save(Bundle(network.float(), task.name, {"tokenizer": tokenizer}, tuple(labels)), folder)
    return tl.load(folder)


def test_a_saved_classifier_predicts_traces_and_explains(tmp_path: Path) -> None:
    network, task = classifier()
    network.fit(batches(task, TEXTS))
    model = saved(tmp_path / "model", network, task, task.labels)
    texts = ["a wonderful film", "Bad!"]
    expected = task.predict(network.float(), [task.item(text) for text in texts])
    assert model.predict(texts) == expected
    assert [answer.label for answer in expected] == ["yes", "no"]
    trace = model.trace(texts[0])
    for name in trace:
        index = tuple(size - 1 for size in trace[name].shape)
        opened = trace.terms(f"{name}[{', '.join(map(str, index))}]")
        assert abs(opened.remainder) < 1e-5
    assert "what each word adds" in str(model.explain(texts[0]))
    assert "linear.pairs" in model.summary()
    saliency = model.saliency(texts[0])
    assert saliency.tokens[int(saliency.values.argmax())] in ("wonderful", "film")


def test_a_saved_tagger_predicts_traces_and_explains(tmp_path: Path) -> None:
    network, task = tagger()
    network.fit(batches(task, SENTENCES))
    model = saved(tmp_path / "model", network, task, TAGS)
    trace = model.trace("Maria talks")
    for name in trace:
        index = tuple(size - 1 for size in trace[name].shape)
        opened = trace.terms(f"{name}[{', '.join(map(str, index))}]")
        assert abs(opened.remainder) < 1e-5
    expected = task.predict(network.float(), [task.encode_words(["Maria", "talks"])])
    assert expected == [["NAME", "VERB"]]
    assert "Maria as NAME" in str(model.explain("Maria talks"))


def test_a_wrong_configuration_names_the_key() -> None:
    text = {"shape": "encoder", "head": "tag", "vocab": 9}
    for options, words in (
        ({"inputs": 2, **text}, "shape is for .*text.*inputs is for .*numbers"),
        ({"shape": "encoder", "head": "tag"}, "vocab is missing.*inputs"),
        ({}, "shape is missing"),
    ):
        with pytest.raises(ConfigError, match=words):
            LinearConfig(outputs=2, **options)
    network = build(LinearConfig(outputs=2, features=8, **text))
    with pytest.raises(InputError, match="characters: this model reads the characters"):
        network(torch.tensor([[1]]))
    with pytest.raises(InputError, match="0 before a character"):
        network(torch.tensor([[1]]), characters=torch.tensor([[[5, 0, 5]]]))
