"""What is picked for people who give only their files."""

import pytest

from translucid.data.records import Pair
from translucid.runs.recipe import automatic_sizes
from translucid.runs.recipe.recipe import parse


def test_words_are_counted_on_both_sides() -> None:
    amount = automatic_sizes.measure([Pair("a b", "c a d", 1), Pair("b", "b", 2)])
    assert (amount.examples, amount.words, amount.words_known) == (2, 7, 4)


def test_settings_of_the_user_are_not_changed() -> None:
    chosen = parse({"task": {"kind": "translate"}}, ["training.steps=40", "model.d_model=64"])
    picks = automatic_sizes.pick(chosen, automatic_sizes.Amount(29_000, 700_000, 30_000), "cpu")
    filled, said = automatic_sizes.with_picks(chosen, picks)
    assert filled.training.steps == 40
    assert filled.model["d_model"] == 64
    assert filled.training.warmup <= 40, "the rest follows from what the user said"
    assert not any("d_model" in word or "steps=" in word for word in said)
    assert f"tokenizer.vocab_size={filled.tokenizer.vocab_size}" in said


@pytest.mark.parametrize(("task", "kind"), [("language", "ngram"), ("translate", "lexicon")])
def test_models_that_are_fitted_to_the_data_have_no_sizes_to_choose(task: str, kind: str) -> None:
    chosen = parse({"task": {"kind": task}}, [f"model.kind={kind}"])
    picks = automatic_sizes.pick(chosen, automatic_sizes.Amount(100, 1000, 200), "cpu")
    filled, _ = automatic_sizes.with_picks(chosen, picks)
    assert filled.model == {"kind": kind}


@pytest.mark.parametrize("task", ["translate", "language", "classify", "tag", "regress"])
@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_any_amount_of_data_gets_a_valid_recipe(task: str, kind: str, device: str) -> None:
    overrides = [] if task == "regress" else [f"model.kind={kind}"]
    chosen = parse({"task": {"kind": task}}, overrides)
    sizes = []
    for words in (1, 10**3, 10**5, 10**6, 10**7, 10**9):
        picks = automatic_sizes.pick(
            chosen, automatic_sizes.Amount(words // 10 + 1, words, words // 5 + 1), device
        )
        filled, _ = automatic_sizes.with_picks(chosen, picks)  # parse checks it
        sizes.append(filled.model.get("d_model", 0))
    assert sizes == sorted(sizes), "more data, no smaller model"
