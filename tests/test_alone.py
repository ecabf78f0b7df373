"""The scripts of CI: failed tests run once more, alone; every file alone; some files elsewhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / ".ci"
ALONE = SCRIPTS / "alone.py"
FAILS_ONCE = """
from pathlib import Path
def test_once():
    again = Path("begun").exists()
    Path("begun").touch()
    assert again
"""
FEW = {  # quicker, and whatever options the tests themselves are run with
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin", "PYTEST_ADDOPTS": "",
}  # fmt: skip
FAILS = "def test_never():\n    assert False\n"


def ran(folder: Path) -> tuple[int, str]:
    """pytest as `make tests` runs it, then what CI does where that failed."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = thorough: not here\n")
    first = [sys.executable, "-m", "pytest", "-q"]
    code = subprocess.run(first, cwd=folder, env=os.environ | FEW).returncode
    told = subprocess.run(
        [sys.executable, ALONE, str(code)], cwd=folder, capture_output=True, encoding="utf-8",
        env=os.environ | FEW,
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


@pytest.mark.slow
def test_a_file_that_needs_another_before_it_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text("import sys\nsys.made = 1\ndef test_a(): pass\n")
    (tmp_path / "test_b.py").write_text("import sys\ndef test_b(): assert sys.made\n")
    together = subprocess.run([sys.executable, "-m", "pytest"], cwd=tmp_path, env=os.environ | FEW)
    assert together.returncode == 0
    each = subprocess.run(
        [sys.executable, SCRIPTS / "each_file.py", "not slow", "."],
        cwd=tmp_path, capture_output=True, encoding="utf-8", env=os.environ | FEW,
    )  # fmt: skip
    assert each.returncode == 1
    assert each.stdout.endswith("1 of 2 test files fail alone\ntest_b.py\n")


FINE = "def test_fine(): pass\n"
ELSEWHERE = {
    "fine": (FINE, 0),
    "a space": ("def test_it(tmp_path):\n    assert ' ' not in __file__\n", 1),
    "an encoding": ("def test_it(tmp_path):\n    (tmp_path / 'a').write_text('\u00fc')\n", 1),
    "the checkout": ("from pathlib import Path\ndef test_it():\n    Path('kept').unlink()\n", 0),
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
@pytest.mark.parametrize("name", ELSEWHERE)
def test_elsewhere_is_another_folder_and_locale(name: str, tmp_path: Path) -> None:
    text, wanted = ELSEWHERE[name]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = thorough: not here\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(text, "utf-8")
    (tmp_path / "kept").touch()
    ran = subprocess.run(
        [sys.executable, SCRIPTS / "elsewhere.py"],
        cwd=tmp_path, capture_output=True, encoding="utf-8", env=os.environ | FEW,
    )  # fmt: skip
    assert ran.returncode == wanted, ran.stdout
    assert "1 of 1 test files in " in ran.stdout
    assert "TRANSLUCID_TESTS_SEED=" in ran.stdout
    assert (tmp_path / "kept").exists()
