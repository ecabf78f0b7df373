"""Opened taggers: each word's most probable tag, as their own tool answers, and a switch."""

import json
import random
from pathlib import Path

import pytest
from tests.in_process import run
from tests.interop.reference import transformers
from tests.interop.word_taggers import word_tagger

import translucid as tl
from translucid.core.errors import ConfigError
from translucid.model.model import with_spans

IOB = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
# met: O by a hair before B-PER; Obama: I-PER, with which IOB1 begins a span.
MET = {"met": [2.0, 1.9, -3, -3, -3], "Obama": [0.0, 0.5, 3.0, 0, 0]}


def tagger(folder: Path) -> None:
    """Words with random logits, so that their tags follow one another in every way."""
    numbers = random.Random(0)
    words = [*"abcdefghijk"]
    logits = {word: [numbers.gauss(0, 2) for _ in IOB] for word in words}
    word_tagger(folder, IOB, logits | MET)


def spans_of(model: tl.Model, text: str, **options: str) -> list[tuple[int, int, str]]:
    (spans,) = model.tag([text], **options)  # type: ignore[arg-type]
    return [(span.start, span.end, span.label) for span in spans]


def test_tags_and_spans_are_those_of_the_reference_pipeline(tmp_path: Path) -> None:
    tagger(tmp_path)
    pipeline = transformers().pipeline(
        "token-classification", str(tmp_path), aggregation_strategy="first"
    )
    model, numbers, found = tl.load(tmp_path), random.Random(1), 0
    texts = [" ".join(numbers.choices("abcdefghijk", k=9)) for _ in range(20)]
    for text in ["met Obama", *texts]:
        theirs = [(e["start"], e["end"], e["entity_group"]) for e in pipeline(text)
                  if e["entity_group"] != "O"]  # fmt: skip
        assert spans_of(model, text) == theirs
        found += spans_of(model, text) != spans_of(model, text, spans="legal")
    assert spans_of(model, "met Obama") == [(4, 9, "PER")]
    assert found > 5  # or the constraint would have changed nothing


def test_the_switch_on_the_command_line_and_in_python(tmp_path: Path) -> None:
    tagger(tmp_path)
    (tmp_path / "text.txt").write_text("met Obama\n")
    file, model = str(tmp_path / "text.txt"), tl.load(tmp_path)
    for spans, wanted in ((None, "PER: Obama"), ("legal", "PER: met Obama"), ("iob1", "PER: Obama"),
                          ("free", "PER: Obama")):  # fmt: skip
        options = [] if spans is None else ["--spans", spans]
        assert run("tag", str(tmp_path), file, *options).stdout.strip() == wanted
        assert with_spans(model, spans).predict(["met Obama"])[0][0].text == wanted[5:]  # type: ignore[arg-type]
    wrong = run("tag", str(tmp_path), file, "--spans", "bio")
    assert wrong.returncode
    assert "legal, free, iob1" in wrong.stderr
    with pytest.raises(ConfigError, match="free"):
        model.tag(["met Obama"], spans="bio")  # type: ignore[arg-type]


def test_info_and_the_notes_say_how_tags_are_chosen(tmp_path: Path) -> None:
    tagger(tmp_path)
    shown = run("info", str(tmp_path)).stdout
    assert "decoding    each word's most probable tag; spans read as IOB1 or IOB2" in shown
    assert json.loads(run("info", str(tmp_path), "--json").stdout)["decoding"] == {"spans": "free"}
    assert "legal in IOB2" in run("info", "demo:tag").stdout  # a model of ours keeps its constraint


@pytest.mark.parametrize("marks", ["BIOES", "BILOU"])
def test_tags_with_ends_make_whole_spans(tmp_path: Path, marks: str) -> None:
    end, single = ("E", "S") if marks == "BIOES" else ("L", "U")
    labels = ["O", "B-A", "I-A", f"{end}-A", f"{single}-A"]
    sure = {word: [5.0 * (i == place) for i in range(5)] for place, word in enumerate("obies")}
    word_tagger(tmp_path, labels, sure)
    model = tl.load(tmp_path)
    text = "s o b i e b e s s o"
    wanted = [(0, 1, "A"), (4, 9, "A"), (10, 13, "A"), (14, 15, "A"), (16, 17, "A")]
    assert spans_of(model, text) == spans_of(model, text, spans="legal") == wanted
    assert f"spans read as {marks}" in model.facts["notes"][-1]


def test_evaluate_scores_the_same_tags(tmp_path: Path) -> None:
    """Gold in IOB1: I- begins a span, and it counts."""
    tagger(tmp_path)
    data = tmp_path / "gold.conll"
    data.write_text("met O\nObama I-PER\n\nObama I-PER\nmet O\n\n")
    model = tl.load(tmp_path)
    score = model.evaluate(str(data))
    assert score.numbers["span_f1"] == score.numbers["accuracy"] == 1.0
    assert any("conlleval" in note for note in score.notes)
    assert {name: sums.value for name, sums in score.sums().items()}["span_f1"] == 1.0
    legal = model.evaluate(str(data), spans="legal")
    assert legal.numbers["accuracy"] == 0.5  # met B-PER Obama I-PER; then Obama B-PER
    shown = run("evaluate", str(tmp_path), str(data), "decoding.spans=legal")
    assert "0.5" in shown.stdout
