"""Empty texts in every position of a batch, for every task and family: no crash, and the others are
answered as they are without them."""

from pathlib import Path
from typing import Any

import pytest
from tests.tiny.dealt import dealt
from tests.tiny.once import once

import translucid as tl
from translucid.data.records import Labelled, Pair, Tagged, Text
from translucid.generate.sampling import SamplingConfig
from translucid.runs.recipe.recipe import parse
from translucid.runs.run import train_recipe

TEXTS = ["The old dog sleeps.", "", "Anna works in Rome.", "", ""]
FAMILIES: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "heads": 2},
    **{c: {"kind": "recurrent", "hidden": 8, "cell": c} for c in ("rnn", "lstm", "gru")},
}
CASES = dealt(("classify", "tag", "language", "translate"), FAMILIES, share=2)
RECORDS: dict[str, Any] = {
    "classify": lambda text, n: Labelled(text, ("positive", "negative")[n % 2], n),
    "tag": lambda text, n: Tagged(tuple(text.split()), ("O",) * len(text.split()), n),
    "language": lambda text, n: Text(text, n),
    "translate": lambda text, n: Pair(text, text, n),
}


def trained(task: str, family: str) -> tl.Model:
    def make(folder: Path) -> None:
        values = {
            "task": {"kind": task},
            "data": {"toyland": 60},
            "tokenizer": {"kind": "word", "vocab_size": 300},
            "model": {"d_model": 8, "layers": 1, **FAMILIES[family]},
            "training": {"steps": 2, "batch_tokens": 300, "device": "cpu"},
            "decoding": {"beam_size": 2},
        }
        train_recipe(parse(values), folder / "run", quiet=True)

    return tl.load(once(f"for empty texts {task} {family}", make) / "run")


@pytest.mark.parametrize(("task", "family"), CASES)
def test_empty_texts_are_answered_and_change_no_other(task: str, family: str) -> None:
    model = trained(task, family)
    each_alone = {text: model.predict([text])[0] for text in set(TEXTS)}
    for texts in (["", ""], TEXTS, TEXTS[::-1], TEXTS[1:] + TEXTS[:1]):
        answers = model.predict(texts)
        assert len(answers) == len(texts)
        for text, answer in zip(texts, answers, strict=True):
            alone = each_alone[text]
            if task == "classify":
                assert answer.label == alone.label
                assert answer.probability == pytest.approx(alone.probability, abs=1e-5)
            else:
                assert answer == alone
            if not text and task in ("tag", "translate"):
                assert not answer
        if task == "translate":
            drawn = model.decode(texts, sampling=SamplingConfig())
            assert [one.texts[0].text for one in drawn if not one.source] == [""] * texts.count("")


@pytest.mark.parametrize(("task", "family"), CASES)
def test_empty_texts_are_scored_and_learnt_from(task: str, family: str) -> None:
    model = trained(task, family)
    for texts in ([""], TEXTS, TEXTS[::-1]):
        items = [model.task.encode(RECORDS[task](text, n)) for n, text in enumerate(texts, 1)]
        score = model.task.evaluate(model.network, items)
        assert all(value == value for value in score.numbers.values())
        batch = model.task.collate(items)
        loss = model.task.loss(model.network, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        assert bool(loss.isfinite())


@pytest.mark.parametrize(("task", "family"), CASES)
def test_an_empty_text_is_traced_or_refused(task: str, family: str) -> None:
    model = trained(task, family)
    for text in ("", " ", "\t"):
        if task == "tag":
            with pytest.raises(tl.TranslucidError, match="contains no word to tag"):
                model.trace(text)
            continue
        assert list(model.trace(text))


def test_an_empty_row_of_numbers_is_refused(tmp_path: Path) -> None:
    values = {
        "task": {"kind": "regress"}, "data": {"toyland": 60}, "model": {"hidden": [4]},
        "training": {"steps": 2, "device": "cpu"},
    }  # fmt: skip
    train_recipe(parse(values), tmp_path / "run", quiet=True)
    model = tl.load(tmp_path / "run")
    for lines in ([""], ["0.5", ""], ["", "0.5"]):
        with pytest.raises(tl.TranslucidError, match="0 cells, but this model reads 1"):
            model.predict(lines)
    assert model.predict([]) == []
