"""Many texts, some at each request: what the page is told is what Python says."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.studio.browser import Page, leaf, running, window  # noqa: F401  (fixtures)
from tests.studio.serving import Served, serving
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
    model = handlers.library.opened["a"].model
    answer, asked = until_done(handlers, "hardest")
    assert (asked, answer["of"], answer["from"]) == (3, 10, "the test data of its run")
    true = tl.load("demo:classify").hardest(limit=10)
    assert [one["text"] for one in answer["texts"]] == [one.text for one in true]
    assert [one["loss"] for one in answer["texts"]] == pytest.approx([one.loss for one in true])
    assert answer["texts"][0]["target"] == true[0].target
    label = model.task.predict_lines(model.network, [true[0].text])[0]
    assert answer["texts"][0]["answer"] == model.task.answer_text(label)
    answer, asked = until_done(handlers, "unit", at=POINT, unit=5)
    assert (asked, answer["done"], answer["units"]) == (3, 10, 64)
    first = answer["largest"][0]
    trace = tl.load("demo:classify").trace(first["text"])
    assert first["value"] == pytest.approx(float(trace[POINT][0, :, 5].max()), abs=1e-6)
    assert float(trace[POINT][0, first["place"], 5]) == pytest.approx(first["value"], abs=1e-6)
    errors = [until_done(handlers, "unit", at=at, unit=unit)[0]["error"]
              for at, unit in ((POINT, 99), ("encoder.nothing.here", 1))]  # fmt: skip
    assert "unit = 99" in errors[0]
    assert "encoder.nothing.here" in errors[1]


@pytest.mark.slow
def test_labels_are_those_of_python(handlers: Handlers) -> None:
    answer, asked = until_done(handlers, "labels", at=POINT)
    assert (asked, answer["of"]) == (10, 500)
    model = tl.load("demo:classify")
    true = unit_labels(model.network, model.task, POINT)
    assert answer["labels"] == [vars(label) for label in true.labels]
    assert answer["control"] == pytest.approx(0.5 + true.control)
    best = answer["of_unit"][true.labels[0].unit][0]
    assert best == {"feature": true.labels[0].feature, "auc": pytest.approx(true.labels[0].auc)}
