"""Cross-validation: the mean of the runs that it makes, and refusals before anything is trained."""

import json
import math
from pathlib import Path
from statistics import fmean, stdev

import pytest
from tests.in_process import run

from translucid.core.errors import InputError, Interrupted
from translucid.runs.cross_validation import cross_validate
from translucid.runs.recipe.recipe import of_run, parse
from translucid.tasks.model_folder import load
from translucid.tasks.significance import mean_interval

SMALL = ["training.steps=2", "training.evaluate_every=1", "model.d_model=8", "model.layers=1",
         "model.heads=2", "tokenizer.kind=word"]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{'good' if n % 3 else 'bad'} film {n},{'pos' if n % 3 else 'neg'}" for n in range(31)]
    (tmp_path / "a.csv").write_text("text,label\n" + "\n".join(rows) + "\n", "utf-8")
    return tmp_path


def test_the_summary_is_the_mean_of_the_runs(folder: Path) -> None:
    command = ["train", "classify", "--train", "a.csv", "--folds", "3", "--out", "cv", *SMALL]
    done = run(*command, cwd=folder)
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / "cv/folds.json").read_text("utf-8"))
    runs = [folder / f"cv/fold-{number}" for number in (1, 2, 3)]
    for metric in ("accuracy", "macro_f1", "loss"):
        values = [load(place / "best").facts["valid"][metric] for place in runs]
        found = summary["valid"][metric]
        assert found["values"] == values
        assert found["mean"] == pytest.approx(fmean(values))
        reach = 4.30265 * stdev(values) / math.sqrt(3)  # of the table, for 2 degrees of freedom
        assert found["high"] - found["mean"] == pytest.approx(reach, rel=1e-4)
        assert f"{found['mean']:.4f}" in done.stdout
    assert (summary["folds"], summary["examples"], sum(summary["held_out"])) == (3, 31, 31)
    assert "3 folds, 31 examples" in done.stdout
    sizes = {of_run(place).training.batch_tokens for place in runs}
    assert len(sizes) == 1, "the settings picked for one are those of all"
    again = run(*command, cwd=folder)
    assert again.stdout == done.stdout, "finished folds are not repeated"
    other = run(*command, "training.seed=1", cwd=folder)
    assert other.returncode == 2
    assert "training.seed = 0, now it is 1" in other.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--folds", "1"], "--folds 1: must be at least 2"),
        (["--folds", "0"], "must be at least 2"),
        (["--folds", "32"], "31 examples, too few for 32 folds"),
        (["--folds", "3", "--valid", "a.csv"], "data.valid cannot be set"),
        (["--folds", "3", "--studio"], "--studio"),
    ],
)
def test_what_is_no_cross_validation_is_refused(
    folder: Path, words: list[str], message: str
) -> None:
    done = run("train", "classify", "--train", "a.csv", "--out", "cv", *words, *SMALL, cwd=folder)
    assert done.returncode != 0
    assert message in done.stderr
    assert not (folder / "cv").exists()


def test_a_folder_of_something_else_is_refused(folder: Path) -> None:
    (folder / "cv").mkdir()
    (folder / "cv/notes.txt").write_text("mine")
    done = run("train", "classify", "--train", "a.csv", "--out", "cv", "--folds", "2", *SMALL,
               cwd=folder)  # fmt: skip
    assert "cv contains notes.txt" in done.stderr
    assert [path.name for path in (folder / "cv").iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_a_stopped_cross_validation_continues_where_it_was(folder: Path) -> None:
    data = {"train": [str(folder / "a.csv")]}
    chosen = parse({"task": {"kind": "classify"}, "data": data}, SMALL)
    whole = cross_validate(chosen, folder / "whole", 2, quiet=True)
    with pytest.raises(Interrupted, match=r"run the same command again with --out"):
        cross_validate(
            chosen, folder / "cv", 2, quiet=True,
            interrupted=lambda: (folder / "cv/fold-2/state").exists(),
        )  # fmt: skip
    assert not (folder / "cv/folds.json").exists()
    assert cross_validate(chosen, folder / "cv", 2, quiet=True).valid == whole.valid
    with pytest.raises(InputError, match=r"holds fold-2|started with data\.fold"):
        cross_validate(chosen, folder / "cv", 3, quiet=True)


def test_an_interval_is_that_of_the_table() -> None:
    mean, low, high = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    assert high - mean == pytest.approx(3.18245 * stdev([1, 2, 3, 4]) / 2, rel=1e-5)
    assert mean - low == pytest.approx(high - mean)
