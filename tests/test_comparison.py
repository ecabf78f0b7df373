"""Models compared on the same examples: the command, `tl.compare`, and what cannot be compared."""

import json
import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.data.toyland import Toyland
from translucid.model.comparison import Compared, Comparison
from translucid.runs.recipe import recipe
from translucid.runs.run import train_recipe
from translucid.tasks.score import Criterion

PAIR = ("demo:translate", "demo:translate-lstm")
FEW = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Sentences that the small models do not all translate well."""
    folder = tmp_path_factory.mktemp("data")
    made = list(islice(Toyland().sentences("test"), 60, 60 + FEW))
    for name in ("source", "target"):
        lines = "".join(getattr(sentence, name) + "\n" for sentence in made)
        (folder / name).write_text(lines, "utf-8")
    return [str(folder / name) for name in ("source", "target")]


@pytest.fixture(scope="module")
def comparison(files: list[str]) -> Comparison:
    return tl.compare(PAIR, *files, samples=200)


def trained(folder: Path, task: str, **sections: Any) -> Path:
    settings = {"steps": 2, "batch_tokens": 400, "warmup": 1, "device": "cpu"}
    model = {} if task == "regress" else {"d_model": 8, "heads": 2, "layers": 1}
    values = {"task": {"kind": task}, "training": settings, "model": model}
    values["tokenizer"] = {"kind": "word"}
    train_recipe(recipe.parse(values | sections), folder, quiet=True)
    return folder


def test_the_scores_are_those_of_evaluate(comparison: Comparison, files: list[str]) -> None:
    for place, name in enumerate(PAIR):
        score = tl.load(name).evaluate(*files)
        column = {metric: rows[place].score for metric, rows in comparison.metrics.items()}
        assert column == score.numbers
        assert {rows[place].model for rows in comparison.metrics.values()} == {name}
    assert comparison.examples == FEW


def test_swapping_models_changes_the_sign_of_differences(
    comparison: Comparison, files: list[str]
) -> None:
    other = tl.compare([tl.load(name) for name in reversed(PAIR)], *files, samples=200)
    assert comparison.metrics["bleu"][1].difference != 0
    for metric, (first, second) in comparison.metrics.items():
        again, before = other.metrics[metric]
        assert (first.difference, again.difference) == (None, None)
        assert second.difference == second.score - first.score
        assert before.difference == -second.difference
        assert before.p == second.p
        assert (again.interval, before.interval) == (second.interval, first.interval)


def test_a_model_does_not_differ_from_itself(files: list[str]) -> None:
    same = tl.compare(["demo:translate"] * 3, *files, samples=50)
    for rows in same.metrics.values():
        assert [(row.difference, row.p) for row in rows] == [(None, None), (0.0, 1.0), (0.0, 1.0)]


def row(
    model: str, score: float, difference: float | None = None, p: float | None = None
) -> Compared:
    return Compared(model, score, None, difference, p)


def test_conclusions_follow_from_p_values() -> None:
    def answers(higher: bool, *others: Compared) -> list[str]:
        rows = {
            "metric": [row("a", 5.0), *others],
            "loss": [row("a", 1.0), row("b", 2.0, 1.0, 0.9)],
        }
        return Comparison(rows, 10, 99, 0, Criterion("metric", higher)).answers()

    more, less = row("b", 6.0, 1.0, 0.01), row("c", 4.0, -1.0, 0.049)
    rarely = "by metric: a difference this large arises at random in"
    assert answers(True, more, less) == [
        f"b is better than a {rarely} 1.0% of cases", f"c is worse than a {rarely} 4.9% of cases",
    ]  # fmt: skip
    assert [line.split()[2] for line in answers(False, more, less)] == ["worse", "better"]
    assert answers(True, row("b", 6.0, 1.0, 0.05)) == [
        f"b is not shown to be better than a {rarely} 5.0% of cases"
    ]
    assert answers(True, row("b", 5.0, 0.0, 1.0)) == ["b is as good as a by metric"]
    assert answers(True, row("b", 6.0, 1.0)) == [], "examples that make no pairs"


def test_metrics_that_are_better_when_less_say_so(comparison: Comparison) -> None:
    table = comparison.table()
    assert comparison.less_is_better == ("loss",)
    assert "\nloss (less is better)  demo:translate " in table
    assert "\nbleu                   demo:translate " in table
    assert table.splitlines()[-1] == comparison.answers()[-1]


def test_on_the_command_line(comparison: Comparison, files: list[str]) -> None:
    done = run("compare", *PAIR, *files, "--samples", "200", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(comparison.as_dict()))
    shown = run("compare", *PAIR, "--data", *files, "--samples", "200", "--seed", "1").stdout
    lines = shown.splitlines()
    assert " ".join(lines[0].split()) == "metric model score 95 % interval difference p"
    rows = [line.split() for line in lines if "demo:" in line]
    bleu = comparison.metrics["bleu"]
    assert [row[-1] for row in rows[1:2]] != [""]
    assert rows[0][:3] == ["bleu", "demo:translate", f"{bleu[0].score:.4f}"]
    assert rows[1][:2] == ["demo:translate-lstm", f"{bleu[1].score:.4f}"]
    assert rows[1][5] == f"{bleu[1].difference:+.4f}"
    assert f"{FEW} examples; intervals by bootstrap" in lines[-2]
    assert "200 samples, seed 1" in lines[-2]


def test_decoding_options_apply_to_all_models(files: list[str]) -> None:
    greedy = tl.compare(["demo:translate"] * 2, *files, samples=1, beam_size=3)
    score = tl.load("demo:translate").evaluate(*files, beam_size=3)
    assert greedy.metrics["loss"][1].score == score.numbers["loss"]


DATA: dict[str, tuple[str, str]] = {
    "classify": ("c.csv", "label,text\n" + "a,fine day\nb,sad day\na,fine\nb,a sad dog\n" * 3),
    "tag": ("t.conll", "Anna B-PER\nsleeps O\n\nin O\nRome B-LOC\n\nAnna B-PER\nKeller I-PER\n"),
    "regress": ("n.csv", "a,b,y\n" + "1,2,5\n2,0,1\n0,1,3\n3,3,8\n"),
    "language": ("l.txt", "a dog sleeps\nthe cat sees a dog\nthe dog\na cat\n" * 4),
}


@pytest.mark.parametrize("task", DATA)
def test_sums_over_all_examples_are_the_score(task: str, tmp_path: Path) -> None:
    """Every number of every task, also after its examples were cut up."""
    name, text = DATA[task]
    (tmp_path / name).write_text(text, "utf-8")
    file = str(tmp_path / name)
    data = {part: [file] for part in ("train", "valid", "test")} | {"max_length": 6}
    models: list[dict[str, Any]] = [{"d_model": n, "heads": 2, "layers": 1} for n in (8, 16)]
    if task == "regress":
        models = [{"hidden": [n]} for n in (4, 8)]
    runs = [
        trained(tmp_path / f"run{place}", task, data=data, model=model)
        for place, model in enumerate(models)
    ]
    score = tl.load(runs[0]).evaluate()
    sums = score.sums()
    assert {name: one.value for name, one in sums.items()} == pytest.approx(score.numbers, rel=1e-5)
    result = tl.compare(runs, samples=20)  # on their own test data, which is the same
    for metric, rows in result.metrics.items():
        assert [row.score for row in rows] == [tl.load(r).evaluate().numbers[metric] for r in runs]
        assert rows[1].p is not None
        for row in rows:
            assert row.interval is not None
            assert row.interval[0] <= row.interval[1]
    assert not result.notes


def test_losses_by_token_of_other_tokenizers_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text(DATA["language"][1], "utf-8")
    data = {part: [str(tmp_path / "l.txt")] for part in ("train", "valid", "test")}
    runs = [
        trained(tmp_path / kind, "language", data=data, tokenizer={"kind": kind})
        for kind in ("word", "char")
    ]
    done = run("compare", "word", "char", "--samples", "20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = tl.compare(runs, samples=20)
    assert [*result.metrics] == ["bits_per_character"]
    first, second = result.metrics["bits_per_character"]
    assert second.difference == second.score - first.score
    assert second.p is None
    for line in (
        "perplexity is left out: it is per token of the model's own tokenizer, which differs",
        "bits_per_character has no p-value: the models read the text in different rows",
    ):
        assert line in done.stdout


def test_translators_of_other_tokenizers_are_compared_by_their_texts(tmp_path: Path) -> None:
    for name, lines in (("a.en", "a dog\nthe cat\na cat\n"), ("a.de", "ein h\ndie k\neine k\n")):
        (tmp_path / name).write_text(lines, "utf-8")
    data = {part: [str(tmp_path / f"a.{x}") for x in ("en", "de")] for part in ("train", "test")}
    runs = [
        trained(tmp_path / kind, "translate", data=data | {"valid": data["test"]},
                tokenizer={"kind": kind})
        for kind in ("word", "char")
    ]  # fmt: skip
    result = tl.compare(runs, samples=5)
    assert [*result.metrics] == ["bleu", "chrf", "exact_match"]
    assert all(rows[1].p is not None for rows in result.metrics.values())
    (note,) = (note for note in result.notes if not note.startswith("warning: "))
    assert note.startswith("loss is left out: it is per token of the model's own tokenizer")


def test_a_score_can_be_pickled(files: list[str]) -> None:
    score = tl.load("demo:translate").evaluate(*files)
    again = pickle.loads(pickle.dumps(score))
    assert (again, again.predictions, again.sums()) == (score, score.predictions, {})


def test_what_cannot_be_resampled_has_no_interval(tmp_path: Path) -> None:
    """How often a text finds its partner depends on all the others."""
    pairs = "".join(f"the {word} sleeps\ta {word} is asleep\n" for word in ("dog", "cat", "bird"))
    (tmp_path / "p.tsv").write_text("sentence1\tsentence2\n" + pairs, "utf-8")
    data = {part: [str(tmp_path / "p.tsv")] for part in ("train", "valid", "test")}
    runs = [
        trained(tmp_path / f"{width}", "embed", data=data, model={"d_model": width, "heads": 2})
        for width in (8, 16)
    ]
    result = tl.compare(runs)
    scores = [tl.load(run).evaluate().numbers for run in runs]
    for metric, (first, second) in result.metrics.items():
        assert second.difference == scores[1][metric] - scores[0][metric]
        assert (first.interval, second.interval, second.p) == (None, None, None)
        assert f"{metric} has no p-value: it is not a function of sums over examples" in (
            result.table()
        )
    assert "bootstrap" not in result.table()


def test_what_cannot_be_compared(tmp_path: Path, files: list[str]) -> None:
    with pytest.raises(InputError, match="demo:tag is for task tag"):
        tl.compare(["demo:classify", "demo:tag"])
    with pytest.raises(ConfigError, match="two or more models"):
        tl.compare("demo:classify")
    with pytest.raises(ConfigError, match="samples = 0"):
        tl.compare(PAIR, *files, samples=0)
    texts = ["a fine day", "a sad day", "a very long and rather sad day", "fine"]
    for name, some in (("one", texts), ("two", texts[:2])):
        lines = [f"{'ab'['sad' in text]},{text}\n" for text in some]
        (tmp_path / f"{name}.csv").write_text("label,text\n" + "".join(lines), "utf-8")
    runs = []
    for name, length in (("one", 20), ("two", 20), ("one", 6)):
        file = str(tmp_path / f"{name}.csv")
        data = {part: [file] for part in ("train", "valid", "test")}
        data |= {"max_length": length, "long": "skip"}
        runs.append(trained(tmp_path / f"{name}{length}", "classify", data=data))
    with pytest.raises(InputError, match=r"the test data of .*two20 differs from that of .*one20"):
        tl.compare(runs[:2])
    with pytest.raises(InputError, match=r"one20 was scored on 4 examples and .*one6 on 3"):
        tl.compare([runs[0], runs[2]])
    both = tl.compare([runs[0], runs[2]], max_length=20, samples=5)
    assert both.examples == 4


def test_mistakes_on_the_command_line(tmp_path: Path, files: list[str]) -> None:
    one = run("compare", "demo:translate", *files)
    assert one.returncode == 2
    assert "pass two or more: translucid compare RUN_A RUN_B FILE" in one.stderr
    assert "nowhere: no such model or file" in run("compare", *PAIR, "nowhere").stderr
    scored = run("evaluate", PAIR[0], PAIR[1], cwd=tmp_path)
    assert scored.returncode == 2
    assert "to compare models: translucid compare " in scored.stderr
