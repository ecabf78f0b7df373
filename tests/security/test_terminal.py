"""Control characters in data, labels and names do not reach a terminal; suggested commands can be
pasted whatever a folder is called."""

import io
import shlex
import shutil
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest
from bench.hostile_models import json_change, seal
from tests.in_process import run
from tests.security.small_runs import TABLE, train_words
from tests.security.test_model_folders import train
from tests.tiny.once import once

from translucid.cli import main
from translucid.core.terminal import visible, visible_output

TITLE, CLEAR, TURNED = "\x1b]0;owned\x07", "\x1b[2J\x9b2J\r", "\u202egnp.exe"
HOSTILE = TITLE + CLEAR + TURNED


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(*words: str, cwd: Path, stdin: str = "") -> str:
    """All that a terminal would be sent."""
    out, err = Terminal(), Terminal()
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with (
        chdir(cwd), redirect_stdout(out), redirect_stderr(err), patch("sys.stdin", given),
        pytest.raises(SystemExit),
    ):  # fmt: skip
        main(words)
    return out.getvalue() + err.getvalue()


def test_control_characters_are_escaped() -> None:
    for number in [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028, 0xD800]:
        text = f"a{chr(number)}b"
        if chr(number) in "\n\t":
            assert visible(text) == text
        else:
            assert visible(text).isascii()
            assert visible(text).isprintable()
    for text in ("plain", "Größe 日本語 👍", "a\tb\n", ""):
        assert visible(text) == text


def test_piped_output_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, messages = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stdout", pipe)
    monkeypatch.setattr("sys.stderr", messages)
    with visible_output():
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
    assert pipe.getvalue() == HOSTILE + "\n"
    assert messages.getvalue() == visible(HOSTILE) + "\n"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("classify", ["info", "model"]), ("classify", ["classify", "model"]),
        ("classify", ["explain", "model", "a fine day"]),
        ("classify", ["evaluate", "model", "--data", "bad.tsv"]),
        ("classify", [f"info{TITLE}", "model"]), ("classify", ["info", f"model{TITLE}"]),
        ("language", ["generate", "model", "--prompt", f"the{TITLE}"]),
        ("translate", ["translate", "model", "--explain"]),
        ("tag", ["tag", "model"]), ("tag", ["info", "model"]),
        ("regress", ["predict", "model"]),
    ],
)  # fmt: skip
def test_commands_escape_control_characters_of_their_input(
    tmp_path: Path, task: str, words: list[str]
) -> None:
    good = once("models to attack", train)
    shutil.copytree(good / task / "best", tmp_path / "model")
    (tmp_path / "bad.tsv").write_text(
        f"good\ta fine{HOSTILE.replace(chr(13), '')} day\nbad{TITLE}\tx\n", "utf-8"
    )
    if task in ("classify", "tag"):
        json_change("config.json", ("labels", 0), f"B-X{HOSTILE}")(tmp_path / "model")
        seal(tmp_path / "model")
    answer = shown(*words, cwd=tmp_path, stdin=f"a {TITLE}fine{TURNED} day\n")
    assert answer
    for sign in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e", "\r"):
        assert sign not in answer, answer


def test_suggested_commands_are_quoted(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(TABLE, "utf-8")
    out = "my runs; rm -rf ~"
    answer = run(*train_words(out), cwd=tmp_path)
    command = answer.stdout.partition("next: ")[2].partition("\n")[0]
    assert shlex.split(command)[:3] == ["translucid", "predict", out]
    answer = run(*train_words(out), cwd=tmp_path)
    assert f"translucid resume {shlex.quote(out)}, or" in answer.stderr
