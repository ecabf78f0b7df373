"""What a score warns about, and when a model is better than its baseline."""

import json
from pathlib import Path

import torch
from tests.in_process import run
from torch import Tensor, nn

from translucid.data.features import Columns
from translucid.data.records import Labelled, TableRow, Tagged
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.classify import Classify
from translucid.tasks.regress import Regress
from translucid.tasks.score import Baseline, Score, degenerate_outputs, one_answer
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

WORDS = Tokenizer.train("word", ["a b c d"])


class Constant(nn.Module):
    """The same outputs for every token, or text."""

    def __init__(self, *outputs: float, each_token: bool = False) -> None:
        super().__init__()
        self.outputs = nn.Parameter(torch.tensor(outputs))
        self.each_token = each_token

    def forward(self, **inputs: Tensor) -> Tensor:
        first = next(iter(inputs.values()))
        rows = first.shape[:2] if self.each_token else first.shape[:1]
        return self.outputs.expand(*rows, -1)


def test_a_worse_second_metric_is_named_in_the_comparison() -> None:
    copied = Baseline("a copy of the source", Score({"bleu": 0.5, "chrf": 17.0, "exact_match": 0}))
    degenerate = {"bleu": 1.2, "chrf": 12.5, "exact_match": 0.0, "loss": 3.0}
    assert not copied.better(degenerate, Translate.criterion)
    line = copied.line("test", degenerate, Translate.criterion)
    assert line.startswith("! test: better than the baseline")
    assert "by bleu 1.2 (baseline 0.5), but WORSE by chrf 12.5 (baseline 17)" in line
    good = degenerate | {"chrf": 30.0}
    assert copied.better(good, Translate.criterion)
    assert copied.line("test", good, Translate.criterion) == (
        "test: bleu 1.2; baseline (a copy of the source) 0.5"
    )
    worse = degenerate | {"bleu": 0.1, "chrf": 20.0}
    assert "NOT BETTER" in copied.line("test", worse, Translate.criterion)


def test_for_some_metrics_lower_is_better() -> None:
    mean = Baseline("the mean", Score({"r_squared": 0.0, "rmse": 2.0}))
    assert mean.better({"r_squared": 0.5, "rmse": 1.0}, Regress.criterion)
    assert not mean.better({"r_squared": 0.5, "rmse": 3.0}, Regress.criterion)


def test_many_identical_outputs_are_flagged() -> None:
    sources = range(500)
    references = [f"satz {n}" for n in sources]
    outputs = ["A man in a a a a a"] * 473 + references[473:]
    identical, repeated = degenerate_outputs(outputs, sources, references)
    assert identical == '473 of 500 outputs are identical: "A man in a a a a a"'
    assert repeated.startswith("473 of 500 outputs repeat a word 4 times in a row")
    assert degenerate_outputs(references, sources, references) == ()


def test_outputs_that_repeat_a_word_are_flagged() -> None:
    """Also where each is of another length, so that none are identical."""
    outputs = [f"A man {'a ' * n}" for n in range(20)]
    (words,) = degenerate_outputs(outputs, range(20), [f"satz {n}" for n in range(20)])
    assert words.startswith("16 of 20 outputs repeat a word 4 times in a row")
    assert degenerate_outputs(outputs, range(20), outputs) == (), "as the references do"


def test_identical_outputs_that_are_asked_for_are_not_flagged() -> None:
    """Of sources that are the same, or have the same reference."""
    assert degenerate_outputs(["ja"] * 20, ["yes"] * 20, ["nein"] * 20) == ()
    assert degenerate_outputs(["ja"] * 20, range(20), ["ja"] * 20) == ()


def test_one_answer_for_everything_is_flagged() -> None:
    assert one_answer(["a", "a"], ["a", "b"], "row") == (
        "the model predicts a for every row (2 rows)",
    )
    assert one_answer(["a", "b"], ["a", "b"], "row") == ()
    assert one_answer(["a", "a"], ["a", "a"], "row") == (), "there is one right answer"


def test_every_task_that_answers_flags_it() -> None:
    classify = Classify(WORDS, ["neg", "pos"])
    texts = [Labelled("a b", "pos", 1), Labelled("c", "neg", 2)]
    (words,) = classify.evaluate(Constant(0.0, 1.0), classify.encode_all(texts)).warnings
    assert words == "the model predicts pos for every row (2 rows)"
    tag = Tag(WORDS, ["O", "B-X"])
    sentence = Tagged(("a", "b", "c"), ("O", "B-X", "O"), 1)
    (words,) = tag.evaluate(Constant(1.0, 0.0, each_token=True), [tag.encode(sentence)]).warnings
    assert words == "the model predicts O for every word (3 words)"
    regress = Regress(Columns.numbers(["x"]))
    rows = [TableRow((float(n),), (float(n),), n) for n in range(3)]
    (words,) = regress.evaluate(Constant(0.25), [regress.encode(row) for row in rows]).warnings
    assert words == "the model predicts 0.25 for every row (3 rows)"


def test_a_run_that_answers_one_label_says_so(tmp_path: Path) -> None:
    """At the end of training, in its folder, and whenever it is scored."""
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    for file, word in ((train, "known"), (test, "unknown")):  # all words of the test are one token
        rows = [f"{word}{n},{'pos' if n % 4 else 'neg'}\n" for n in range(20)]
        file.write_text("text,label\n" + "".join(rows))
    out = tmp_path / "run"
    done = run("train", "classify", "--train", str(train), "--valid", str(test), "--test",
               str(test), "--out", str(out), "training.steps=1", "model.d_model=8",
               "model.heads=2", "model.layers=1", "training.device=cpu",
               "tokenizer.kind=word")  # fmt: skip
    assert done.returncode == 0, done.stderr
    for shown in (done.stderr, (out / "log.txt").read_text("utf-8")):
        for part in ("valid", "test"):
            assert shown.count(f"warning: {part}: the model predicts") == 1
    assert "**Warning: the model predicts" in (out / "best" / "README.md").read_text("utf-8")
    (words,) = json.loads((out / "test.json").read_text("utf-8"))["warnings"]
    assert f"warning: {words}" in run("evaluate", str(out)).stdout
    assert json.loads(run("evaluate", str(out), "--json").stdout)["warnings"] == [words]
