"""An exercise of one's own in one file, through the command line as users type it."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.forked import TRANSLUCID
from tests.in_process import run
from tests.own_code import forgetting_own_code

from translucid.worked import EXERCISES

ROOT = Path(__file__).parent.parent.parent
OWN = "examples/own_exercise.py"


def test_an_own_exercise_is_solved_in_a_process_of_its_own() -> None:
    words = ["work", OWN, "--x", "1 2 4", "--w", "1 1 2", "--format", "json"]
    ran = subprocess.run(
        [*TRANSLUCID, *words], capture_output=True, encoding="utf-8", check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    steps = {step["symbol"]: step["value"] for step in json.loads(ran.stdout)["steps"]}
    assert steps == {"s": 4, "p": [0.25, 0.25, 0.5], "m": 2.75, "d": [-1.75, -0.75, 1.25]}


def test_an_own_exercise_has_what_the_others_have() -> None:
    with forgetting_own_code():
        assert "No numbers were given" in run("work", OWN, cwd=ROOT).stdout
        assert "x has 2 numbers and w has 1" in run("work", OWN, "--x", "1 2", "--w", "1").stderr
        from_input = run("work", OWN, "--file", "-", cwd=ROOT, stdin='x = "1 3"')
        assert "The mean is 2." in from_input.stdout
        unknown = run("work", OWN, "--wieght", "1", cwd=ROOT)
        assert "--wieght" in unknown.stderr
        assert unknown.returncode == 2


def test_help_does_not_run_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    code = (ROOT / OWN).read_text("utf-8")
    file.write_text(
        code.replace("import torch\n", "import torch\n\nraise SystemExit(7)\n"), "utf-8"
    )
    helped = run("work", str(file), "--help")
    assert helped.returncode == 0
    assert re.search(r"--w NUMBERS +Their weights", helped.stdout)
    with forgetting_own_code():
        assert run("work", str(file)).returncode == 7


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def broken(:\n", r"mine\.py:1: "),
        ("x = 1\n", r"mine\.py: has no exercise.*-> Solution"),
        ("def a() -> Solution: ...\ndef b() -> Solution: ...\n", r"mine\.py: has a, b; "),
        (
            "import translucid as tl\n\ndef a(x: str | None = None) -> tl.worked.Solution:\n"
            "    return [][1]\n",
            r"mine\.py:4 in a: IndexError",
        ),
    ],
)
def test_mistakes_in_the_file_are_reported_with_its_name(
    tmp_path: Path, code: str, said: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(code, "utf-8")
    with forgetting_own_code():
        ran = run("work", str(file))
    assert ran.returncode == 2
    assert re.search(said, ran.stderr, re.DOTALL), ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_file_that_does_not_exist() -> None:
    assert "nothing.py: no such file" in run("work", "nothing.py").stderr


def test_the_docs_name_every_exercise() -> None:
    names = [exercise.__name__.replace("_", "-") for exercise in EXERCISES]
    table = [
        line for line in (ROOT / "docs/guides/worked-solutions.md").read_text("utf-8").splitlines()
        if line.startswith("| `work ")
    ]  # fmt: skip
    listed = [
        name for line in table for name in re.findall(r"`(?:work )?([\w-]+)", line.split("|")[1])
    ]
    assert listed == names
