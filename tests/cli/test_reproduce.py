"""`translucid reproduce`: seeds, mean and spread, the band, and going on after a stop."""

import json
import statistics
from pathlib import Path

import pytest
from tests.in_process import run

from translucid.runs import reproduce
from translucid.runs.recipe import named
from translucid.runs.reproduce import Band, Reproduction

SMALL = ["data.toyland=60", "training.steps=2", "model.hidden=[4]"]


@pytest.fixture
def expecting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The shelf with a band of our own."""
    own = tmp_path / "shelf"
    own.mkdir()
    for path in named.FOLDER.glob("toyland-regress*"):
        (own / path.name).write_text(path.read_text("utf-8"), "utf-8")
    monkeypatch.setattr(named, "FOLDER", own)
    return own


def test_seeds_are_averaged_and_compared(expecting: Path, tmp_path: Path) -> None:
    band = {"metric": "rmse", "low": 0.0, "high": 100.0}
    (expecting / "expected.json").write_text(json.dumps({"toyland-regress-mlp": band}))
    words = ["reproduce", "toyland-regress-mlp", *SMALL, "--seeds", "2", "--json", "--quiet"]
    answer = run(*words, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    result = json.loads(answer.stdout)
    runs = tmp_path / "runs/reproduce/toyland-regress-mlp"
    scores = [
        json.loads((runs / f"seed-{s}/test.json").read_text("utf-8"))["test"]["rmse"]
        for s in (0, 1)
    ]
    assert list(result["scores"].values()) == scores
    assert scores[0] != scores[1]
    assert result["mean"] == pytest.approx(statistics.fmean(scores))
    assert result["within"] is True
    again = run(*words, cwd=tmp_path)  # nothing is trained twice
    assert json.loads(again.stdout) == result


def test_mean_outside_the_band_is_reported(expecting: Path, tmp_path: Path) -> None:
    band = {"metric": "rmse", "low": 0.0, "high": 1e-9}
    (expecting / "expected.json").write_text(json.dumps({"toyland-regress-mlp": band}))
    answer = run("reproduce", "toyland-regress-mlp", *SMALL, "--seeds", "1", cwd=tmp_path)
    assert answer.returncode == 3
    assert "expected: 0 to 1e-09: OUTSIDE" in answer.stdout


def test_reproduce_without_a_band(expecting: Path, tmp_path: Path) -> None:
    answer = run("reproduce", "toyland-regress-mlp", *SMALL, "--seeds", "1", cwd=tmp_path)
    assert answer.returncode == 0
    assert "expected: no band is recorded" in answer.stdout


def test_the_spread_is_that_of_the_seeds() -> None:
    scores = {0: 1.0, 1: 2.0, 2: 4.0}
    result = Reproduction(
        "x", "bleu", scores, dict.fromkeys(scores, 1.0), (), Band("bleu", 2.4, 3.0)
    )
    assert result.mean == pytest.approx(7 / 3)
    assert result.spread == pytest.approx(statistics.stdev([1, 2, 4]))
    assert result.within is False


def test_every_band_belongs_to_a_shipped_recipe() -> None:
    names = {entry.name for entry in named.entries()}
    assert set(reproduce.bands()) <= names
