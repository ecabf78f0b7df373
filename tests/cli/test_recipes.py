"""Recipes, tokenizers and model folders through the real command line."""

import json
import tomllib
from pathlib import Path

import pytest
from tests.in_process import run

from translucid.runs.recipe import recipe
from translucid.runs.recipe.toml import dump
from translucid.tasks.registry import TASKS


def test_recipes_are_listed_and_shown() -> None:
    listed = run("recipe", "list")
    assert listed.returncode == 0, listed.stderr
    assert "multi30k-en-de " in listed.stdout
    rows = json.loads(run("recipe", "list", "--json").stdout)
    assert {"name", "path", "title"} == set(rows[0])
    shown = run("recipe", "show", "toyland-tag-lstm", "training.steps=7")
    assert tomllib.loads(shown.stdout)["training"]["steps"] == 7
    assert "# number of weight updates" in shown.stdout


@pytest.mark.slow
def test_new_recipe_checks_and_trains(tmp_path: Path) -> None:
    made = run("new", "tag", "model.kind=recurrent", "--out", "mine.toml", cwd=tmp_path)
    assert "next: translucid recipe check mine.toml" in made.stdout
    assert run("new", "tag", "--out", "mine.toml", cwd=tmp_path).returncode == 2
    checked = run("recipe", "check", "mine.toml", "data.toyland=60", cwd=tmp_path)
    assert "mine.toml: no mistakes\ntask tag, recurrent, 2,000 steps" in checked.stdout
    small = ["data.toyland=60", "training.steps=2", "model.d_model=8", "model.hidden=8"]
    trained = run("train", "mine.toml", "--out", "r", *small, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "% padding" in trained.stderr
    assert "GiB" in trained.stderr
    facts = json.loads(run("info", "r", "--json", cwd=tmp_path).stdout)
    assert facts["task"] == "tag"
    assert facts["step"] == 2
    assert facts["parameters"] > 0
    assert "B-PER" in run("info", "r", cwd=tmp_path).stdout


def test_fine_tuning_recipe_may_leave_out_the_kind(tmp_path: Path) -> None:
    going_on = ["training.start_from=runs/x", "model.weight_dropout=0.5", "data.toyland=60"]
    assert run("new", "tag", *going_on, "--out", "mine.toml", cwd=tmp_path).returncode == 0
    checked = run("recipe", "check", "mine.toml", cwd=tmp_path)
    assert "mine.toml: no mistakes\ntask tag, the model kind of runs/x, 2,000" in checked.stdout
    shown = run("recipe", "show", "mine.toml", cwd=tmp_path)
    assert tomllib.loads(shown.stdout)["model"] == {"weight_dropout": 0.5}


@pytest.mark.slow
def test_a_recipe_without_data_is_refused(tmp_path: Path) -> None:
    run("new", "tag", "--out", "mine.toml", cwd=tmp_path)
    checked = run("recipe", "check", "mine.toml", cwd=tmp_path)
    assert checked.returncode == 2
    assert "mine.toml: data.train is required, or data.toyland = 20000" in checked.stderr
    assert run("recipe", "check", "mine.toml", "data.toyland=60", cwd=tmp_path).returncode == 0
    for name in (row["name"] for row in json.loads(run("recipe", "list", "--json").stdout)):
        assert run("recipe", "check", name).returncode == 0, name


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["multi30k-en-de", "toyland-translate-transformer"])
def test_recipe_with_other_training_data(tmp_path: Path, recipe: str) -> None:
    """Its own held-out files belong to its own training data: a part of the other is held out."""
    for side in ("a", "b"):
        (tmp_path / side).write_text("".join(f"{side} word {n}\n" for n in range(40)), "utf-8")
    small = ["training.steps=1", "model.d_model=8", "model.layers=1", "model.heads=2",
             "training.device=cpu", "tokenizer.kind=word"]  # fmt: skip
    trained = run("train", recipe, "--train", "a", "b", "--out", "r", *small, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "data.valid was not given: 8 of the training examples held out" in trained.stderr
    assert ("valid.en" in trained.stderr) == (recipe == "multi30k-en-de")
    named = ["--valid", "a", "b", "--self-test"]
    tested = run("train", recipe, "--train", "a", "b", *named, *small, cwd=tmp_path)
    assert "held out" not in tested.stderr, tested.stderr


def test_all_mistakes_of_a_recipe_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        '[task]\nkind = "tag"\n[model]\nhedas = 3\n[training]\nsteps = "many"\nwarm_up = 3\n'
    )
    told = run("recipe", "check", "bad.toml", cwd=tmp_path)
    assert told.returncode == 2
    assert "3 mistakes" in told.stderr
    assert "model.hedas: no such key; did you mean heads?" in told.stderr
    assert "training.warm_up: no such key; did you mean warmup?" in told.stderr
    assert "training.steps = 'many'" in told.stderr
    (tmp_path / "broken.toml").write_text("[task\n")
    assert "not valid TOML" in run("recipe", "check", "broken.toml", cwd=tmp_path).stderr
    assert "did you mean sst2" in run("recipe", "check", "sst3", cwd=tmp_path).stderr


