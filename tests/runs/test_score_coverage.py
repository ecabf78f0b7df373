"""A score says how many examples it is of, and is the score of what the model predicts: `evaluate`
reads long texts as `classify` and `tag` do."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run

from translucid.core.errors import CutText
from translucid.model import Model, compare, load

SMALL = ["model.d_model=8", "model.heads=2", "model.layers=1", "tokenizer.kind=word",
         "training.steps=2", "training.batch_tokens=400", "training.device=cpu"]  # fmt: skip
WORDS = ["the", "dog", "sees", "a", "cat", "in", "this", "very", "old", "house"]


def trained(task: str, train: Path, test: Path, *more: str) -> tuple[Path, dict[str, Any]]:
    """A run in the files' folder, and its test.json."""
    out = train.parent / "run"
    done = run("train", task, "--train", str(train), "--valid", str(test), "--test", str(test),
               "--out", str(out), *SMALL, *more)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out, json.loads((out / "test.json").read_text("utf-8"))


def reviews(folder: Path) -> tuple[Path, Path]:
    """Texts of 3 to 30 words; of the 12 in the test file, 6 have over 15."""
    lines = [
        f'"{" ".join((WORDS * 3)[: 3 + 3 * (n % 10)])} w{n}",{"good" if n % 3 else "bad"}\n'
        for n in range(30)
    ]
    train, test = folder / "train.csv", folder / "test.csv"
    train.write_text("text,label\n" + "".join(lines))
    test.write_text("text,label\n" + "".join(lines[:12]))
    return train, test


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_evaluate_scores_what_classify_answers(tmp_path: Path, positions: str) -> None:
    train, test = reviews(tmp_path)
    out, scored = trained(
        "classify", train, test, "data.max_length=15", f"model.positions={positions}",
        "model.max_length=15",
    )  # fmt: skip
    rows = test.read_text("utf-8").splitlines()[1:]
    long = sum(len(row.split()) > 13 for row in rows)  # with the two special tokens, over 15
    assert 0 < long < len(rows)
    answer = run("evaluate", str(out), "--json", "--out", str(tmp_path / "scored.txt"))
    result = json.loads(answer.stdout)
    assert (result["examples"], result["left_out"], result["truncated"]) == (len(rows), 0, long)
    assert result["scores"] == scored["test"]
    assert (scored["examples"], scored["truncated"]) == (len(rows), long)
    asked = run("classify", str(out), str(test), "--json")
    assert f"{long} texts have more than the 15 tokens" in asked.stderr
    answers = [json.loads(line) for line in asked.stdout.splitlines()]
    right = [
        a["predicted_label"] == row.rpartition(",")[2] for a, row in zip(answers, rows, strict=True)
    ]
    assert sum(right) / len(rows) == result["scores"]["accuracy"]
    lines = [f"{a['predicted_label']}\t{a['probability']:.3f}" for a in answers]
    assert (tmp_path / "scored.txt").read_text("utf-8").splitlines() == lines
    assert f"({len(rows)} examples, {long} truncated)" in (out / "log.txt").read_text("utf-8")
    many = tmp_path / "many.txt"
    many.write_text(" ".join(WORDS * 2) + "\n" + ("a dog\n" * 299 + " ".join(WORDS * 2) + "\n"))
    shown = run("classify", str(out), str(many)).stderr  # in two chunks
    assert "1 text has more than the 15 tokens" in shown
    assert "2 texts were truncated in total" in shown
    lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
    first = next(json.loads(line) for line in lines if "valid" in line)
    assert (first["examples"], first["truncated"]) == (len(rows), long)


def test_a_model_without_a_limit_of_its_own_reads_what_its_positions_allow(tmp_path: Path) -> None:
    """As those of other tools: a longer text is truncated by `evaluate` as by `classify`."""
    train, test = reviews(tmp_path)
    out, _ = trained(
        "classify", train, test, "data.max_length=15", "model.positions=learned",
        "model.max_length=15",
    )  # fmt: skip
    cut = load(out)
    foreign = Model(replace(cut._bundle, data={}))
    ours, theirs = (model.evaluate(str(test)) for model in (cut, foreign))
    assert (theirs.numbers, theirs.counts()) == (ours.numbers, ours.counts())
    texts = [text for text, _ in cut.examples(str(test))]
    with pytest.warns(CutText, match="more than the 15 tokens"):
        answers = foreign.classify(texts)
    lines = [f"{answer.label}\t{answer.probability:.3f}" for answer in answers]
    assert lines == theirs.predictions


