"""A fresh user with a table, a treebank, labelled lines and JSON: train, evaluate, ask and explain
without a dead end, on the command line and in Python, with the same numbers."""

import json
import re
import shlex
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.in_process import run

import translucid as tl
from translucid.core.errors import InputError

NET = ["model.d_model=16", "model.heads=2", "model.layers=1"]


class Walk(NamedTuple):
    file: str
    text: str
    command: str  # by which the model is asked
    asked: str  # on standard input
    explained: str
    changes: list[str]


def rows(count: int, line: str) -> str:
    return "".join(line.format(n=n, m=n % 3, y=2.5 * n + n % 3) for n in range(count))


CONLLU = "".join(
    "# sent_id = {n}\n1\tAda{n}\tAda\tPROPN\tNNP\t_\t2\tnsubj\t_\t_\n"
    "2\tsleeps\tsleep\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n".replace("{n}", str(n))
    for n in range(20)
)
WALKS = {
    "regress": Walk("houses.csv", "area,rooms,price\n" + rows(30, "4{n},{m},{y}\n"), "predict",
                    "70 2\n", "70 2", ["model.hidden=[4]"]),
    "table": Walk("churn.csv", "age,city,churned\n" + rows(30, "2{n},Ulm,yes\n3{n},Bonn,no\n"),
                  "predict", "70,Ulm\n", "70,Bonn", ["model.hidden=[4]"]),
    "tag": Walk("treebank.conllu", CONLLU, "tag", "Ada sleeps\n", "Ada sleeps", NET),
    "classify": Walk("reviews.tsv", "text\tlabel\n" + rows(15, "fine {n}\tup\ndull {n}\tdown\n"),
                     "classify", "a fine film\n", "a fine film", NET),
    "translate": Walk("pairs.jsonl", rows(20, '{{"source": "dog {n}", "target": "Hund {m}"}}\n'),
                      "translate", "dog 3\n", "dog 3", NET),
}  # fmt: skip


@pytest.mark.parametrize("task", WALKS)
def test_the_command_line(task: str, tmp_path: Path) -> None:
    walk = WALKS[task]
    (tmp_path / walk.file).write_text(walk.text, "utf-8")
    steps = ["training.steps=2", "training.device=cpu"]

    def answered(*words: str, stdin: str = "") -> str:
        answer = run(*words, cwd=tmp_path, stdin=stdin)
        assert answer.returncode == 0, (words, answer.stderr)
        return answer.stdout

    files = ["--train", walk.file, "--test", walk.file]
    answered("check", task, "--train", walk.file)
    trained = answered("train", task, *files, "--out", "run", *walk.changes, *steps)
    assert f"next: translucid {walk.command} run" in trained, "it says what to type"
    scores = json.loads(answered("evaluate", "run", "--json"))["scores"]
    assert json.loads(answered("evaluate", "run", walk.file, "--json"))["scores"] == scores
    assert answered(walk.command, "run", stdin=walk.asked).count("\n") == 1
    assert answered("explain", "run", walk.explained)
    assert answered("info", "run")


@pytest.mark.parametrize("task", WALKS)
def test_python(task: str, tmp_path: Path) -> None:
    """The same model, scores and answers, from the file and from what the program holds."""
    walk = WALKS[task]
    (tmp_path / walk.file).write_text(walk.text, "utf-8")
    options: dict[str, Any] = {"overrides": [*walk.changes, "training.steps=2"], "device": "cpu"}
    with chdir(tmp_path):
        model = tl.train(task, "run", train=walk.file, test=walk.file, quiet=True, **options)
        again = tl.load("run")
        assert model.evaluate().numbers == again.evaluate(walk.file).numbers
        assert (
            model.evaluate().numbers == json.loads(Path("run/test.json").read_text("utf-8"))["test"]
        )
        question = walk.asked.strip()
        assert repr(model.predict([question])) == repr(again.predict([question]))
        answer = run(walk.command, "run", stdin=walk.asked)
        wide = run("explain", "run", walk.explained, "--width", "96")
        explained = re.split("^(?:where a number comes from|next): ", wide.stdout, flags=re.M)[0]
    assert repr(model.explain(walk.explained)).strip() == explained.strip()
    assert model.explain(walk.explained).html().startswith("<!doctype html>")
    shown = model.task.answer_text(model.predict([question])[0])
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == shown.strip()
    with pytest.raises(InputError, match=rf"write \[{question!r}\]"):
        model.predict(question)
    if task == "regress":
        assert model.predict([{"rooms": 2, "area": 70}]) == model.predict([[70, 2]])
        for wrong, message in (
            ([70, 2], "row 1: 70 is not a row; pass a list of cells, .*area, rooms"),
            ([{"area": 70}], "row 1: the column 'rooms' is missing; .*area, rooms"),
            ([[70, "two"]], "row 1: rooms is 'two', but a number is needed"),
        ):
            with pytest.raises(InputError, match=message):
                model.predict(wrong)


