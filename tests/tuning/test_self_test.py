"""A self-test says what usually goes wrong when a trained model is trained on."""

from pathlib import Path
from typing import Any

import pytest
from tests.tuning.small import classifier, language_model, write_reviews

from translucid.models import build
from translucid.runs.checks.startup import of_start, self_test
from translucid.runs.fine_tuning.start import open_start
from translucid.runs.recipe import recipe
from translucid.runs.recipe.examples import load_examples, prepare
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.findings import Finding
from translucid.training.parameter_groups import freeze

RATE, VOCABULARY = "learning rate for tuning", "vocabulary of the start model"
LABELS = "labels of the start model"


def parsed(source: Path, data: Path, **sections: Any) -> Recipe:
    training = {"start_from": str(source), "learning_rate": 1e-4} | sections.pop("training", {})
    values = {"task": {"kind": "classify"}, "data": {"train": [str(data)]}, "training": training}
    return recipe.parse(values | sections)


def findings(chosen: Recipe) -> dict[str, Finding]:
    """What is looked at because of the source alone."""
    start = open_start(chosen)
    assert start is not None
    examples = load_examples(start.recipe, lambda line: None)
    known = prepare(start.recipe, examples, made_before=start.tokenizers(examples.train))
    network = build(start.recipe.model_config_for(sizes=start.sizes(known.sizes)))
    kept = start.begin(network, known, lambda line: None)
    freeze(network, start.frozen(kept))
    every = of_start(start, known, network, examples.train, kept["taken"])
    return {finding.name: finding for finding in every}


def test_self_test_checks_the_source(tmp_path: Path) -> None:
    chosen = parsed(classifier(), write_reviews(tmp_path), training={"learning_rate": 1e-3})
    said: list[str] = []
    every = {finding.name: finding for finding in self_test(chosen, said.append)}
    assert {name: every[name] for name in (LABELS, VOCABULARY, RATE)} == findings(chosen)
    assert any(line.startswith("starting from") for line in said)


def test_self_test_passes_with_the_same_data(tmp_path: Path) -> None:
    every = findings(parsed(classifier(), write_reviews(tmp_path)))
    assert all(every[name].ok for name in (RATE, VOCABULARY, LABELS))
    assert every[LABELS].words == "the same as in the data, in the same order"


def test_labels_vocabulary_and_rate_that_do_not_fit(tmp_path: Path) -> None:
    path = write_reviews(tmp_path, ("good", "bad"))
    path.write_text(path.read_text("utf-8").replace("film", "Zygomorphy"), "utf-8")
    every = findings(parsed(classifier(), path, training={"learning_rate": 1e-3}))
    assert not any(every[name].ok for name in (RATE, VOCABULARY, LABELS))
    assert "above 0.0005" in every[RATE].words
    assert "unknown" in every[VOCABULARY].words
    assert "down, up in the start model, bad, good in the data" in every[LABELS].words


@pytest.mark.parametrize(
    ("sections", "ok"),
    [
        ({"training": {"learning_rate": 1e-3, "freeze": ["decoder.*"]}}, True),
        ({"training": {"learning_rate": 1e-3}, "model": {"lora_rank": 2}}, True),
        ({"training": {"learning_rate": 1e-2}, "model": {"lora_rank": 2}}, False),
        ({"training": {"learning_rate": 1e-4, "learning_rates": {"decoder": 20.0}}}, False),
        ({"training": {"learning_rate": 1e-4, "learning_rates": {"head": 20.0}}}, True),
    ],
)
def test_learning_rate_is_checked_for_trained_weights(
    tmp_path: Path, sections: dict[str, Any], ok: bool
) -> None:
    chosen = parsed(language_model(), write_reviews(tmp_path), **sections)
    assert findings(chosen)[RATE].ok == ok
