"""Endpoints for the other tasks: the same answers as the library."""

import pytest
from tests.serving.running import Running, shipped

TEXTS = ["The food was not bad.", "The room was cold and the food was bad."]


def test_classes_equal_the_library(server: Running) -> None:
    got = server.get("/classify", {"text": TEXTS})["results"]
    expected = shipped("classify").classify(TEXTS)
    assert [one["label"] for one in got] == [one.label for one in expected]
    assert got[0]["probability"] == pytest.approx(expected[0].probability)


def test_tags_equal_the_library(server: Running) -> None:
    text = "Jordan hires Anna Keller in New York."
    (got,) = server.get("/tag", {"text": text})["results"]
    (expected,) = shipped("tag").tag([text])
    assert [(s["start"], s["end"], s["label"]) for s in got["spans"]] == [
        (s.start, s.end, s.label) for s in expected
    ]


def test_words_that_the_model_does_not_know_are_named(server: Running) -> None:
    (got,) = server.get("/classify", {"text": "The xylophone was bad."})["results"]
    assert "xylophone" in str(got)


def test_scores_equal_the_library(server: Running) -> None:
    source, target = "The dog sleeps.", "Der Hund schläft."
    asked = {"model": "translate", "text": source, "target": target}
    (got,) = server.get("/score", asked)["results"]
    expected = shipped("translate").score(source, target)
    assert got["log_probability"] == pytest.approx(expected.log_probability, abs=1e-4)


def test_a_translation_comes_with_alignment_and_tree(server: Running) -> None:
    text = "The dog does not sleep."
    asked = {
        "model": "translate", "text": text, "n_best": 2, "tree": True, "alignment": True,
        "beam_size": 3,
    }  # fmt: skip
    (got,) = server.get("/translate", asked)["results"]
    (expected,) = shipped("translate").decode([text], n_best=2, beam_size=3, tree=True)
    assert [one["text"] for one in got["texts"]] == [one.text for one in expected.texts]
    assert got["texts"][0]["alignment"] == [[0], [1], [4], [3]]  # Der Hund schläft nicht.
    assert expected.tree is not None
    assert len(str(got["tree"])) > 100


def test_rows_of_numbers_are_predicted(server: Running) -> None:
    model = server.models["regress"].model
    rows = [[0.5, 1.0, -2.0], [0.0, 0.0, 1.0]]
    got = server.get("/predict", {"model": "regress", "inputs": rows})["results"]
    assert [one["outputs"] for one in got] == [pytest.approx(list(y)) for y in model.predict(rows)]


def test_the_document_describes_every_endpoint(server: Running) -> None:
    document = server.get("/openapi.json")
    page = server.get("/docs")
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}" in page
        bodies = [one["requestBody"] for one in operations.values() if "requestBody" in one]
        for _ in bodies:  # an object with an unknown field only: refused, but not with a 500
            status, content, _ = server.send(path, {"no_such_field": 1})
            assert status in (400, 404, 501), (path, content)
            assert "error" in content
    names = {one["$ref"].rpartition("/")[2] for one in _references(document)}
    assert names <= document["components"]["schemas"].keys()


def _references(value: object) -> list[dict[str, str]]:
    if isinstance(value, dict):
        own = [value] if "$ref" in value else []
        return own + [one for part in value.values() for one in _references(part)]
    return [one for part in value for one in _references(part)] if isinstance(value, list) else []


def test_metrics_are_read_by_the_parser_of_prometheus(server: Running) -> None:
    from prometheus_client.parser import text_string_to_metric_families as parse

    server.get("/classify", {"text": TEXTS})
    families = {one.name: one for one in parse(server.get("/metrics"))}
    accepted = {s.labels["model"]: s.value for s in families["translucid_accepted"].samples}
    assert accepted["classify"] >= 1
    routes = {s.labels.get("route") for s in families["translucid_requests"].samples}
    assert "/classify" in routes
