"""Losses of texts in batches are those of each text alone."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

import translucid as tl
from translucid.models.base import Network
from translucid.see import predictions
from translucid.see.predictions import text_losses
from translucid.tasks.example import Example


@pytest.mark.parametrize("name", ["translate", "translate-lstm", "tag", "classify", "generate"])
def test_texts_of_a_batch_have_the_losses_that_they_have_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tl.load(f"demo:{name}")
    texts = model.examples(limit=9)
    assert len({len(text) for text, _ in texts}) > 3  # so that there is padding
    together = text_losses(model.network, model.task, texts)
    for pair, one in zip(texts, together, strict=True):
        (alone,) = text_losses(model.network, model.task, [pair])
        assert one.loss == pytest.approx(alone.loss, rel=1e-4, abs=1e-6)
        assert (one.text, one.target, one.targets) == (alone.text, alone.target, alone.targets)
    sizes = []
    losses = predictions._losses

    def counted(network: Network, task: Any, examples: Sequence[Example]) -> Any:
        sizes.append((len(examples), max(one.tokens for one in examples)))
        return losses(network, task, examples)

    monkeypatch.setattr(predictions, "BATCH_TOKENS", 40)  # a few at once
    monkeypatch.setattr(predictions, "_losses", counted)
    few = text_losses(model.network, model.task, texts)
    assert sum(rows for rows, _ in sizes) == len(texts)
    assert all(rows == 1 or rows * longest <= 40 for rows, longest in sizes)
    assert len(sizes) < len(texts) or not model.task.example(*texts[0]).can_be_padded
    assert [one.loss for one in few] == pytest.approx([one.loss for one in together], abs=1e-5)


def test_a_text_without_an_answer_has_no_loss() -> None:
    model = tl.load("demo:classify")
    (text, target), *_ = model.examples(limit=1)
    known, unknown = text_losses(
        model.network, model.task, [(text, target), (f"{text} {text}", None)]
    )
    assert (known.targets, unknown.targets) == (1, 0)
    assert math.isnan(unknown.loss)
