"""Empty texts and words that a model has never seen are noted beside its answers."""

import csv
import io
import json
from pathlib import Path

import pytest
from tests.in_process import run

import translucid as tl

LINES = "\nthe film is good\nzorg is good 漢字\n"
UNKNOWN = ["zorg", "漢字"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "q.txt").write_text(LINES, "utf-8")
    rows = "".join(f"{n},{line}\n" for n, line in enumerate(LINES.splitlines()))
    (tmp_path / "q.csv").write_text("id,text\n" + rows, "utf-8")
    texts = [{"text": line} for line in LINES.splitlines()]
    (tmp_path / "q.jsonl").write_text("".join(f"{json.dumps(t)}\n" for t in texts), "utf-8")
    return tmp_path


def told(answer: str, *, empty: bool = True) -> None:
    assert ("1 of 3 texts is empty" in answer) is empty
    assert "1 of 3 texts contains words or characters" in answer
    assert "2 tokens were read as <unk>" in answer
    for word in UNKNOWN:
        assert word in answer


@pytest.mark.parametrize(
    ("command", "model"),
    [
        ("classify", "demo:classify"), ("predict", "demo:classify"), ("tag", "demo:tag"),
        ("translate", "demo:translate"), ("score", "demo:generate"),
    ],
)  # fmt: skip
def test_each_answer_in_json_has_its_note(folder: Path, command: str, model: str) -> None:
    done = run(command, model, "q.txt", "--json", cwd=folder)
    empty, fine, unknown = map(json.loads, done.stdout.splitlines())
    assert empty["empty"] is True
    assert not {"empty", "unknown", "unknown_tokens"} & fine.keys()
    assert (unknown["unknown_tokens"], unknown["unknown"]) == (2, UNKNOWN)
    assert "empty" not in unknown
    told(done.stderr, empty=command not in ("tag", "translate"))  # there an empty answer is right


@pytest.mark.parametrize("more", [[], ["--probabilities"]])
def test_empty_line_is_noted_after_its_answer(folder: Path, more: list[str]) -> None:
    done = run("classify", "demo:classify", "q.txt", *more, cwd=folder)
    first, *others = done.stdout.splitlines()
    assert first.endswith("\t(empty text)")
    assert not any("empty" in line for line in others)
    told(done.stderr)


def test_a_table_has_a_column_of_notes(folder: Path) -> None:
    done = run("classify", "demo:classify", "q.csv", cwd=folder)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["note"] for row in rows] == ["empty text", "", "2 unknown: zorg, 漢字"]
    told(done.stderr)
    done = run("classify", "demo:classify", "q.jsonl", cwd=folder)
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    assert [o.get("unknown_tokens", 0) for o in objects] == [0, 0, 2]
    assert [o.get("empty", False) for o in objects] == [True, False, False]


def test_numbers_and_known_texts_have_no_notes(folder: Path) -> None:
    (folder / "fine.txt").write_text("the film is good\n")
    done = run("classify", "demo:classify", "fine.txt", cwd=folder)
    assert "empty" not in done.stderr + done.stdout
    assert "<unk>" not in done.stderr
    (folder / "x.csv").write_text("a,b\n0,1\n")
    done = run("predict", "demo:regress", "x.csv", cwd=folder)
    assert "note" not in done.stdout


def test_results_in_python_have_the_same_notes() -> None:
    model = tl.load("demo:classify")
    texts = LINES.splitlines()
    answers = model.classify(texts)
    assert [(a.empty, a.unknown_tokens) for a in answers] == [(True, 0), (False, 0), (False, 2)]
    notes = model.input_notes(texts)
    assert [(note.empty, len(note.unknown)) for note in notes] == [
        (True, 0),
        (False, 0),
        (False, 2),
    ]
    assert tl.load("demo:tag").input_notes([["zorg", "is"]])[0].unknown == ("zorg",)
