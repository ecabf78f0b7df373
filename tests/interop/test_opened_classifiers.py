"""Opened classifiers: what their outputs mean is read as transformers' pipeline reads it."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run
from tests.interop.encoders import bert, roberta
from tests.interop.reference import transformers

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.tasks.label_scores import Label, Labels, LabelScore

TEXTS = ["the dog sleeps.", "a b c", "cat runs dog ."]
HEAD = "ForSequenceClassification"
MULTI = {"problem_type": "multi_label_classification", "num_labels": 3}
KINDS: dict[str, dict[str, Any]] = {
    "multi-label": MULTI,
    "regression": {"problem_type": "regression", "num_labels": 1},
    "several numbers": {"problem_type": "regression", "num_labels": 2},
    "reranker": {"num_labels": 1},
    "classes": {"num_labels": 3},
    "named classes": {"problem_type": "single_label_classification", "num_labels": 2},
}


def scores_of(answer: Any) -> dict[str, float]:
    if isinstance(answer, Labels):
        return answer.probabilities
    if isinstance(answer, LabelScore):
        return answer.scores
    assert isinstance(answer, Label)
    return {answer.label: answer.probability}


@pytest.mark.parametrize("made", [bert, roberta])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_reference_pipeline(tmp_path: Path, made: Any, kind: str) -> None:
    made(tmp_path, HEAD, **KINDS[kind])
    pipeline = transformers().pipeline("text-classification", str(tmp_path), top_k=None)
    model = tl.load(tmp_path)
    for answer, theirs in zip(model.classify(TEXTS), pipeline(TEXTS), strict=True):
        every = {one["label"]: one["score"] for one in theirs}
        ours = scores_of(answer)
        assert ours == pytest.approx({label: every[label] for label in ours}, abs=1e-5)
        if isinstance(answer, Label):
            assert answer.label == max(every, key=every.__getitem__)
        else:
            assert ours.keys() == every.keys()
    again = model.trace(TEXTS[0]).outputs
    assert again.probabilities == ("classes" in kind)


def test_labels_without_names_are_numbered(tmp_path: Path) -> None:
    bert(tmp_path, HEAD, num_labels=3)
    path = tmp_path / "config.json"
    config = {key: value for key, value in json.loads(path.read_text("utf-8")).items()
              if key not in ("id2label", "label2id")}  # fmt: skip
    path.write_text(json.dumps(config | {"num_labels": 3}))
    pipeline = transformers().pipeline("text-classification", str(tmp_path), top_k=None)
    theirs = [{one["label"]: one["score"] for one in every} for every in pipeline(TEXTS)]
    for answer, every in zip(tl.load(tmp_path).classify(TEXTS), theirs, strict=True):
        assert isinstance(answer, Label)
        assert every.keys() == {"LABEL_0", "LABEL_1", "LABEL_2"}
        assert answer.label == max(every, key=every.__getitem__)
        assert answer.probability == pytest.approx(every[answer.label], abs=1e-5)
    for number, rows in (("3", "a whole number"), (4, "3 rows")):
        path.write_text(json.dumps(config | {"num_labels": number}))
        with pytest.raises(InputError, match=rf"num_labels.*{rows}"):
            tl.load(tmp_path)


def test_several_labels_are_listed_above_a_threshold(tmp_path: Path) -> None:
    bert(tmp_path, HEAD, **MULTI)
    model = tl.load(tmp_path)
    (answer,) = model.classify(TEXTS[:1])
    assert isinstance(answer, Labels)
    cut = sorted(answer.probabilities.values())[1]
    (fewer,) = model.classify(TEXTS[:1], threshold=cut)
    assert isinstance(fewer, Labels)
    assert [fewer.probabilities[label] > cut for label in fewer.labels] == [True]
    (tmp_path / "t.txt").write_text(TEXTS[0] + "\n")
    (tmp_path / "t.csv").write_text("text\n" + TEXTS[0] + "\n")
    command = ("classify", str(tmp_path), str(tmp_path / "t.txt"), "--threshold")
    assert run(*command, str(cut)).stdout.split("\t")[::2] == list(fewer.labels)
    assert "no label above 1" in run(*command, "1").stdout
    whole = json.loads(run(*command, "1", "--json").stdout)
    assert whole["labels"] == []
    assert whole["probabilities"] == pytest.approx(answer.probabilities)
    table = run("classify", str(tmp_path), str(tmp_path / "t.csv"), "--threshold", str(cut)).stdout
    (row,) = csv.DictReader(table.splitlines())
    assert row["predicted_labels"] == "|".join(fewer.labels)
    assert [float(row[f"probability_LABEL_{i}"]) for i in range(3)] == pytest.approx(
        [*answer.probabilities.values()]
    )
    with pytest.raises(ConfigError, match="threshold"):
        model.classify(TEXTS, threshold=2.0)


def test_one_output_is_a_score_never_a_certainty(tmp_path: Path) -> None:
    bert(tmp_path, HEAD, num_labels=1)
    (tmp_path / "t.txt").write_text(TEXTS[0] + "\n")
    (tmp_path / "t.csv").write_text("text\n" + TEXTS[0] + "\n")
    command = ("classify", str(tmp_path), str(tmp_path / "t.txt"))
    score = json.loads(run(*command, "--json").stdout)
    assert score.keys() == {"text", "score"}
    assert 0 < score["score"] < 1
    assert float(run(*command).stdout) == pytest.approx(score["score"], rel=1e-5)
    table = run("classify", str(tmp_path), str(tmp_path / "t.csv")).stdout
    assert table.splitlines()[0] == "text,score,note"
    refused = run(*command, "--threshold", "0.3")
    assert refused.returncode
    assert "multi-label" in refused.stderr


@pytest.mark.parametrize(
    ("activation", "same"), [("linear.Identity", "regression"), ("activation.Sigmoid", "reranker")]
)
@pytest.mark.parametrize("old", [False, True])
def test_a_cross_encoder_names_its_activation(
    tmp_path: Path, activation: str, same: str, old: bool
) -> None:
    """The activation decides, also where the pipeline would take another."""
    name = f"torch.nn.modules.{activation}"
    key = {"sbert_ce_default_activation_function": name} if old else {
        "sentence_transformers": {"activation_fn": name, "version": "5.0.0"}}  # fmt: skip
    bert(tmp_path / "plain", HEAD, **KINDS[same])
    other = KINDS["regression" if same == "reranker" else "reranker"]
    bert(tmp_path / "cross", HEAD, **other, **key)
    plain, cross = (tl.load(tmp_path / name) for name in ("plain", "cross"))
    assert cross.classify(TEXTS) == plain.classify(TEXTS)
    assert any("pairs" in note for note in cross.facts["notes"])
    cross.export("huggingface", tmp_path / "out")
    written = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert written.items() >= key.items()


def test_unknown_problem_types_and_activations_are_refused(tmp_path: Path) -> None:
    bert(tmp_path, HEAD, num_labels=2)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    for wrong in ({"problem_type": "ranking"},
                  {"sentence_transformers": {"activation_fn": "torch.nn.Softplus"}}):  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps(config | wrong))
        with pytest.raises(InputError, match=r"ranking|Softplus"):
            tl.load(tmp_path)


@pytest.mark.parametrize("kind", ["multi-label", "regression", "reranker"])
def test_evaluation_without_a_single_right_label_is_refused(tmp_path: Path, kind: str) -> None:
    bert(tmp_path, HEAD, **KINDS[kind])
    (tmp_path / "t.csv").write_text("text,label\nthe dog sleeps.,LABEL_0\na b,LABEL_0\n")
    model = tl.load(tmp_path)
    with pytest.raises(InputError, match="one correct label"):
        model.evaluate(str(tmp_path / "t.csv"))
    with pytest.raises(InputError, match="one correct label"):
        model.gradients(TEXTS[0], "LABEL_0")
    with pytest.raises(InputError):
        model.gradients(TEXTS[0])
    refused = run("evaluate", str(tmp_path), str(tmp_path / "t.csv"))
    assert refused.returncode
    assert "one correct label" in refused.stderr
    assert model.saliency(TEXTS[0]).values.shape[-1] == 6
    assert "sigmoid" in str(model.explain(TEXTS[0])) or kind == "regression"


def test_training_starts_from_the_encoder_with_a_fresh_head(tmp_path: Path) -> None:
    bert(tmp_path / "multi", HEAD, problem_type="multi_label_classification", num_labels=2)
    rows = "".join(f"the dog {word},LABEL_{i % 2}\n" for i, word in enumerate("abcdefgh" * 4))
    (tmp_path / "t.csv").write_text("text,label\n" + rows)
    said = run("train", "classify", "--train", str(tmp_path / "t.csv"), "--from",
               str(tmp_path / "multi"), "--out", str(tmp_path / "run"), "training.steps=2",
               "data.max_length=20")  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert "the start model is a multi-label model" in said.stdout + said.stderr
    assert isinstance(tl.load(tmp_path / "run").classify(TEXTS)[0], Label)


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_export_keep_the_problem_type(tmp_path: Path, kind: str) -> None:
    bert(tmp_path / "theirs", HEAD, **KINDS[kind])
    model = tl.load(tmp_path / "theirs")
    model.save(tmp_path / "ours")
    model.export("huggingface", tmp_path / "out")
    before, after = (
        transformers().AutoConfig.from_pretrained(tmp_path / name) for name in ("theirs", "out")
    )
    assert after.problem_type == before.problem_type
    answers = [scores_of(answer) for answer in model.classify(TEXTS)]
    for name in ("ours", "out"):
        again = [scores_of(answer) for answer in tl.load(tmp_path / name).classify(TEXTS)]
        assert again == [pytest.approx(one) for one in answers]
