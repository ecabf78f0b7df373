"""Where nothing is compiled yet, one process collects before the others."""

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SLOW_TO_COLLECT = """
import os, time
def note(word):
    with open("notes.txt", "a") as notes:
        print(os.environ["PYTEST_XDIST_WORKER"], word, file=notes)
note("begins")
time.sleep(0.3)
note("ends")
def test_nothing(): pass
"""


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("PYTHONDONTWRITEBYTECODE") == "1", reason="nothing is kept")
def test_one_collects_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makepyfile(SLOW_TO_COLLECT)
    options = ("-p", "tests.tiny.once", "-p", "tests.first", "-n", "2")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)
    (first, begins), (same, ends) = (
        line.split() for line in (pytester.path / "notes.txt").read_text("utf-8").splitlines()[:2]
    )
    assert (first, begins, ends) == (same, "begins", "ends")