@pytest.mark.parametrize("words", [["train", "houses.csv"], ["train", "regress", "houses.csv"]])
def test_data_in_the_place_of_something_else(words: list[str], tmp_path: Path) -> None:
    """What is typed first names the file where a recipe or a change of one belongs."""
    (tmp_path / "houses.csv").write_text(WALKS["regress"].text, "utf-8")
    answer = run(*words, cwd=tmp_path)
    assert answer.returncode == 2
    assert "--train houses.csv" in answer.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_text_in_the_place_of_a_file(tmp_path: Path) -> None:
    """`explain` takes a text; what is typed next is the same with another command. The message has
    the command that answers, and that command does."""
    files = {"houses.csv": "area,price\n" + rows(9, "{n},{y}\n"), "pairs.tsv": "source\ttarget\n"
             + rows(9, "dog {n}\tHund {m}\n")}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    steps = ["training.steps=1", "training.device=cpu"]
    for task, name, net in (("regress", "houses.csv", ["model.hidden=[2]"]),
                            ("translate", "pairs.tsv", NET)):  # fmt: skip
        done = run("train", task, "--train", name, "--out", task, *net, *steps, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for words, piped in (
        (["translate", "translate", "dog"], "echo dog | translucid translate translate"),
    ):
        answer = run(*words, cwd=tmp_path)
        assert answer.returncode == 2
        assert answer.stderr.endswith(f"{piped}\n"), answer.stderr
        echo, _, command = piped.partition(" | ")
        answer = run(*command.split()[1:], stdin=shlex.split(echo)[1] + "\n", cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr
    for number in ("120", "0.5"):
        typed = run("predict", "regress", number, cwd=tmp_path)
        assert typed == run("predict", "regress", stdin=f"{number}\n", cwd=tmp_path)
    quoted = run("translate", "translate", "dog 3", cwd=tmp_path)
    assert quoted == run("translate", "translate", stdin="dog 3\n", cwd=tmp_path)
    answer = run("predict", "regress", "hoses.csv", cwd=tmp_path)
    assert "did you mean houses.csv?" in answer.stderr
    answer = run("translate", "translate", "pairs.tsv", cwd=tmp_path)
    assert answer.returncode == 2
    command = answer.stderr.strip().rpartition("table: ")[2]
    assert command == "translucid predict translate pairs.tsv"
    table = run(*shlex.split(command)[1:], cwd=tmp_path)
    assert table.stdout.splitlines()[0] == "source\ttarget\ttranslation\tnote", table
    assert len(table.stdout.splitlines()) == 10


def test_rows_without_a_target_are_left_out_and_named(tmp_path: Path) -> None:
    steps = ["model.hidden=[4]", "training.steps=2", "training.device=cpu"]
    for n, cell in enumerate(("", "NA", "?")):
        (tmp_path / "a.csv").write_text(
            "area,rooms,price\n" + rows(9, "{n},{m},{y}\n") + f"1,2,{cell}\n", "utf-8"
        )
        words = ["train", "regress", "--train", "a.csv", "--out", f"run{n}", *steps]
        answer = run(*words, cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr
        assert "a.csv: 9 records" in answer.stderr
        assert "1 without an output, left out (first: line 11)" in answer.stderr


def test_a_row_with_a_column_that_is_not_read(tmp_path: Path) -> None:
    """The first column numbers the rows. A row with all columns is read however it is written."""
    (tmp_path / "a.csv").write_text("house,rooms,price\n" + rows(30, "{n},{m},{y}\n"), "utf-8")
    steps = ["model.hidden=[4]", "training.steps=2", "training.device=cpu"]
    trained = run("train", "regress", "--train", "a.csv", "--out", "run", *steps, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "house: ignored" in trained.stderr
    lines = ["2", "70 2", "70,2", "70\t2", "70;2"]
    answer = run("predict", "run", stdin="\n".join(lines) + "\n", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert len(answer.stdout.splitlines()) == len(lines)
    assert len(set(answer.stdout.splitlines())) == 1
    wrong = run("predict", "run", stdin="1 2 3\n", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "rooms is '1 2 3', but a number is needed" in wrong.stderr
