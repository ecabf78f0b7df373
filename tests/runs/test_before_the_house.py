"""Run folders and recipes of the code before issue 15 are opened, and say what they said.

`tests/fixtures/before-the-house` holds them, `make.py` there is how that code wrote them.
"""

import json
import shutil
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import translucid as tl
from translucid.core.renamed import KEYS, Renamed
from translucid.runs.recipe import recipe
from translucid.runs.recipe.toml import full_model
from translucid.runs.run import resume_run
from translucid.tasks.registry import TASKS

OLD = Path(__file__).parent.parent / "fixtures" / "before-the-house"
ANSWERS = json.loads((OLD / "answers.json").read_text("utf-8"))
RECIPES = json.loads((OLD / "recipes.json").read_text("utf-8"))
# Defaults that are others today; a recipe that names the key has what it names.
NEW_DEFAULTS = {"training.compile": "auto"}
IDS = torch.tensor([[4, 5, 6, 7], [8, 4, 9, 5]])


def near(found: object, wanted: object) -> None:
    """Equal up to the rounding of another machine."""
    found, wanted = torch.tensor(found), torch.tensor(wanted)
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def same_translations(model: tl.Model, wanted: dict[str, Any]) -> None:
    assert model.translate(wanted["texts"], beam_size=2) == wanted["translations"]
    found = model.decode(wanted["texts"], n_best=2)
    assert [[t.text for t in each.texts] for each in found] == wanted["best"]
    near([[t.score for t in each.texts] for each in found], wanted["scores"])
    near(
        model.score(wanted["texts"][0], "Das Hotel war entsetzlich.").token_log_probs,
        wanted["gains"],
    )
    near(model.network(IDS, IDS.flip(1)).tolist(), wanted["logits"])


@pytest.mark.slow
def test_a_translator_says_what_it_said() -> None:
    same_translations(tl.load(OLD / "translate"), ANSWERS["translate, stopped"])


def test_a_language_model_says_what_it_said() -> None:
    model, wanted = tl.load(OLD / "language"), ANSWERS["language"]
    assert model.generate("The dog", max_length=6, temperature=0.0) == wanted["likeliest"]
    assert model.generate("The dog", max_length=6, seed=3) == wanted["drawn"]
    near(model.score("The dog sleeps.").token_log_probs, wanted["gains"])
    near(model.network(IDS).tolist(), wanted["logits"])


def test_a_classifier_says_what_it_said() -> None:
    """An ensemble of two with n-gram features."""
    model, wanted = tl.load(OLD / "classify"), ANSWERS["classify"]
    found = model.classify(wanted["texts"])
    assert [each.label for each in found] == wanted["labels"]
    near([each.probability for each in found], wanted["probabilities"])
    near(model.network(IDS).tolist(), wanted["logits"])


def test_a_tagger_says_what_it_said() -> None:
    """One that reads the characters of each word."""
    model, wanted = tl.load(OLD / "tag"), ANSWERS["tag"]
    found = model.tag(wanted["texts"])
    assert [[[s.start, s.end, s.label] for s in each] for each in found] == wanted["spans"]
    characters = torch.tensor(wanted["letters"])
    near(model.network(IDS, characters=characters).tolist(), wanted["logits"])


def test_a_regressor_says_what_it_said() -> None:
    wanted = ANSWERS["regress"]
    near(tl.load(OLD / "regress").predict(wanted["rows"]), wanted["logits"])


@pytest.mark.slow
def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To where the code that began it would have come."""
    shutil.copytree(OLD / "translate", tmp_path / "run")
    monkeypatch.chdir(OLD)  # its files are named from here
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        resume_run(tmp_path / "run", quiet=True)
    path = tmp_path / "run/recipe.toml"
    assert f"{path}: decoding.beams: now decoding.beam_size" in {str(s.message) for s in said}
    log = (tmp_path / "run" / "log.txt").read_text("utf-8")
    assert "resumed at step 50 of 80" in log
    same_translations(tl.load(tmp_path / "run" / "last"), ANSWERS["translate"])


@pytest.mark.parametrize("form", ["", "-resolved"], ids=["as written", "every key"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_read(name: str, form: str) -> None:
    """Every key has the value that it had, whatever its name is today."""
    path = OLD / f"{name}{form}.toml"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        chosen = recipe.read(path)
    told = {str(each.message) for each in said if each.category is Renamed}
    keys = {f"{name}.{key}" for name, section in tomllib.loads(path.read_text("utf-8")).items()
            for key in section}  # fmt: skip
    old = {key for key in keys if key in KEYS}
    assert told == {f"{path}: {key}: now {KEYS[key]}" for key in old}
    assert old or not form
    sections = json.loads(json.dumps(chosen.model_dump() | {"model": full_model(chosen)}))
    today = {
        f"{name}.{key}": value for name, keys in sections.items() for key, value in keys.items()
    }
    new = NEW_DEFAULTS | {"data.long": TASKS[chosen.task.kind].long}
    defaults = {key: value for key, value in new.items() if key not in keys}
    for key, value in (RECIPES[name] | defaults).items():
        assert today[KEYS.get(key, key)] == value, key
