"""Run folders written by version 0.x still open, answer as before, and resume.

`tests/fixtures/runs-0.x` contains them; `make.py` there wrote them.
"""

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

import translucid as tl

KEPT = Path(__file__).parent.parent / "fixtures" / "runs-0.x"
MAKE = runpy.run_path(str(KEPT / "make.py"))
EXPECTED = json.loads((KEPT / "answers.json").read_text("utf-8"))
FLOATS = {"rel": 1e-4, "abs": 1e-5}  # another processor rounds differently


def assert_close(found: Any, expected: Any) -> None:
    """Equal structure and text; numbers equal up to rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_close(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == (pytest.approx(expected, **FLOATS) if isinstance(expected, float)
                         else expected)  # fmt: skip


@pytest.mark.parametrize("task", MAKE["RUNS"])
def test_a_kept_run_answers_as_before(task: str) -> None:
    assert_close(MAKE["answers"](tl.load(KEPT / task)), EXPECTED[task])


@pytest.mark.parametrize("task", MAKE["RESUMED"])
def test_a_kept_run_resumes_to_the_same_metrics(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(KEPT / task, tmp_path / "run")
    monkeypatch.chdir(KEPT)  # its recipe names the data files relative to here
    tl.resume(tmp_path / "run", quiet=True)
    assert "resumed at step 4 of 6" in (tmp_path / "run" / "log.txt").read_text("utf-8")
    expected = dict(EXPECTED[f"{task}, resumed"])
    assert_close(MAKE["metrics"](tmp_path / "run"), expected.pop("metrics"))
    assert_close(MAKE["answers"](tl.load(tmp_path / "run" / "last")), expected)
