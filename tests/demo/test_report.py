"""The report of a demo: one page that stands alone, with the numbers of run and trace."""

import json
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from tests.demo.pages import check_stands_alone
from tests.demo.small_runs import Run, small_run
from tests.tiny.dealt import dealt

from translucid.data.toyland import Toyland
from translucid.demo import results
from translucid.demo.language_sections import alignment_section, attention_map, gold_alignment, hits
from translucid.demo.recipes import EXAMPLES, DemoTask
from translucid.demo.report import Report, Section, curves
from translucid.see.picture_data import Axis
from translucid.see.pictures import Heat

SIZES: dict[DemoTask, tuple[str, ...]] = {
    "translate": ("model.d_model=16",),
    "tag": ("model.d_model=8", "model.hidden=6"),
    "classify": ("model.d_model=8", "model.hidden=6"),
    "language": ("model.d_model=8", "model.heads=2"),
    "regress": (),
}
# What must stand on the page of each: sections, and stages of the walk.
SAYS: dict[DemoTask, tuple[str, ...]] = {
    "translate": ("What it looks at", "framed: the gold alignment", "cross-attention</h3>"),
    "tag": ("How sure it is of each tag", "Where it got that from", "LSTM, right to left</h3>"),
    "classify": ("What it takes for what", "word by word", "accuracy of a bag of words"),
    "language": ("Does the verb agree?", "perplexity, word before only", "self-attention</h3>"),
    "regress": ("Wider networks bend more", "What a line cannot part", "layer 0</h3>"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[DemoTask], Run]:
    made: dict[DemoTask, Run] = {}

    def run(task: DemoTask) -> Run:
        if task not in made:
            made[task] = small_run(tmp_path_factory, task, *SIZES[task])
        return made[task]

    return run


@pytest.mark.parametrize("task", dealt(SIZES, share=2, rest=pytest.mark.slow))
def test_the_page_stands_alone_and_says_what_its_task_teaches(
    task: DemoTask, runs: Callable[[DemoTask], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    out, model, recipe = runs(task)
    score = json.loads((out / "test.json").read_text("utf-8"))
    done = results.Done(out, recipe, model, score["test"], score["notes"], score["examples"])
    path = results.SHOW[task](done, EXAMPLES[task])
    text = check_stands_alone(path)
    for words in (*SAYS[task], "How it learnt", "Step by step: "):
        assert words in text
    for name, value in score["test"].items():
        row = f'<tr><td>{name.replace("_", " ")}</td><td class="number">{value:.4g}</td></tr>'
        assert row in text
    assert capsys.readouterr().out


def test_the_curves_are_those_of_the_journal(runs: Callable[[DemoTask], Run]) -> None:
    out, model, _ = runs("translate")
    loss, score = curves(out, "exact_match", loss="loss", named="match", level=("x", 0.5)).pictures
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert loss.x.labels == ("1", "2", "3", "4")
    assert list(loss.series["loss"]) == [line["loss"] for line in lines if "loss" in line]
    assert score.x.labels == ("2", "4")
    assert score.series["match"][-1] == model.facts["valid"]["exact_match"]
    assert list(score.series["x"]) == [0.5, 0.5]


def test_texts_are_escaped(runs: Callable[[DemoTask], Run]) -> None:
    reading = runs("translate")[1].trace("<em>dog</em>", "<em>hund</em>")
    hostile = "<script>"
    section = Section(hostile, hostile)
    page = Report(hostile, hostile, {hostile: 1.0}, [section], reading, [hostile]).html()
    assert "<script" not in page
    assert "<em>" not in page
    assert page.count("&lt;script&gt;") >= 6


# ---- attention beside the gold alignment ----


def test_the_map_is_the_mean_of_the_heads_of_the_last_layer(
    runs: Callable[[DemoTask], Run],
) -> None:
    model = runs("translate")[1]
    sentence = next(iter(Toyland().sentences("test")))
    gold = gold_alignment(model, sentence)
    trace = model.trace(sentence.source, sentence.target)
    heat = attention_map(trace, gold)
    assert heat is not None
    pattern = trace["decoder.layers.1.cross_attention.pattern"][0].mean(dim=0)
    assert heat.values.tolist() == pytest.approx(pattern.double().numpy(), abs=1e-6)
    assert set(gold) == set(sentence.alignment)
    assert set(heat.frames) == {(target, source) for source, target in sentence.alignment}
    for row, column in heat.frames:  # a frame stands where the German word meets the English one
        assert heat.rows.labels[row].endswith(f"→ {sentence.german[row]}")
        assert heat.columns.labels[column] == sentence.english[column]


def test_hits_count_the_rows_that_look_where_they_should() -> None:
    weights = np.array([[0.9, 0.1, 0.0], [0.2, 0.1, 0.7], [0.4, 0.3, 0.3]])
    axis = Axis("", ("a", "b", "c"))
    assert hits(Heat("", weights, axis, axis, frames=((0, 0), (1, 1)))) == (1, 2)
    assert hits(Heat("", weights, axis, axis, frames=((1, 1), (1, 2)))) == (1, 1)
    assert hits(Heat("", weights, axis, axis)) == (0, 0)


def test_the_section_says_how_many_look_at_what_they_are_aligned_with(
    runs: Callable[[DemoTask], Run],
) -> None:
    model = runs("translate")[1]
    sentences = list(islice(Toyland().sentences("test"), 3))
    section = alignment_section(model, sentences)
    assert section is not None
    assert len(section.pictures) == 3
    right = count = 0
    for one in sentences:
        trace = model.trace(one.source, one.target)
        pattern = trace["decoder.layers.1.cross_attention.pattern"][0].mean(dim=0)
        for target in {t for _, t in one.alignment}:
            count += 1
            right += (int(pattern[target].argmax()), target) in one.alignment
    assert f"{right} of {count} aligned tokens" in section.text


@pytest.mark.slow
def test_of_pieces_of_words_nobody_knows_the_alignment(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    sizes = ("model.d_model=16", "tokenizer.kind=bpe", "tokenizer.vocab_size=300")
    model = small_run(tmp_path_factory, "translate", *sizes)[1]
    sentences = list(islice(Toyland().sentences("test"), 1))
    assert gold_alignment(model, sentences[0]) == ()
    section = alignment_section(model, sentences)
    assert section is not None
    assert "gold" not in section.text
