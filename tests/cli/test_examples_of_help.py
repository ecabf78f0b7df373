"""What a newcomer types from `--help`, and is told when a model is for something else."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run
from typer.main import get_command

from translucid.cli import app
from translucid.data import shipped_models

EXAMPLE = re.compile(r"Example: (?:echo (\"[^\"]*\") \| )?translucid (.+)")


def examples(command: Any = None) -> Iterator[tuple[str, str]]:
    """Of all help texts, the examples that ask a model of the package: what is piped, and typed."""
    command = command or get_command(app)
    for text in (command.help or "", command.epilog or ""):
        for piped, typed in EXAMPLE.findall(text):
            if "demo:" in typed and not typed.startswith("explore"):  # which opens a page
                yield piped.strip('"'), typed
    for inner in getattr(command, "commands", {}).values():
        yield from examples(inner)


EXAMPLES = sorted(set(examples()))


def test_every_command_that_asks_a_model_has_one() -> None:
    asked = {typed.partition(" ")[0] for _, typed in EXAMPLES}
    shown = {about["command"] for about in shipped_models.manifest().values()}
    assert {*shown, "explain", "info"} <= asked


@pytest.mark.parametrize(("piped", "typed"), EXAMPLES)
def test_an_example_of_help_runs(piped: str, typed: str) -> None:
    answer = run(*shlex.split(typed), stdin=f"{piped}\n")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.strip()


@pytest.mark.parametrize("name", shipped_models.names())
def test_a_model_for_something_else_names_the_command_and_a_model_that_fits(name: str) -> None:
    about = shipped_models.manifest()[name.removeprefix(shipped_models.BEGIN)]
    other = "classify" if about["command"] == "tag" else "tag"
    wrong = run(other, name, stdin="a\n")
    assert wrong.returncode == 2
    read = " --prompts -" * (about["command"] == "generate")  # what was piped
    assert f"use translucid {about['command']} {name}{read};" in wrong.stderr
    assert f"for {other} there are demo:{other}" in wrong.stderr
    assert "model." not in wrong.stderr


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        ("translate demo:tag a.tsv", "translucid tag demo:tag a.tsv;"),
        ("tag demo:translate a.txt --json --probabilities",
         "translucid translate demo:translate a.txt --json;"),
        ("tag demo:translate a.tsv --out b.tsv",
         "translucid predict demo:translate a.tsv --out b.tsv;"),
        ("classify --device=cpu demo:tag a.txt data.text_column=2",
         "translucid tag demo:tag a.txt --device cpu;"),
        ("classify demo:tag data.text_column=2", "translucid tag demo:tag;"),
        ("score demo:tag a.txt", "translucid tag demo:tag a.txt\n"),
        ("generate demo:translate 'A dog.' --seed 3",
         'echo "A dog." | translucid translate demo:translate --seed 3;'),
        ("generate demo:tag --prompts a.txt", "translucid tag demo:tag a.txt;"),
        ("translate demo:generate a.txt --beam-size 3",
         "translucid generate demo:generate --prompts a.txt --beam-size 3;"),
        ("translate demo:generate 'A dog.'", 'translucid generate demo:generate "A dog.";'),
    ],
)  # fmt: skip
def test_a_model_for_something_else_is_answered_with_the_line_to_type(
    typed: str, instead: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("A dog sleeps.\n")
    (tmp_path / "a.tsv").write_text("words\ttags\nA dog sleeps.\tO O O\n")
    wrong = run(*shlex.split(typed), cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"; use {instead}" in wrong.stderr
    if "a.txt" in instead:
        done = run(*shlex.split(instead.rstrip(";\n"))[1:], cwd=tmp_path)
        assert (done.returncode, done.stdout != "") == (0, True), done.stderr


def test_info_says_what_a_shipped_model_was_trained_on() -> None:
    for name, about in shipped_models.manifest().items():
        said = " ".join(run("info", f"demo:{name}").stdout.split())
        assert f"model {about['title']}" in said
        assert f"trained on {about['trained_on']}" in said
    assert "labelled by AND" in shipped_models.manifest()["perceptron"]["trained_on"]


def test_a_perceptron_is_explained_by_its_own_words() -> None:
    said = run("explain", "demo:perceptron", "0 1").stdout
    assert "last" not in said
    assert re.search(r"the weighted sum +perceptron\.sum", said)
    assert re.search(r"^ +z = -0\.98", said, re.MULTILINE)
    assert re.search(r"^ +y = 0$", said, re.MULTILINE)
