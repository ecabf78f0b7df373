"""Help pages: summaries that fit, examples that work, and the command for a model's task."""

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

EXAMPLE = re.compile(r"(?m)Example: (?:echo (\"[^\"]*\") \| )?translucid (.+?)(?: > \S+)?$")
PROGRAM: Any = get_command(app)


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command by its words, without exercises and claims."""
    yield words, command
    if words not in [("work",), ("lab",)]:
        for name, inner in getattr(command, "commands", {}).items():
            yield from commands(inner, (*words, name))


EXAMPLES = sorted(
    {
        (piped.strip('"'), typed)
        for _, command in commands(PROGRAM)
        for text in (command.help or "", command.epilog or "")
        for piped, typed in EXAMPLE.findall(text)
    }
)


GROUPS = [words for words, c in commands(PROGRAM) if hasattr(c, "commands")]


@pytest.mark.parametrize("group", GROUPS)
def test_summaries_fit_a_line_of_80_columns(
    group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = run(*group, "--help").stdout
    assert "..." not in listed.partition("[ARGS]...")[2]
    assert max(map(len, listed.splitlines())) <= 80


@pytest.mark.parametrize("words", [w for w, _ in commands(PROGRAM) if w not in GROUPS])
def test_every_command_has_a_short_summary_and_an_example(words: tuple[str, ...]) -> None:
    shown = run(*words, "-h")
    assert shown.returncode == 0
    assert re.search(rf"Example: .*translucid {' '.join(words)}\b", shown.stdout)
    summary = shown.stdout.split("\n\n")[1]
    assert summary.count("\n") == 0
    assert summary.endswith(".")


@pytest.mark.parametrize(("piped", "typed"), EXAMPLES)
def test_every_example_parses(piped: str, typed: str) -> None:
    words, command = shlex.split(typed), PROGRAM
    while hasattr(command, "commands") and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
        if type(command).__name__ == "Plugin":
            return
    command.make_context("translucid", words).close()


# `explore` opens a page; `demo`, `train` and `reproduce` train.
RUNNABLE = [
    (piped, typed)
    for piped, typed in EXAMPLES
    if "demo:" in typed and not typed.startswith(("explore", "export"))
]


def test_every_command_for_a_shipped_model_has_an_example_with_it() -> None:
    asked = {typed.partition(" ")[0] for _, typed in RUNNABLE}
    shown = {about["command"] for about in shipped_models.manifest().values()}
    assert {*shown, "explain", "info"} <= asked


@pytest.mark.parametrize(("piped", "typed"), RUNNABLE)
def test_an_example_with_a_shipped_model_runs(piped: str, typed: str) -> None:
    answer = run(*shlex.split(typed), stdin=f"{piped}\n")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.strip()


@pytest.mark.parametrize("name", shipped_models.names())
def test_wrong_task_error_names_the_command_and_a_fitting_model(name: str) -> None:
    about = shipped_models.manifest()[name.removeprefix(shipped_models.BEGIN)]
    other = "classify" if about["command"] == "tag" else "tag"
    wrong = run(other, name, stdin="a\n")
    assert wrong.returncode == 2
    read = " --prompts -" * (about["command"] == "generate")  # what was piped
    assert f"use translucid {about['command']} {name}{read};" in wrong.stderr
    assert f"shipped models for {other}: demo:{other}" in wrong.stderr
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
         'translucid translate demo:translate "A dog." --seed 3;'),
        ("generate demo:translate dog", "echo dog | translucid translate demo:translate;"),
        ("generate demo:tag --prompts a.txt", "translucid tag demo:tag a.txt;"),
        ("translate demo:generate a.txt --beam-size 3",
         "translucid generate demo:generate --prompts a.txt --beam-size 3;"),
        ("translate demo:generate 'A dog.'", 'translucid generate demo:generate "A dog.";'),
    ],
)  # fmt: skip
def test_wrong_task_error_shows_the_equivalent_command(
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


def test_info_describes_the_training_data_of_shipped_models() -> None:
    for name, about in shipped_models.manifest().items():
        said = " ".join(run("info", f"demo:{name}").stdout.split())
        assert f"model {about['title']}" in said
        assert f"trained on {about['trained_on']}" in said
    assert "labelled by AND" in shipped_models.manifest()["perceptron"]["trained_on"]


def test_explain_uses_the_terms_of_a_perceptron() -> None:
    said = run("explain", "demo:perceptron", "0 1").stdout
    assert "last" not in said
    assert re.search(r"the weighted sum +perceptron\.sum", said)
    assert re.search(r"^ +z = -0\.98", said, re.MULTILINE)
    assert re.search(r"^ +y = 0$", said, re.MULTILINE)
