"""Many texts, some at each request: what the page is told is what Python says."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.studio.browser import Page
from tests.studio.serving import Served, model, serving
from tests.studio.shown import same

import translucid as tl
from translucid.see.unit_labels import unit_labels
from translucid.studio import surveys
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library

POINT = "encoder.recurrent.layers.0.lstm.hidden"


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    return Handlers(Library({"classify": tl.load("demo:classify")}))


def until_done(handlers: Handlers, what: str, **query: Any) -> tuple[Any, int]:
    """The last answer, and how often it was asked for."""
    for asked in range(1, 100):
        reply = handlers.ask("GET", f"/api/model/a/{what}?{urlencode(query)}")
        answer = json.loads(reply.body)
        if "error" in answer or answer["done"] == answer["of"]:
            return answer, asked
    raise AssertionError("it never ends")


def test_losses_and_units_come_some_at_a_time(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "TEXTS", 10)
    monkeypatch.setattr(surveys, "AT_ONCE", 4)
    monkeypatch.setattr(surveys, "SECONDS", 600.0)
    opened = handlers.library.opened["a"].model
    some = json.loads(handlers.ask("GET", "/api/model/a/hardest").body)  # those read so far
    first = [text for text, _ in surveys.texts_of(handlers.library.opened["a"], 4)[0]]
    assert sorted(one["text"] for one in some["texts"]) == sorted(first)
    assert {one["answer"] for one in some["texts"]} == {None}
    answer, asked = until_done(handlers, "hardest")
    assert (asked, answer["of"], answer["from"]) == (2, 10, "the test data of its run")
    assert [one for one in answer["texts"] if one["text"] in first] == [
        one | {"answer": opened.task.answer_text(label)}
        for one, label in zip(
            some["texts"],
            opened.task.predict_lines(opened.network, [one["text"] for one in some["texts"]]),
            strict=True,
        )
    ]
    true = tl.load("demo:classify").hardest_examples(limit=10)
    assert [one["text"] for one in answer["texts"]] == [one.text for one in true]
    assert [one["loss"] for one in answer["texts"]] == pytest.approx([one.loss for one in true])
    assert answer["texts"][0]["target"] == true[0].target
    label = opened.task.predict_lines(opened.network, [true[0].text])[0]
    assert answer["texts"][0]["answer"] == opened.task.answer_text(label)
    answer, asked = until_done(handlers, "unit", at=POINT, unit=5)
    assert (asked, answer["done"], answer["units"]) == (3, 10, 64)
    first = answer["largest"][0]
    trace = tl.load("demo:classify").trace(first["text"])
    assert first["value"] == pytest.approx(float(trace[POINT][0, :, 5].max()), abs=1e-6)
    assert float(trace[POINT][0, first["place"], 5]) == pytest.approx(first["value"], abs=1e-6)
    monkeypatch.setattr(surveys, "SECONDS", 0.0)  # as if one text took all the time of a request
    assert until_done(handlers, "unit", at=POINT.replace("hidden", "cell"), unit=5)[1] == 10
    handlers.surveys = surveys.Surveys()
    again, asked = until_done(handlers, "hardest")
    assert asked == 10
    assert [one["loss"] for one in again["texts"]] == pytest.approx([one.loss for one in true])
    errors = [until_done(handlers, "unit", at=at, unit=unit)[0]["error"]
              for at, unit in ((POINT, 99), ("encoder.nothing.here", 1))]  # fmt: skip
    assert "unit = 99" in errors[0]
    assert "encoder.nothing.here" in errors[1]


def test_without_data_of_its_own_a_model_reads_made_up_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(surveys, "TEXTS", 6)
    held = model("language-rnn")
    alone = Handlers(Library({"language": held}))
    answer, _ = until_done(alone, "hardest")
    assert (answer["of"], answer["from"]) == (6, "its example sentences and sentences of Toyland")
    trace = held.trace(answer["texts"][0]["text"])
    log_probs = trace.output_values.log_softmax(-1)
    losses = [-float(log_probs[n, i]) for n, i in enumerate(trace.wanted) if i >= 0]
    assert answer["texts"][0]["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert answer["texts"][0]["answer"] is None
    translator = Handlers(Library({"translate": model("translate-transformer")}))
    assert until_done(translator, "hardest")[0]["texts"] == []  # its own answer is no right one


ROWS = [f"{word} {n} times,{kind}" for n in range(20) for word, kind in
        (("fine", "good"), ("sad", "bad"), ("dull", "bad"))]  # fmt: skip
SMALL = {"d_model": 8, "heads": 2, "layers": 1}


def run_of_rows(folder: Path, **files: str) -> Path:
    """A run of a few steps on a table of one's own."""
    for part, rows in (("train", ROWS[:40]), ("valid", ROWS[40:50]), ("test", ROWS[50:])):
        (folder / f"{part}.csv").write_text("\n".join(["text,label", *rows, ""]), "utf-8")
    places = {part: str(folder / name) for part, name in files.items()}
    training = {"steps": 3, "batch_tokens": 400, "warmup": 1, "device": "cpu"}
    tl.train("classify", folder / "run", quiet=True, **places, tokenizer={"kind": "word"},
             model=SMALL, training=training)  # fmt: skip
    return folder / "run"


