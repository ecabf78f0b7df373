"""One very long held-out line is cut or left out as in training, and does not make a run hang; an
evaluation that takes long says how far it is."""

import json
import time
from pathlib import Path

import pytest
from tests.in_process import run

from translucid.model import load
from translucid.tasks.in_batches import PAUSE, advance, reporting

SMALL = ["model.d_model=8", "model.heads=2", "model.layers=1", "tokenizer.kind=word",
         "training.steps=2", "training.batch_tokens=300", "training.device=cpu",
         "data.max_length=20"]  # fmt: skip
LONG = "word " * 5_000


def files(folder: Path, task: str) -> list[str]:
    """Training data, and held-out data of which one example is very long."""
    short = "the dog sleeps"
    match task:
        case "classify":
            name, line = "csv", '{0},"{1}"\n'.format
            lines = [line("label", "text"), *(line("ab"[n % 2], short) for n in range(20))]
            long = line("a", LONG)
        case "tag":
            name = "conll"
            lines = ["".join(f"{word} O\n" for word in short.split()) + "\n", "a B-X\n\n"] * 10
            long = "word O\n" * 5_000 + "\n"
        case _:
            name = "tsv"
            lines = [f"{short}\t{short}\n"] * 20
            long = f"{LONG}\t{LONG}\n"
    (folder / f"train.{name}").write_text("".join(lines), "utf-8")
    (folder / f"test.{name}").write_text(
        "".join([*lines[: 5 if task == "classify" else 4], long]), "utf-8"
    )
    return [str(folder / f"{part}.{name}") for part in ("train", "test")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "long", "left"),
    [
        ("classify", "skip", 4),
        ("translate", "truncate", 5),
        ("tag", "truncate", 5),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in (
                ("classify", "truncate", 5),
                ("translate", "skip", 4),
                ("tag", "skip", 4),
                ("tag", "split", 5),
            )
        ),
    ],
)
def test_a_very_long_held_out_line_is_limited(
    tmp_path: Path, task: str, long: str, left: int
) -> None:
    train, test = files(tmp_path, task)
    out = tmp_path / "run"
    began = time.process_time()
    done = run("train", task, "--train", train, "--valid", test, "--test", test, "--out", str(out),
               f"data.long={long}", *SMALL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert time.process_time() - began < 100
    action = {"skip": "left out", "truncate": "truncated"}.get(long, "read in windows")
    if task == "tag" and long != "skip":
        action = "read in windows"  # no word goes without a tag
    for part in ("validation", "test"):
        assert f"1 of 5 {part} examples have over 20 tokens: {action}" in done.stderr
    scored = json.loads((out / "test.json").read_text("utf-8"))
    assert (scored["examples"], scored["left_out"]) == (left, 5 - left)
    said: list[str] = []
    score = load(out).evaluate(test, say=said.append)
    assert score.numbers == scored["test"]
    assert score.counts().items() <= scored.items()
    assert any(f"1 of 5 test examples have over 20 tokens: {action}" in line for line in said)


def test_evaluation_reports_progress() -> None:
    now, said = 0.0, list[str]()
    with reporting(said.append, clock=lambda: now):
        for done in range(1, 5):
            now += PAUSE / 2
            advance(done, 8)
        assert said == [
            "evaluating: 2 of 8 examples  30.0 s left",
            "evaluating: 4 of 8 examples  20.0 s left",
        ]
        advance(8, 8)
        now += 1
        advance(1, 8)
    now += 100
    advance(2, 8)  # nobody listens
    assert len(said) == 2
