"""Vocabularies, labels and columns that do not fit the model are found; unknown words are named."""

import pytest
from tests.checks.checked import TINY, by_name, look, told, world

from translucid.core.errors import TrainingError
from translucid.data.records import Pair
from translucid.models import Network, build
from translucid.runs.checks import model, startup


def test_a_vocabulary_that_does_not_fit_the_model_is_found() -> None:
    examples, prepared, items = world("language")
    vocab = prepared.sizes["vocab"]

    def with_vocab(size: int) -> Network:
        chosen = told("language", TINY)
        return build(chosen.model_config_for(sizes=prepared.sizes | {"vocab": size}))

    finding = by_name(
        startup.of_model(prepared.task, with_vocab(vocab - 1), items, examples.train)
    )["sizes"]
    assert finding.mark == "-"
    assert f"{vocab:,} tokens, but the model has {vocab - 1:,}" in finding.words
    with pytest.raises(TrainingError, match="sizes: "):
        startup.startup(prepared.task, with_vocab(20), items, examples, lambda line: None)
    finding = model.sizes_agree(prepared.task, with_vocab(vocab + 3), items)
    assert finding.mark == "!"
    assert "never used" in finding.words


def test_labels_and_columns_that_do_not_fit_the_model_are_found() -> None:
    _, prepared, items = world("tag")
    few = build(told("tag", TINY).model_config_for(sizes=prepared.sizes | {"outputs": 2}))
    finding = model.sizes_agree(prepared.task, few, items)
    assert finding.mark == "-"
    assert "labels, but the model has 2" in finding.words
    chosen = told("regress", {"hidden": [4]})
    wide = build(chosen.model_config_for(sizes={"inputs": 2, "outputs": 1}))
    assert "1 inputs, but the model has 2" in look(None, wide, "regress")["sizes"].words


def test_one_table_for_two_vocabularies_is_found() -> None:
    _, prepared, items = world("translate", joint=False)
    largest = max(len(tokenizer) for tokenizer in prepared.tokenizers.values())
    sizes = prepared.sizes | {"vocab": largest, "target_vocab": None}
    network = build(told("translate", TINY).model_config_for(sizes=sizes))
    finding = model.sizes_agree(prepared.task, network, items)
    assert finding.mark == "-"
    assert "one table for both" in finding.words


def test_unknown_tokens_are_named() -> None:
    _, prepared, _ = world("translate")
    strange = [Pair("The zebra sleeps, zebra.", "Das Zebra schläft.", 1)] * 3
    finding = model.unknown_tokens(prepared.task, {"valid": strange})
    assert finding.mark == "!"
    assert "'zebra' 6" in finding.words
    assert "% of valid" in finding.words
