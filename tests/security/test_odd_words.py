"""Odd words on the command line end with a message that says what to do, or do what they say:
never as `unexpected`, never without an end."""

import random
from pathlib import Path
from typing import Any

import pytest
from bench.attempts import BAD, Tally, attempt
from bench.hostile_models import FILES
from tests.in_process import run
from tests.security.test_model_folders import train
from tests.tiny.once import once
from typer.main import get_command

from translucid.cli import app
from translucid.runs.recipe.recipe import keys_by_section

ODD = (
    "", "nan", "inf", "-1", "0", "1e999", "99999999999999999999", "3.5", "x", "ä\u202e\x1b[2J",
    "dir", "bin", "empty", "nothing", "/dev/null", "../..", "nul.txt", "[", "{", '"', "--", "-",
    "=", ".", "\udcff", "1,2", "None", "a.en",
)  # fmt: skip
STARTS = {
    "evaluate": ["classify", "--data", "a.tsv"], "info": ["tag"], "translate": ["translate"],
    "score": ["translate", "a.en", "a.de"], "classify": ["classify"], "tag": ["tag"],
    "generate": ["language"], "predict": ["regress"], "explain": ["classify", "a fine day"],
    "ablate": ["classify", "--data", "a.tsv"], "resume": ["dir"],
}  # fmt: skip
# Not from words, or without an end.
SLOW = ("explore", "serve", "demo", "reproduce", "lab", "train", "check", "doctor", "data")


def commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        return [(path, command)]
    return [
        found for name, each in command.commands.items() for found in commands(each, (*path, name))
    ]


def odd_lines() -> list[list[str]]:
    """Every option and argument of every command, with every odd word."""
    lines = []
    for path, command in commands(get_command(app)):
        if path[0] in SLOW:
            continue
        start = STARTS.get(path[0], [])
        for parameter in command.params:
            for word in ODD:
                if parameter.param_type_name == "argument":
                    lines += [[*path, word, *start[1:]], [*path, *start, word]]
                elif not parameter.is_flag:
                    lines.append([*path, *start, parameter.opts[-1], word])
    return lines


def place(folder: Path) -> None:
    good = once("models to attack", train)
    for name in FILES:
        (folder / name).write_text((good / name).read_text("utf-8"), "utf-8")
    for task in ("translate", "tag", "classify", "language", "regress"):
        (folder / task).symlink_to(good / task)
    (folder / "dir").mkdir()
    (folder / "bin").write_bytes(bytes(range(256)) * 20)
    (folder / "empty").touch()
    (folder / "nul.txt").write_bytes(b"a\0b\n")


def attack(folder: Path, lines: list[list[str]]) -> Tally:
    tally = Tally("command lines")
    for words in lines:

        def go(words: list[str] = words) -> None:
            answer = run(*words, cwd=folder, stdin="a b\n\n")
            if "error: unexpected" in answer.stderr or "Traceback" in answer.stderr:
                raise AssertionError(answer.stderr[-300:])

        tally.add(" ".join(words), *attempt(go, seconds=120))
    return tally


@pytest.mark.slow
def test_odd_words_are_answered(tmp_path: Path) -> None:
    place(tmp_path)
    lines = random.Random(3).sample(odd_lines(), 60)
    always = [
        ["generate", "language", "--max-length", "99999999999999999999"],
        ["recipe", "show", "bin"], ["info", "dir"], ["info", "bin"], ["info", ""],
        ["work", "params", "--vocab", "99999999999999999999"],
    ]  # fmt: skip
    tally = attack(tmp_path, [*always, *lines])
    assert tally.bad == []
    assert not any(tally.counts[outcome] for outcome in BAD)


@pytest.mark.thorough
def test_all_odd_words_are_answered(tmp_path: Path) -> None:
    place(tmp_path)
    assert attack(tmp_path, odd_lines()).bad == []


SMALL = {
    "classify": ["--train", "a.tsv", "model.d_model=8", "model.heads=2", "model.layers=1"],
    "regress": ["--toyland", "60", "model.hidden=[4]"],
}
QUICK = ["training.steps=1", "training.batch_tokens=500", "training.device=cpu"]


def odd_trainings() -> list[list[str]]:
    """Every key of a recipe and every option of `train` and `check`, with every odd word."""
    lines = []
    for task, small in SMALL.items():
        keys = [f"{section}.{key}" for section, keys in keys_by_section().items() for key in keys]
        lines += [
            ["train", task, *small, *QUICK, f"{key}={word}"]
            for key in keys for word in ODD if key != "training.minutes"
        ]  # fmt: skip
        lines += [["train", task, *small, *QUICK, word] for word in ODD]
        lines += [[command, word, *small] for command in ("train", "check") for word in ODD]
        lines += [
            [command, task, *small, *(QUICK if command == "train" else []), option, word]
            for command in ("train", "check")
            for option in ("--train", "--valid", "--test", "--data", "--toyland", "--lr", "--steps")
            for word in ODD
        ]  # fmt: skip
        lines += [["train", task, *small, *QUICK, "--out", word] for word in ODD if word != "../.."]
    return lines


@pytest.mark.slow
def test_odd_keys_of_a_training_are_answered(tmp_path: Path) -> None:
    place(tmp_path)
    assert attack(tmp_path, random.Random(5).sample(odd_trainings(), 25)).bad == []


@pytest.mark.thorough
def test_all_odd_keys_of_a_training_are_answered(tmp_path: Path) -> None:
    place(tmp_path)
    assert attack(tmp_path, odd_trainings()).bad == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--toyland", "60", "--valid", "a.tsv"], "data.toyland and data.valid were both given"),
        (["--toyland", "60", "--test", "a.tsv"], "data.toyland and data.test were both given"),
        (["--toyland", "99999999999999999999"], "less than or equal to 10000000"),
        (["--train", "a.tsv", "training.seed=99999999999999999999"], "training.seed = 9999999999"),
        (["--train", "a.tsv", "data.tags_column=\udcff"], "is not UTF-8; type it again"),
    ],
)
def test_what_was_found_by_them(words: list[str], message: str, tmp_path: Path) -> None:
    place(tmp_path)
    answer = run("train", "classify", *words, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr
