"""`translucid practice` as a user types it."""

import json
import signal
import sys
from pathlib import Path

import pexpect
import pytest
from tests.in_process import run

from translucid.practice.checking import right_answer, written
from translucid.practice.exercise import draw
from translucid.practice.topics import TOPICS

EXERCISE = draw("attention", 7)
RIGHT = right_answer(EXERCISE, EXERCISE.last)
WRONG = written(EXERCISE.slips["no-scale"]["mixed"], 3)


def test_without_a_topic_the_topics_are_listed() -> None:
    answer = run("practice")
    assert answer.returncode == 0
    assert [line.split()[0] for line in answer.stdout.splitlines()[: len(TOPICS)]] == [*TOPICS]
    assert json.loads(run("practice", "--json").stdout).keys() == TOPICS.keys()


def test_answers_from_standard_input_are_checked() -> None:
    lines = f"hint\n1 2\n{WRONG}\n{RIGHT}\nskip\n"
    answer = run("practice", "attention", "--seed", "7", stdin=lines)
    assert answer.returncode == 0, answer.stderr
    out = answer.stdout
    assert "Step 1 of 4: the scores" in out
    assert "your answer is 1 x 2" in out
    assert "Divide the scores by √d_k." in out
    assert out.index("Divide") < out.index("Right.")
    assert "You solved 1 of 1 exercise, 0 on the first attempt." in out
    assert "translucid practice attention --seed 7" in out


def test_steps_are_asked_one_by_one() -> None:
    rights = [right_answer(EXERCISE, part) for part in EXERCISE.parts]
    answer = run("practice", "attention", "--seed", "7", "--steps", stdin="\n".join(rights))
    assert answer.stdout.count("Right.") == 4
    assert "You solved 1 of 1 exercise, 1 on the first attempt." in answer.stdout
    mixed = ["steps", rights[0], "solution", *rights[2:], "quit"]
    answer = run("practice", "attention", "--seed", "7", stdin="\n".join(mixed))
    assert answer.stdout.count("Right.") == 3
    assert "You solved 1 of 1 exercise, 0 on the first attempt." in answer.stdout


def test_the_solution_is_the_worked_solution() -> None:
    answer = run("practice", "attention", "--seed", "7", stdin="solution\nquit\n")
    assert "Mixed: the average of the values" in answer.stdout
    assert "You solved 0 of 1 exercise" in answer.stdout


@pytest.mark.parametrize(("typed", "code"), [(RIGHT, 0), (WRONG, 3)])
def test_one_answer_on_the_command_line(typed: str, code: int) -> None:
    words = ("practice", "attention", "--seed", "7", "--answer", typed)
    answer = run(*words)
    assert answer.returncode == code
    assert answer.stdout.startswith("Right." if code == 0 else "Step 2, the scaled scores")
    verdict = json.loads(run(*words, "--json").stdout)
    assert verdict["right"] == (code == 0)
    assert verdict["slip"] == (None if code == 0 else "no-scale")


def test_all_steps_on_the_command_line() -> None:
    options: list[str] = []
    for part in EXERCISE.parts:
        options += ["--answer", right_answer(EXERCISE, part)]
    answer = run("practice", "attention", "--seed", "7", "--steps", *options)
    assert answer.returncode == 0
    assert "Step 4: Right." in answer.stdout
    answer = run("practice", "attention", "--seed", "7", *options)
    assert answer.returncode == 2
    assert "add --steps" in answer.stderr


def test_an_exercise_as_json_has_no_answers() -> None:
    answer = run("practice", "rnn", "--seed", "3", "--json")
    exercise = json.loads(answer.stdout)
    assert exercise["asked"] == "h3"
    assert exercise["tolerance"] == 5.01e-5
    assert str(round(draw("rnn", 3).right["h3"].item(), 4)) not in answer.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("atention",), "did you mean attention"),
        (("rnn", "--out", "x"), "--out needs --sheet"),
        (("rnn", "gru", "--answer", "1"), "needs one topic"),
        (("rnn", "--sheet", "1", "--export", "word"), "expected one of moodle"),
        (("rnn", "--sheet", "1", "--students", "nobody.txt"), "does not exist"),
        (("rnn", "--answer", "x"), "not a number"),
    ],
)
def test_wrong_input_is_explained(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    answer = run("practice", *words, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr


def test_sheets_for_a_class(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Ana\nBo\n")
    words = ("practice", "softmax", "rnn", "--sheet", "3", "--students", "names.txt", "--seed", "1")
    answer = run(*words, "--export", "moodle", "--export", "qti", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    files = {path.name for path in (tmp_path / "sheet").iterdir()}
    assert {"exercises-Ana.md", "solutions-Bo.tex", "moodle-Ana.xml", "qti-Bo.zip"} <= files
    assert "sheet: " in answer.stdout


def heed_interrupts() -> None:
    """A job in the background ignores interrupts, and its processes inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow  # starts a process
def test_ctrl_c_ends_with_the_score() -> None:
    command = ["-m", "translucid", "practice", "softmax", "--seed", "3"]
    with pexpect.spawn(
        sys.executable, command, timeout=60, encoding="utf-8", preexec_fn=heed_interrupts
    ) as terminal:
        terminal.expect("quit.")
        terminal.expect("> ")
        terminal.sendline(right_answer(draw("softmax", 3), draw("softmax", 3).last))
        terminal.expect("Right.")
        terminal.expect("> ")
        terminal.sendintr()
        terminal.expect("You solved 1 of 1 exercise, 1 on the first attempt.")
        terminal.expect(pexpect.EOF)
        terminal.close()
        assert terminal.exitstatus == 0