def test_the_schema_is_json() -> None:
    assert json.loads(run("recipe", "schema").stdout)["title"] == "Translucid recipe"


def test_tokenizer_commands_and_tokenizer_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the dog sleeps\nthe cat sleeps\n" * 20, "utf-8")
    words = ["tokenizer", "train", "a.txt", "--out", "tok", "--kind", "word"]
    made = run(*words, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "tok: word, 8 tokens" in made.stdout
    assert "a.txt: 40 records" in made.stderr
    assert "is not an empty folder" in run(*words, cwd=tmp_path).stderr
    shown = run("tokenizer", "show", "tok", "the bird sleeps", "--json", cwd=tmp_path)
    (text,) = json.loads(shown.stdout)["texts"]
    assert len(text["tokens"]) == len(text["ids"]) == 3
    assert text["unknown"] == pytest.approx(1 / 3)
    assert "33% unknown" in run("tokenizer", "show", "tok", "the bird sleeps", cwd=tmp_path).stdout
    kind = run("tokenizer", "train", "a.txt", "--out", "x", "--kind", "wrod", cwd=tmp_path)
    assert "did you mean word?" in kind.stderr
    options = ["tokenizer.folder=tok", "training.steps=2", "model.d_model=8", "model.heads=2"]
    trained = run("train", "language", "--train", "a.txt", "--out", "r", *options, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    marks = [
        json.loads(run("tokenizer", "show", where, "--json", cwd=tmp_path).stdout)["fingerprint"]
        for where in ("tok", "r")
    ]
    assert marks[0] == marks[1]


def test_chosen_settings_are_printed(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("the dog sleeps\nthe cat sleeps\n" * 20, "utf-8")
    (tmp_path / "a.de").write_text("der hund schläft\ndie katze schläft\n" * 20, "utf-8")
    small = ["training.steps=2", "model.d_model=8", "model.layers=1"]
    words = ["train", "translate", "--train", "a.en", "a.de", "--out", "runs/x", *small]
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "chosen for 32 examples with 192 words:" in done.stderr
    assert "training.learning_rate=0.002" in done.stderr
    assert "training.steps=" not in done.stderr
    saved = tomllib.loads((tmp_path / "runs/x/recipe.toml").read_text("utf-8"))
    assert saved["training"]["learning_rate"] == 0.002
    assert saved["data"]["train"] == ["a.en", "a.de"]


def test_tensorboard_on_request(tmp_path: Path) -> None:
    words = ["train", "toyland-regress-mlp", "training.steps=2", "data.toyland=60"]
    asked = run(*words, "training.tensorboard=true", "--out", "r", cwd=tmp_path)
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        assert asked.returncode == 2
        assert "pip install tensorboard" in asked.stderr
        assert not (tmp_path / "r").exists()
        return
    assert asked.returncode == 0, asked.stderr
    events = EventAccumulator(str(tmp_path / "r/tensorboard")).Reload()
    lines = (tmp_path / "r/metrics.jsonl").read_text("utf-8").splitlines()
    losses = [json.loads(line)["loss"] for line in lines if '"norm"' in line]
    drawn = [event.value for event in events.Scalars("train/loss")]
    assert drawn == pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize("task", TASKS.names())
def test_short_recipe_equals_the_long_one(task: str, tmp_path: Path) -> None:
    changes = ["training.warmup=7", "data.max_length=9", "tokenizer.kind=word"]
    sizes = []
    for words in ([], ["--short"]):
        out = tmp_path / f"{len(words)}.toml"
        made = run(
            "new",
            task,
            *changes[: 1 if task in ("regress", "table") else 3],
            "--out",
            str(out),
            *words,
        )
        assert made.returncode == 0, made.stderr
        sizes.append(out.read_text("utf-8").count("\n"))
    long, short = (dump(recipe.read(tmp_path / f"{n}.toml")) for n in (0, 1))
    assert long == short
    assert sizes[1] < 25 < 80 < sizes[0]
    first = run("new", task).stdout.splitlines()[0].removeprefix("# Changed most often: ")
    known = tomllib.loads((tmp_path / "0.toml").read_text("utf-8"))
    sections = [key.split(".") for key in first.split(", ")]
    assert len(sections) > 4
    assert all(key in known[section] for section, key in sections)
