"""Recipes for people: every key explained, and the explained text is the same recipe."""

import json
import tomllib
from pathlib import Path

import pytest

from translucid.runs.recipe import named, recipe, toml
from translucid.runs.recipe.recipe import MODELS, SECTIONS, parse
from translucid.tasks.registry import TASKS

SHIPPED = named.entries()
FITTED = ("linear", "ngram", "lexicon")
PAIRS = [(task, kind) for task in TASKS.names() for kind in TASKS[task].models]


@pytest.mark.parametrize(("task", "kind"), PAIRS)
def test_dumped_recipe_reads_back_equal(task: str, kind: str) -> None:
    setting = "training.seed=7" if kind in FITTED else "training.ema=0.9"
    chosen = parse({"task": {"kind": task}, "model": {"kind": kind}}, [setting])
    text = toml.dump(chosen)
    again = parse(tomllib.loads(text))
    for name in SECTIONS:
        assert getattr(again, name) == getattr(chosen, name), name
    assert toml.full_model(again) == toml.full_model(chosen)
    assert toml.dump(again) == text
    keys = [line for line in text.splitlines() if line and not line.startswith("[")]
    assert all("  # " in line and not line.endswith("# None") for line in keys)


def test_every_key_has_a_meaning() -> None:
    for config in (*SECTIONS.values(), *MODELS.values()):
        for name, field in config.model_fields.items():
            assert field.description or name == "kind", f"{config.__name__}.{name}"


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.name)
def test_a_shipped_recipe_is_complete_and_explained(entry: named.Entry) -> None:
    text = entry.path.read_text("utf-8")
    assert toml.rewrite(entry.path) == text, f"translucid recipe show {entry.name} writes it"
    assert text.startswith("#:schema ./recipe.schema.json\n")
    assert f"translucid train {entry.name}" in text, "the comment at the top says how to run it"
    assert entry.title.endswith(".")


def test_what_is_shipped() -> None:
    names = {entry.name for entry in SHIPPED}
    families = ("transformer", "lstm", "gru", "rnn")
    for task in ("translate", "language", "classify", "tag"):
        assert {f"toyland-{task}-{family}" for family in families} <= names
    assert {
        "toyland-regress-mlp", "multi30k-en-de", "multi30k-de-en", "tatoeba-de-en", "shakespeare",
        "wikitext-2-lstm", "wikitext-2-transformer", "sst2", "trec", "ewt-pos", "uner-ewt",
        "wnut17",
    } <= names  # fmt: skip


def test_the_schema_file_is_the_schema() -> None:
    shipped = json.loads((named.FOLDER / "recipe.schema.json").read_text("utf-8"))
    assert shipped == toml.schema(), "translucid recipe schema > recipes/recipe.schema.json"


def test_the_schema_knows_what_the_parser_knows() -> None:
    """Sections, keys and choices are those of the configs; what the data decides is left out."""
    found = toml.schema()["properties"]
    for name, config in SECTIONS.items():
        assert set(found[name]["properties"]) == set(config.model_fields)
        assert found[name]["additionalProperties"] is False
    for family in found["model"]["anyOf"]:
        kind = family["properties"]["kind"]["const"]
        keys = set(MODELS[kind].model_fields) - set(recipe.DECIDED)
        assert set(family["properties"]) == keys
    assert found["training"]["properties"]["optimizer"]["enum"] == ["adamw", "adam", "sgd", "muon"]


def test_file_takes_precedence_over_a_shipped_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert named.find("sst2") == named.FOLDER / "sst2.toml"
    (tmp_path / "sst2").write_text("")
    monkeypatch.chdir(tmp_path)
    assert named.find("sst2") == Path("sst2")