def test_evaluate_scores_what_tag_answers(tmp_path: Path) -> None:
    """Every word of a sentence of 40 has a tag, chosen for the whole sentence."""
    tags = ["O", "B-A", "I-A", "O", "B-B"]

    def sentence(length: int) -> str:
        return "".join(f"{WORDS[n % 10]} {tags[n % 5]}\n" for n in range(length)) + "\n"

    train, test = tmp_path / "train.conll", tmp_path / "test.conll"
    train.write_text("".join(sentence(n) for n in range(2, 30)))
    test.write_text(sentence(5) + sentence(40) + sentence(3) + sentence(23))
    out, scored = trained("tag", train, test, "data.max_length=12")
    gold = [line.split()[1] for line in test.read_text("utf-8").splitlines() if line]
    answer = run("evaluate", str(out), "--json", "--out", str(tmp_path / "scored.txt"))
    result = json.loads(answer.stdout)
    assert result["scores"] == scored["test"]
    assert (result["examples"], result["left_out"], result["truncated"]) == (4, 0, 0)
    assert result["in_windows"] == 2
    asked = run("tag", str(out), str(test))
    answered = [line.split()[-1] for line in asked.stdout.splitlines() if line]
    assert len(answered) == len(gold)
    right = sum(a == g for a, g in zip(answered, gold, strict=True))
    assert right / len(gold) == result["scores"]["accuracy"]
    lines = (tmp_path / "scored.txt").read_text("utf-8").splitlines()
    assert [len(line.split()) for line in lines] == [5, 40, 3, 23]
    assert " ".join(lines).split() == answered
    for before, tag in zip(["O", *answered], answered, strict=False):
        assert not tag.startswith("I-") or before[2:] == tag[2:] or before[0] == "O"


def test_pairs_of_an_embedding_are_truncated_and_counted(tmp_path: Path) -> None:
    lines = [f"{' '.join(WORDS[: 3 + n % 6])}\t{WORDS[n % 10]} w{n}\n" for n in range(12)]
    file = tmp_path / "pairs.tsv"
    file.write_text("source\ttarget\n" + "".join(lines))
    out, scored = trained("embed", file, file, "data.max_length=8")
    long = sum(len(line.partition("\t")[0].split()) > 6 for line in lines)
    assert (scored["examples"], scored["left_out"], scored["truncated"]) == (12, 0, long)
    score = load(out).evaluate()  # warnings are errors here: no text is cut a second time
    assert (score.numbers, score.truncated) == (scored["test"], long)


def test_unscored_examples_are_counted(tmp_path: Path) -> None:
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    pairs = [f"{' '.join(WORDS[: 2 + n % 4])}\tein Hund {n}\n" for n in range(20)]
    train.write_text("source\ttarget\n" + "".join(pairs))
    long = " ".join(WORDS * 4)
    test.write_text("source\ttarget\n" + "".join(pairs[:8]) + f"{long}\t{long}\n" + "a dog\t\n")
    out, scored = trained("translate", train, test, "data.max_length=20")
    assert (scored["examples"], scored["left_out"]) == (8, 2)
    shown = run("evaluate", str(out)).stdout
    assert "! scored on 8 examples, 2 LEFT OUT (1 empty, 1 over 20 tokens)" in shown
    result = json.loads(run("evaluate", str(out), str(test), "--json").stdout)
    reasons = {"over 20 tokens": 1, "empty": 1}
    assert (result["left_out"], result["left_out_reasons"]) == (2, reasons)
    score = load(out).evaluate()
    assert (score.examples, score.left_out, score.truncated) == (8, 2, 0)
    both = compare([out, out], samples=2)
    assert both.counts[str(out)]["left_out"] == 2
    assert "2 LEFT OUT" in both.table()


def test_max_length_is_chosen_from_the_data(tmp_path: Path) -> None:
    """Reviews of 300 words are neither left out nor truncated."""
    lines = [f'"{" ".join((WORDS * 40)[: 250 + n])}",{"ab"[n % 2]}\n' for n in range(50)]
    train = tmp_path / "train.csv"
    train.write_text("text,label\n" + "".join(lines))
    wide = [word for word in SMALL if "batch_tokens" not in word]
    done = run("train", "classify", "--train", str(train), "--test", str(train), "--out",
               str(tmp_path / "run"), *wide)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "data.max_length=" in done.stderr
    scored = json.loads((tmp_path / "run" / "test.json").read_text("utf-8"))
    assert (scored["examples"], scored["left_out"], scored["truncated"]) == (50, 0, 0)
