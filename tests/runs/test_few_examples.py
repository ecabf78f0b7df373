"""A score on few examples comes with their number; that on many, and on running text, without."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import translucid as tl
from translucid.runs.checks.data import DEVIATIONS, FEW, lowest_of_all_right

SMALL = {"d_model": 8, "heads": 2, "layers": 1}
TRAINING = {"steps": 2, "batch_tokens": 400, "warmup": 1, "device": "cpu"}


def log_of(folder: Path, task: str, **data: Any) -> str:
    tl.train(task, folder, quiet=True, tokenizer={"kind": "word"}, model=SMALL, training=TRAINING,
             **data)  # fmt: skip
    return (folder / "log.txt").read_text("utf-8")


def rows(count: int) -> list[tuple[str, str]]:
    return [(f"word {n}", "ab"[n % 2]) for n in range(count)]


def test_examples_are_counted_beside_each_score(tmp_path: Path) -> None:
    log = log_of(tmp_path / "run", "classify", train=rows(60), test=rows(7))
    held_out = 60 // 5
    warned, *_ = (line for line in log.splitlines() if line.startswith("! only 12 validation"))
    assert (
        f"12 of 12 correct: 95 % interval of accuracy {lowest_of_all_right(held_out):.2f} to 1"
        in warned
    )
    assert warned.endswith("--valid FILE")
    scores = [line for line in log.splitlines() if " valid: accuracy" in line]
    assert scores
    assert all("  (12 examples)" in line for line in scores if line.startswith("step"))
    assert any(line.startswith("test: ") and "  (7 examples)" in line for line in log.splitlines())
    written = map(json.loads, (tmp_path / "run/metrics.jsonl").read_text("utf-8").splitlines())
    assert {frozenset(one) for one in written if "valid" in one} == {
        frozenset({"step", "valid", "best", "examples", "left_out", "truncated"})
    }


def test_many_are_counted_without_a_warning(tmp_path: Path) -> None:
    log = log_of(tmp_path / "run", "classify", train=rows(40), valid=rows(FEW), test=rows(FEW - 1))
    assert "! only" not in log
    assert f"  ({FEW} examples)  (best" in log
    assert f"  ({FEW - 1} examples)" in log


def test_made_up_examples_lead_to_more_of_them(tmp_path: Path) -> None:
    log = log_of(tmp_path / "few", "tag", overrides=["data.toyland=40"])
    assert (
        "! only 50 validation examples: the score is unreliable; add more with --toyland 2000\n"
        in log
    )


def test_running_text_is_scored_token_by_token(tmp_path: Path) -> None:
    log = log_of(tmp_path / "run", "language", overrides=["data.toyland=40"])
    assert "examples)" not in log
    assert "! only" not in log


@pytest.mark.parametrize("count", [1, 10, 99])
def test_the_interval_is_wilsons(count: int) -> None:
    """Its end is the accuracy from which all right is just 1.96 deviations away."""
    low = lowest_of_all_right(count)
    assert 1 - low == pytest.approx(DEVIATIONS * math.sqrt(low * (1 - low) / count))