@pytest.mark.parametrize("files", [("train",), ("train", "valid"), ("train", "valid", "test")])
def test_a_run_reads_its_own_texts(files: tuple[str, ...], tmp_path: Path) -> None:
    """Test data, else validation data, else what was held out: its losses make the run's score."""
    run = run_of_rows(tmp_path, **{part: f"{part}.csv" for part in files})
    if len(files) > 1:
        (tmp_path / "train.csv").unlink()  # it is not asked for
    answer, _ = until_done(Handlers(Library({"run": tl.load(run)})), "hardest")
    name = "test" if "test" in files else "validation"
    assert answer["from"] == f"the {name} data of its run"
    given = [f"{one['text']},{one['target']}" for one in answer["texts"]]
    own = {1: ROWS[:40], 2: ROWS[40:50], 3: ROWS[50:]}[len(files)]
    assert given
    assert set(given) <= set(own)
    assert len(files) == 1 or sorted(given) == sorted(own)
    part = (
        json.loads((run / "test.json").read_text("utf-8")) if name == "test" else tl.load(run).facts
    )
    losses = [one["loss"] for one in answer["texts"]]
    score = part["test" if name == "test" else "valid"]["loss"]
    assert sum(losses) / len(losses) == pytest.approx(score, rel=1e-5)


def test_a_run_without_its_data_reads_no_other_texts(tmp_path: Path) -> None:
    run = run_of_rows(tmp_path, train="train.csv")
    (tmp_path / "train.csv").unlink()
    gone = Handlers(Library({"run": tl.load(run)}))
    shutil.copytree(run / "best", tmp_path / "alone")
    alone = Handlers(Library({"alone": tl.load(tmp_path / "alone")}))
    point = "encoder.layers.0.feedforward.activated"
    for handlers, why in ((gone, "train.csv"), (alone, "outside its run folder, whose recipe")):
        for what, query in (("hardest", {}), ("unit", {"at": point, "unit": 0})):
            error = until_done(handlers, what, **query)[0]["error"]
            assert error.startswith("cannot read the model's data: ")
            assert why in error


@pytest.mark.slow
def test_labels_are_those_of_python(handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "SENTENCES", 90)
    monkeypatch.setattr(surveys, "SECONDS", 600.0)
    answer, asked = until_done(handlers, "labels", at=POINT)
    assert (asked, answer["of"]) == (2, 90)
    held = tl.load("demo:classify")
    true = unit_labels(held.network, held.task, POINT, sentences=90)
    assert answer["labels"] == [vars(label) for label in true.labels]
    assert answer["control"] == pytest.approx(0.5 + true.control)
    best = answer["of_unit"][true.labels[0].unit][0]
    assert best == {"feature": true.labels[0].feature, "auc": pytest.approx(true.labels[0].auc)}


# ---- on the page ----


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"classify": tl.load("demo:classify")}) as served:
        yield served


@pytest.mark.slow
def test_the_page_lists_texts_and_opens_them(
    studio: Served, leaf: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "TEXTS", 10)
    monkeypatch.setattr(surveys, "AT_ONCE", 0)  # it does not end by itself
    leaf.expected.append("422")  # no text was read, so a unit has no largest value
    leaf.inner.goto(f"{studio.address}#/data?at={POINT}&unit=5")
    leaf.inner.at_once.click(".texts >> text=Stop")
    leaf.wait("document.querySelector('.texts .edit')?.textContent === 'Continue'")
    monkeypatch.setattr(surveys, "AT_ONCE", 25)
    leaf.turn(f"{studio.address}#/data?at={POINT}&unit=5")
    assert leaf.words(".texts .edit") == ["Measure losses"]  # nor does it begin again
    leaf.inner.click("text=Measure losses")
    leaf.wait("document.querySelectorAll('.hardest li').length === 10")
    assert leaf.words("#readout .path")[0].endswith(", the test data of its run")
    held = tl.load("demo:classify")
    true = held.hardest_examples(limit=10)
    assert leaf.words(".hardest li button") == [one.text for one in true]
    leaf.wait("document.querySelectorAll('.extremes li').length === 10")
    assert leaf.words(".moved .tail") == [
        "Of 10 texts of the test data of its run; one token per text."
    ]
    value, marked = leaf.words(".extremes li .n")[0], leaf.words(".extremes mark")[0]
    trace = held.trace(max((one.text for one in true), key=lambda text: float(
        held.trace(text)[POINT][0, :, 5].max())))  # fmt: skip
    unit = trace[POINT][0, :, 5]
    assert same(value, float(unit.max()))
    assert marked == trace.words.source[int(unit.argmax())]
    leaf.changed(lambda: leaf.inner.click(".hardest li button"))
    assert leaf.drawn().startswith("flow")
    assert "".join(leaf.words(".sentence .word")).startswith("<s>" + true[0].text.split()[0])
