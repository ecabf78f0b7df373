"""Units over many texts: the texts that move them, and labels measured with Toyland's grammar."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import translucid as tl
from translucid.core.errors import InputError
from translucid.data.toyland.features import FEATURES, starts
from translucid.data.toyland.generate import generate
from translucid.see.unit_labels import (
    Activations,
    Measuring,
    UnitLabels,
    _ranks,
    area,
    by_unit,
    unit_labels,
    words_of,
)

POINT = "encoder.recurrent.layers.0.lstm.hidden"


@cache
def classifier() -> Any:
    return tl.load("demo:classify")


class Planted(Measuring):
    """Two of the units are what was planted: a feature itself, and numbers drawn at random."""

    def result(self, seed: int = 0) -> UnitLabels:
        rng = np.random.default_rng(7)
        for value, flags in zip(self.values, self.flags, strict=True):
            value[:, 3] = flags[:, list(FEATURES).index("a verb")]
            value[:, 4:] = torch.from_numpy(rng.standard_normal(value[:, 4:].shape)).float()
        return super().result(seed)


def test_a_unit_that_is_the_feature_gets_its_label_and_a_random_one_none() -> None:
    model = classifier()
    measuring = Planted(model.network, model.task, POINT, 40)
    while measuring.left:
        measuring.advance(64)
    labels = measuring.result()
    (label,) = [each for each in labels.labels if each.unit >= 3]
    assert (label.unit, label.feature, label.auc) == (3, "a verb", 1.0)
    assert str(label) == "unit 3 follows a verb, AUC 1.00"
    noise = labels.auc[4:].nan_to_num(0.5)
    assert float((noise - 0.5).abs().mean()) < 0.1
    assert labels.of(3)[0] == label
    assert labels.sentences == 40
    assert 0.02 < labels.control < 0.5


def test_the_area_is_the_fraction_of_pairs_in_order() -> None:
    """With ties, which count half; both ways of the same labels."""
    dice = torch.Generator().manual_seed(0)
    values = torch.randint(0, 5, (60, 3), generator=dice).float()
    flags = torch.rand(60, 2, generator=dice) < 0.5
    found = area(_ranks(values), flags)
    for unit in range(3):
        for feature in range(2):
            have, lack = values[flags[:, feature], unit], values[~flags[:, feature], unit]
            gaps = have[:, None] - lack[None]
            pairs = ((gaps > 0).double() + 0.5 * (gaps == 0).double()).mean()
            assert float(found[unit, feature]) == pytest.approx(float(pairs))
    rare = torch.zeros(60, 1, dtype=torch.bool)
    assert area(_ranks(values), rare).isnan().all()


def test_tokens_belong_to_their_words() -> None:
    """Also where a word is several tokens, and between special ones."""
    for sentence in generate(20, 0, "test"):
        assert [sentence.source[at : at + 2] for at in starts(sentence)] == [
            word[:2] if len(word) > 1 else sentence.source[at : at + 2]
            for word, at in zip(sentence.english, starts(sentence), strict=True)
        ]
        task = classifier().task
        ids = task.example(sentence.source, None).batch.inputs["ids"][0].tolist()
        places = words_of(sentence, task.tokenizer, ids)
        assert places == [None, *range(len(sentence.english)), None]
        flags = {name: has(sentence) for name, has in FEATURES.items()}
        assert {len(has) for has in flags.values()} == {len(sentence.english)}
        negations = [word.lower() in ("not", "never", "no") for word in sentence.english]
        assert list(flags["a negation"]) == negations
        assert flags["a negated sentence"][0] == any(negations)
        assert flags["after a negation"][-1] == any(negations)


def test_the_texts_that_move_a_unit_most() -> None:
    model = classifier()
    texts = [text for text, _ in model.examples(limit=12)]
    seen = Activations(POINT)
    for text in texts:
        seen.add(model.trace(text, keep=[POINT]))
    largest, smallest = seen.extremes(5, k=3)
    every = {text: model.trace(text)[POINT][0, :, 5] for text in texts}
    ordered = sorted(texts, key=lambda text: -float(every[text].max()))
    assert [one.text for one in largest] == ordered[:3]
    assert largest[0].value == pytest.approx(float(every[ordered[0]].max()))
    assert largest[0].place == int(every[ordered[0]].argmax())
    assert smallest[0].value == pytest.approx(min(float(v.min()) for v in every.values()))
    assert largest[0].tokens[largest[0].place] in largest[0].text or largest[0].tokens[0] == "<s>"
    with pytest.raises(InputError, match=r"unit = 99: .* has units 0 to 63"):
        seen.extremes(99)


def test_heads_are_the_length_of_what_they_hand_over() -> None:
    model = tl.load("demo:translate")
    point = "encoder.layers.0.self_attention.mixed"
    trace = model.trace("The dog sleeps.")
    assert torch.equal(by_unit(trace, point), trace[point][0].norm(dim=-1).T)
    with pytest.raises(InputError, match=r"feedforward\.activated"):
        by_unit(trace, "encoder.layers.0.self_attention.pattern")
    with pytest.raises(InputError, match="encoder"):
        unit_labels(model.network, model.task, "decoder.layers.0.feedforward.activated")


@pytest.mark.parametrize("name", ["classify", "tag"])
def test_losses_of_single_texts_make_the_loss_of_all(name: str) -> None:
    model = tl.load(f"demo:{name}")
    hardest = model.hardest_examples(limit=8)
    assert [one.loss for one in hardest] == sorted((one.loss for one in hardest), reverse=True)
    items = model.encoded_examples(limit=8)
    batch = model.task.collate(items)
    with torch.no_grad():
        outputs = model.network(**batch.inputs)
    whole = float(model.task.outputs.summed_loss(outputs, batch.targets))
    assert sum(one.loss * one.targets for one in hardest) == pytest.approx(whole, rel=1e-4)
