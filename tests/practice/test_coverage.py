"""Everything that docs/course/coverage.md lists runs."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run

PAGE = Path(__file__).parents[2] / "docs" / "course" / "coverage.md"
TEXT = PAGE.read_text("utf-8")
ROWS = re.findall(r"(?m)^\| ([KTPW]\d+) \| .* \| `(.*)` \|$", TEXT)
CALLS = dict.fromkeys(call for _, call in ROWS)
COMMANDS = [call for call in CALLS if call.startswith("translucid ")]
EXPRESSIONS = [call for call in CALLS if call not in COMMANDS]


def test_the_page_has_every_item_once() -> None:
    wanted = [f"K{i}" for i in range(1, 52)] + [f"T{i}" for i in range(1, 16)]
    wanted += [f"P{i}" for i in range(1, 20)] + [f"W{i:02}" for i in range(1, 43)]
    assert [item for item, _ in ROWS] == wanted
    assert len(re.findall(r"(?m)^\| [KTPW]\d", TEXT)) == len(ROWS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that some commands read."""
    (tmp_path / "source.txt").write_text("The dog sleeps.\n")
    (tmp_path / "target.txt").write_text("Der Hund schläft.\n", "utf-8")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_a_result(command: str, folder: Path) -> None:
    answer = run(*shlex.split(command)[1:], cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"\d|\w+", answer.stdout)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in re.findall(r"(?m)^>>> (.*)$", TEXT):
        exec(line, found)
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_has_a_value(
    expression: str, names: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert eval(expression, names) is not None
