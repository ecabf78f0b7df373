"""A model asked in two ways gives one answer."""

import re
from ast import literal_eval
from inspect import signature

import pytest
from tests.studio.serving import model

from translucid.core.errors import InputError, TraceBudgetError

TEXTS = ["the dog sees a cat .", "the old bird sings ."]
ARGUMENT = re.compile(r"\b(keep|budget_bytes)\b(?:=(\"[^\"]*\"))?")


def test_predict_answers_lines_of_any_task() -> None:
    assert model("translate-lstm").predict(TEXTS) == model("translate-lstm").translate(TEXTS)
    assert model("tag-lstm").predict(TEXTS) == model("tag-lstm").tag(TEXTS)
    assert model("classify-gru").predict(TEXTS) == model("classify-gru").classify(TEXTS)
    rows = [[0.5, 1.0, -2.0], [0.25, 0.0, 3.5]]
    lines = [" ".join(map(repr, row)) for row in rows]
    assert model("regress-mlp").predict(lines) == model("regress-mlp").predict(rows)


def test_predict_of_a_language_model_equals_greedy_generate() -> None:
    asked = model("language-transformer")
    wanted = asked.generate(TEXTS, max_length=100, temperature=0.0)
    assert asked.predict(TEXTS) == wanted
    assert model("regress-mlp").predict([]) == []


def test_trace_uses_the_models_own_translation_by_default() -> None:
    asked = model("translate-transformer")
    own = asked.translate(TEXTS[:1])[0]
    assert asked.default_target(TEXTS[0]) == own
    assert asked.trace(TEXTS[0]).words == asked.trace(TEXTS[0], own).words


def test_a_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a list of texts, got one text"):
        model("classify-gru").predict(TEXTS[0])
    with pytest.raises(InputError, match=r"this model is for task classify; use model.classify"):
        model("classify-gru").predict([[0.5]])


@pytest.mark.parametrize("method", ["trace", "explain", "gradients"])
def test_what_a_budget_error_suggests_is_an_argument_that_helps(method: str) -> None:
    asked = getattr(model("language-transformer"), method)
    with pytest.raises(TraceBudgetError, match=r"the budget is 5,000; ") as caught:
        asked(TEXTS[0], budget_bytes=5000)
    remedy = str(caught.value).removeprefix(caught.value.fact)
    suggested = dict(ARGUMENT.findall(remedy))
    assert suggested.keys() == signature(asked).parameters.keys() & {"keep", "budget_bytes"}
    asked(TEXTS[0], budget_bytes=None)
    if "keep" in suggested:
        kept = asked(TEXTS[0], budget_bytes=5000, keep=literal_eval(suggested["keep"]))
        assert kept.names() == kept.names("*.pattern") != []
