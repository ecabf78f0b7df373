"""How a run ends: why, with which model, and whether that is better than no model."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run
from tests.runs.test_runs import small

from translucid.core.errors import ConfigError, Interrupted
from translucid.model import load
from translucid.runs import fingerprint
from translucid.runs.recipe import recipe
from translucid.runs.recipe.examples import load_examples
from translucid.runs.run import resume_run, train_recipe
from translucid.runs.setup import Setup, set_up
from translucid.tasks import metrics
from translucid.tasks.language import Language


def journal(folder: Path) -> list[str]:
    return (folder / "log.txt").read_text("utf-8").splitlines()


def evaluated(folder: Path) -> list[dict[str, Any]]:
    lines = [
        json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    ]
    return [line for line in lines if "valid" in line]


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "steps": ({}, "training ended after step 3 of 3: all steps done (training.steps)"),
    "minutes": (
        {"minutes": 1e-6, "steps": 9},
        "training ended after step 1 of 9: time limit reached (training.minutes = 1e-06)",
    ),
    "patience": (
        {"patience": 2, "steps": 9, "evaluate_every": 1, "learning_rate": 1e-12},
        "training ended after step 3 of 9: accuracy did not improve in 2 evaluations "
        "(training.patience)",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_training_says_why_it_ended(end: str, tmp_path: Path) -> None:
    settings, line = ENDS[end]
    train_recipe(small("classify", "still", **settings), tmp_path / "run", quiet=True)
    assert journal(tmp_path / "run").count(line) == 1
    resume_run(tmp_path / "run", quiet=True)
    assert journal(tmp_path / "run").count(line) == 2, "of a run that had ended"


def test_an_interruption_is_an_end_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match=r"stopped and saved after step 1 of 3") as stopped:
        train_recipe(
            small("classify", "still"), tmp_path / "run", quiet=True, interrupted=lambda: True
        )
    why = "training ended after step 1 of 3: interrupted"
    assert journal(tmp_path / "run")[-2:] == [why, str(stopped.value)]


@pytest.mark.parametrize(("metric", "sign"), [("loss", -1), ("macro_f1", 1), (None, 1)])
def test_the_best_model_is_chosen_by_the_metric_asked_for(
    metric: str | None, sign: int, tmp_path: Path
) -> None:
    chosen = small("classify", "still", steps=8, evaluate_every=1, learning_rate=0.3)
    training = chosen.training.model_copy(update={"best_metric": metric, "keep_best": 2})
    train_recipe(chosen.model_copy(update={"training": training}), tmp_path / "run", quiet=True)
    rows = evaluated(tmp_path / "run")
    name = metric or "accuracy"

    def rank(row: dict[str, Any]) -> tuple[float, float]:
        return sign * row["valid"][name], -row["valid"]["loss"]

    for place, row in enumerate(rows):
        assert row["best"] == all(rank(row) > rank(before) for before in rows[:place])
    best = max(rows, key=rank)
    assert load(tmp_path / "run").facts["step"] == best["step"]
    kept = {path.name for path in (tmp_path / "run/checkpoints").iterdir()}
    assert kept == {f"step-{row['step']:06}" for row in sorted(rows, key=rank)[-2:]}


def test_a_metric_that_is_none_is_refused_before_training(tmp_path: Path) -> None:
    chosen = small("tag", "gru", best_metric="f1")
    message = r"training.best_metric = 'f1': task tag is scored by span_f1, accuracy, loss; choose"
    with pytest.raises(ConfigError, match=message):
        train_recipe(chosen, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def begun(task: str, family: str = "still", **data: Any) -> tuple[Setup, Any]:
    """All that a run begins with, and its examples."""
    chosen = small(task, family)
    chosen = chosen.model_copy(update={"data": chosen.data.model_copy(update=data)})
    return set_up(chosen, lambda line: None), load_examples(chosen, lambda line: None)


def test_the_baseline_of_classes_is_the_majority() -> None:
    setup, examples = begun("classify")
    baseline = setup.task.baseline(setup.items, setup.test)
    ((label, _),) = Counter(record.label for record in examples.train).most_common(1)
    gold = [record.label for record in examples.test]
    numbers = baseline.score.numbers
    assert numbers["accuracy"] == gold.count(label) / len(gold)
    assert numbers["macro_f1"] == metrics.macro_f1([label] * len(gold), gold)
    assert repr(label) in baseline.name


@pytest.mark.parametrize("family", ["still", "spelling"])
def test_the_baseline_of_tags_is_the_usual_tag_of_the_word(family: str) -> None:
    """Counted over words; the vocabulary holds all of them."""
    setup, examples = begun("tag", family)
    usual: dict[str, Counter[str]] = {}
    for record in examples.train:
        for word, tag in zip(record.words, record.tags, strict=True):
            usual.setdefault(word, Counter())[tag] += 1
    every = sum(usual.values(), Counter())
    predicted = [
        [usual.get(word, every).most_common(1)[0][0] for word in record.words]
        for record in examples.test
    ]
    gold = [list(record.tags) for record in examples.test]
    numbers = setup.task.baseline(setup.items, setup.test).score.numbers
    assert numbers["span_f1"] == metrics.span_f1(predicted, gold)
    assert 0 < numbers["span_f1"] < 1


def test_the_baseline_of_text_is_its_unigram_perplexity() -> None:
    setup, examples = begun("language")
    assert isinstance(setup.task, Language)
    numbers = setup.task.baseline(setup.items, setup.test).score.numbers
    tokenizer, words = setup.task.tokenizer, Counter[int]()
    for record in examples.train:
        words.update([*tokenizer.encode(record.text), tokenizer.eos_id])
    total = words.total() + len(tokenizer)  # one is added for every token
    targets = [target for item in setup.test for target in item.targets]
    expected = math.exp(-sum(math.log((words[t] + 1) / total) for t in targets) / len(targets))
    assert numbers["perplexity"] == pytest.approx(expected, rel=1e-9)
    assert numbers["loss"] == pytest.approx(math.log(expected))


def test_the_baseline_of_translation_is_a_copy() -> None:
    setup, examples = begun("translate")
    numbers = setup.task.baseline(setup.items, setup.test).score.numbers
    source = setup.task.vocabularies["source"]
    copied = [source.decode(source.encode(record.source)) for record in examples.test]
    gold = [record.target for record in examples.test]  # as it is written: unknown words count
    assert numbers["chrf"] == metrics.translation(copied, gold)[0]["chrf"]


@pytest.mark.parametrize("standardise", [True, False])
def test_the_baseline_of_numbers_is_their_mean(standardise: bool) -> None:
    setup, examples = begun("regress", "mlp", standardise=standardise)
    mean = math.fsum(record.outputs[0] for record in examples.train) / len(examples.train)
    gold = [record.outputs[0] for record in examples.test]
    numbers = setup.task.baseline(setup.items, setup.test).score.numbers
    error = sum((y - mean) ** 2 for y in gold) / len(gold)
    assert numbers["rmse"] == pytest.approx(error**0.5, rel=1e-12)
    assert numbers["r_squared"] == pytest.approx(metrics.r_squared([mean] * len(gold), gold))
    assert numbers["r_squared"] <= 0


@pytest.mark.slow
@pytest.mark.parametrize("fitted", [True, False])
def test_a_model_that_is_not_better_is_said_loudly(fitted: bool, tmp_path: Path) -> None:
    """Of no use after one tiny step, better after many: in the log, test.json, the card, `evaluate`
    and its JSON; with a fitted baseline and without."""
    for name, more in (
        ("bad", ["training.steps=1", "training.learning_rate=1e-9"]),
        ("good", ["training.steps=400", "training.learning_rate=0.01"]),
    ):
        small_net = ["data.toyland=200", "model.hidden=[8]", "training.device=cpu"]
        small_net += [f"training.baseline={str(fitted).lower()}"]
        done = run("train", "regress", "--out", name, *small_net, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        text = journal(tmp_path / name)
        ended = next(i for i, line in enumerate(text) if line.startswith("training ended"))
        lines = [line for line in text[ended:] if "baseline" in line.lower()]
        result = json.loads((tmp_path / name / "test.json").read_text("utf-8"))
        noted = [result["baseline"], *result.get("other_baselines", ())]
        card = (tmp_path / name / "best/README.md").read_text("utf-8")
        assert [one["better"] for one in noted] == [name == "good"] * (1 + fitted)
        assert noted[-1]["name"] == "the training mean"
        loud = [line.startswith("! ") and "NOT BETTER THAN THE BASELINE" in line for line in lines]
        both = [False, name == "bad"] if fitted else [name == "bad"]
        expected = both * 2 if name == "bad" or not fitted else [False] * 2
        assert loud == [*expected, *([False] if fitted and name == "bad" else [])], lines
        parts = [line.removeprefix("! ").split(":")[0] for line in lines]
        assert parts == sorted(parts, reverse=True)
        assert {*parts} == {"valid", "test"}
        bold = card.count("**This model is not better than the baseline.**")
        assert bold == (0 if name == "good" else len(noted))
        assert "(the training mean)" in card
        shown = json.loads(run("evaluate", name, "--json", cwd=tmp_path).stdout)
        assert [shown["baseline"], *shown.get("other_baselines", ())] == noted
        printed = run("evaluate", name, cwd=tmp_path).stdout
        for one in noted:
            assert f"baseline: {one['name']}\n  {'r_squared':<18} " in printed


def test_a_self_test_says_what_is_to_be_beaten(tmp_path: Path) -> None:
    small_net = ["data.toyland=60", "model.hidden=[8]", "training.device=cpu"]
    done = run("train", "regress", "--self-test", *small_net, cwd=tmp_path)
    assert "the training mean: r_squared -" in done.stdout
    (beat,) = [line for line in done.stdout.splitlines() if "the score to beat" in line]
    assert "linear model: r_squared 0." in beat
    done = run("train", "regress", "--self-test", *small_net[:1], "training.device=cpu",
               "training.baseline=false", cwd=tmp_path)  # fmt: skip
    (beat,) = [line for line in done.stdout.splitlines() if "the score to beat" in line]
    assert "the training mean: r_squared -" in beat


def test_a_run_begun_before_a_key_was_added_resumes_as_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recipe.ADDED, "data.standardise", False)  # as if the key were new
    chosen = recipe.parse(
        {"task": {"kind": "regress"}, "data": {"toyland": 60, "standardise": False},
         "training": {"steps": 2, "device": "cpu", "warmup": 1, "batch_tokens": 64}}
    )  # fmt: skip
    train_recipe(chosen, tmp_path / "run", quiet=True)
    path = tmp_path / "run/recipe.toml"
    text = path.read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("standardise = false")]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    state = next((tmp_path / "run/state").glob("step-*")) / "state.json"
    now = json.loads(state.read_text("utf-8"))["fingerprint"]
    before = now | {"recipe": {k: v for k, v in now["recipe"].items() if k != "data.standardise"}}
    assert now["recipe"]["data.standardise"] is False
    assert fingerprint.changes(before, now) == []
    assert recipe.of_run(tmp_path / "run").data.standardise is False
    assert recipe.read(path).data.standardise is True
    resume_run(tmp_path / "run", quiet=True)
