"""To whom a logit is owed, as the page is told and shows it: what adds up does, and the rest is
what Python says."""

import json
import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.serving import TEXT, Served, model, serving, text_for
from tests.studio.shown import same

from translucid.studio.handlers import Handlers
from translucid.studio.library import Library


def trained_alike(family: str, **keys: Any) -> Any:
    """Untrained norms and biases shift nothing; these do."""
    held = model(family, **keys)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in held.network.parameters():
            if parameter.dim() == 1:
                parameter += 0.3 * torch.randn_like(parameter)
    return held


def answered(family: str, question: str, **keys: Any) -> tuple[dict[str, Any], Any, Any]:
    held = trained_alike(family, **keys)
    library = Library({family: held})
    run = library.run("a", text_for(family))
    reply = Handlers(library).ask("GET", f"/api/runs/{run.key}/{question}")
    return json.loads(reply.body), held, held.trace(run.text, run.target)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("family", ["translate-transformer", "language-transformer"])
def test_contributions_add_up_by_part_and_by_token(family: str, placement: str) -> None:
    found, _, trace = answered(family, "contributions?position=2&output=5", placement=placement)
    logit = float(trace["head.logits"][0, 2, 5])
    assert found["logit"] == logit
    values = [one["value"] for one in found["parts"]]
    assert math.fsum([*values, found["remainder"]]) == pytest.approx(logit, abs=1e-4)
    heads = [one for one in found["parts"] if one["head"] is not None]
    assert len(heads) > 3
    for side, across in (("source", True), ("target", False)):
        theirs = [one["value"] for one in heads if ("cross" in one["part"]) == across]
        if theirs:
            assert math.fsum(found["by_token"][side]) == pytest.approx(math.fsum(theirs), abs=1e-9)
    assert set(found["by_token"]) == (
        {"source", "target"} if family.startswith("translate") else {"target"}
    )


def test_the_last_line_of_the_lens_is_the_prediction() -> None:
    found, _, trace = answered("translate-transformer", "lens?position=1")
    probabilities = trace["head.logits"][0, 1].softmax(-1)
    assert len(found["after"]) == 3
    assert found["words"][-1] == trace.names_at(1, [int(probabilities.argmax())])[0]
    assert found["probabilities"][-1] == pytest.approx(float(probabilities.max()), rel=1e-5)


@pytest.mark.parametrize("family", ["translate-lstm", "classify-gru", "regress-mlp"])
def test_saliency_is_that_of_the_model(family: str) -> None:
    found, held, trace = answered(family, "saliency?position=1")
    if family == "translate-lstm":
        true = held.saliency(text_for(family), trace.example.words and held.translate(
            [text_for(family)])[0], of=1)  # fmt: skip
    else:
        text = text_for(family)
        true = held.saliency(text)
    assert [*found["source"], *found["target"]] == pytest.approx(true.values.tolist(), rel=1e-5)
    assert found["value"] == pytest.approx(true.value)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("contributions?position=2", "output is required"),
        ("contributions?position=99&output=5", "position must be between 0 and"),
        ("lens?position=99", "between 0 and 72"),
        ("lens?position=x", "position: must be a whole number"),
        ("saliency", "position is required"),
    ],
)
def test_invalid_queries_get_a_message(question: str, message: str) -> None:
    found, _, _ = answered("translate-transformer", question)
    assert message in found["error"]


# ---- on the page ----


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"translate": trained_alike("translate-transformer")}) as served:
        yield served


@pytest.mark.slow
def test_flow_shows_contributions_that_add_up(studio: Served, leaf: Page) -> None:
    leaf.turn(f"{studio.address}#/flow?at=head.logits&i=2,5&text={quote(TEXT)}")
    leaf.wait("document.querySelector('.credit .share.total')")
    trace = studio.library.opened["a"].model.trace(TEXT)
    logit = float(trace["head.logits"][0, 2, 5])
    for _ in range(2):
        *lines, total = leaf.words(".shares .share .n")
        assert same(total, logit)
        numbers = [float(line.replace("−", "-").replace("+", "")) for line in lines]
        assert sum(numbers) == pytest.approx(logit, abs=5e-4 * len(lines))
        leaf.inner.click(".credit .seg button:last-child")  # by token: the same logit
    leaf.inner.click(".credit .seg button:first-child")
    assert leaf.words(".lenses .share .who") == ["embedding", "after layer 0", "after layer 1"]
    assert len(leaf.words(".salient .word")) > 3
    leaf.inner.click(".bars .probrow:nth-child(2) button")  # another token
    leaf.wait("document.querySelector('.bars .probrow:nth-child(2).on')")
    second = int(trace["head.logits"][0, 2].topk(2).indices[1])
    assert same(leaf.words(".shares .total .n")[0], float(trace["head.logits"][0, 2, second]))
    name = leaf.inner.eval_on_selector_all(
        ".shares .who button", "all => all.find(el => el.textContent.includes('head')).textContent"
    )
    leaf.inner.click(f'.shares .who button:has-text("{name}")')
    leaf.wait("location.hash.includes('attention.pattern')")
