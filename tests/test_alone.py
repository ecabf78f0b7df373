"""CI runs once more, alone, the few tests that failed beside others, and believes nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ALONE = Path(__file__).parent.parent / ".ci" / "alone.py"
FAILS_ONCE = """
from pathlib import Path
def test_once():
    again = Path("begun").exists()
    Path("begun").touch()
    assert again
"""
FAILS = "def test_never():\n    assert False\n"


def ran(folder: Path) -> tuple[int, str]:
    """pytest as `make tests` runs it, then what CI does where that failed."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = thorough: not here\n")
    few = {  # quicker, and whatever options the tests themselves are run with
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin",
        "PYTEST_ADDOPTS": "",
    }  # fmt: skip
    first = [sys.executable, "-m", "pytest", "-q"]
    code = subprocess.run(first, cwd=folder, env=os.environ | few).returncode
    told = subprocess.run(
        [sys.executable, ALONE, str(code)], cwd=folder, capture_output=True, encoding="utf-8",
        env=os.environ | few,
    )  # fmt: skip
    return told.returncode, told.stdout


@pytest.mark.slow
def test_what_passes_alone_is_named_and_passes(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(FAILS_ONCE, "utf-8")
    code, told = ran(tmp_path)
    assert code == 0
    assert "failed beside others, passed alone: test_a.py::test_once\n" in told


@pytest.mark.slow
def test_what_fails_alone_fails(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(FAILS_ONCE + FAILS, "utf-8")
    code, told = ran(tmp_path)
    assert code == 1
    assert "failed beside others, passed alone: test_a.py::test_once\n" in told
    assert "passed alone: test_a.py::test_never" not in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("".join(FAILS.replace("never", str(n)) for n in range(6)), 1),  # too many
        ("import nothing_of_this_name\n", 2),
    ],
)
def test_more_than_a_few_and_what_is_no_test_are_not_tried_again(
    tmp_path: Path, text: str, wanted: int
) -> None:
    (tmp_path / "test_a.py").write_text(text, "utf-8")
    code, told = ran(tmp_path)
    assert code == wanted
    assert "once more" not in told.replace("are run once more", "")
