"""Unit tests of the page's modules (units/*.test.js), which node runs; skipped without node."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OLDEST = 20  # of node: its test runner, and array methods that the page uses
UNITS = sorted((HERE / "units").glob("*.test.js"))


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("the page's unit tests need node, which is not in PATH")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    if int(version.stdout.strip().removeprefix("v").partition(".")[0]) < OLDEST:
        pytest.skip(f"the page's unit tests need node {OLDEST}, not {version.stdout.strip()}")
    return found


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name.partition(".")[0])
def test_units_of_the_page(file: Path) -> None:
    ran = subprocess.run(
        [node(), "--test", "--test-reporter=tap", str(file)],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# fail 0" in ran.stdout
    assert "# pass 0" not in ran.stdout, "no test was found"
