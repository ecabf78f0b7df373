"""Changes in What-if: heads from 0 to 200 percent, several at once, and the same in Python."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.serving import TEXT, Served, model, serving

from translucid.studio.handlers import Handlers
from translucid.studio.library import Library

SCOPE = "decoder.layers.0.cross_attention"


def logits_of(library: Library, *off: str) -> torch.Tensor:
    return library.run("a", TEXT, None, list(off)).logits


def test_a_head_at_a_strength_is_its_mixture_times_that() -> None:
    library = Library({"translate": model("translate-transformer")})
    held, target = library.opened["a"].model, library.run("a", TEXT).target
    for percent in (0, 50, 100, 200):

        def scaled(mixed: torch.Tensor, times: float = percent / 100) -> torch.Tensor:
            mixed = mixed.clone()
            mixed[:, 1] *= times
            return mixed

        true = held.trace(TEXT, target, edit={f"{SCOPE}.mixed": scaled})["head.logits"]
        assert torch.equal(logits_of(library, f"{SCOPE}.head.1@{percent}"), true)
    assert torch.equal(
        logits_of(library, f"{SCOPE}.head.1@0"), logits_of(library, f"{SCOPE}.head.1")
    )
    assert torch.equal(logits_of(library, f"{SCOPE}.head.1@100"), logits_of(library))
    assert not torch.equal(logits_of(library, f"{SCOPE}.head.1@50"), logits_of(library))


@pytest.mark.parametrize(
    ("off", "message"),
    [
        (f"{SCOPE}.head.1@201", "0 to 200 percent"),
        (f"{SCOPE}.head.1@", "0 to 200 percent"),
        (f"{SCOPE}.head.1@-5", "0 to 200 percent"),
        (f"{SCOPE}.head.9@50", "no switch"),
        (f"{SCOPE}@50", "only heads"),
    ],
)
def test_strengths_that_cannot_be_are_refused(off: str, message: str) -> None:
    library = Library({"translate": model("translate-transformer")})
    asked = json.dumps({"m": "a", "text": TEXT, "off": [off]}).encode()
    reply = Handlers(library).ask("POST", "/api/runs", asked)
    assert reply.status == 422
    assert message in json.loads(reply.body)["error"]


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"translate": model("translate-transformer")}) as served:
        yield served


@pytest.mark.slow
def test_a_slider_changes_the_run_and_python_does_the_same(studio: Served, leaf: Page) -> None:
    off = quote(f"{SCOPE}.head.1@50,{SCOPE}.head.0")
    leaf.turn(f"{studio.address}#/whatif?off={off}&text={quote(TEXT)}")
    leaf.wait("document.querySelectorAll('.changes li').length === 2")
    assert leaf.words(".changes output") == ["50 %", "0 %"]
    leaf.inner.focus(".changes input[type=range] >> nth=0")
    for _ in range(3):
        leaf.inner.keyboard.press("ArrowRight")
    leaf.wait(f"location.hash.includes('{SCOPE}.head.1%4080,')")
    script = leaf.inner.eval_on_selector(".changes .python", "el => el.title")
    names: dict[str, Any] = {"model": studio.library.opened["a"].model}
    leaf.inner.evaluate("1")  # waits until the page is at rest
    drawn = next(run for run in studio.library.runs.values() if f"{SCOPE}.head.1@80" in run.off)
    leaf.inner.click(".changes li:last-child button")  # one change is taken back
    leaf.wait("document.querySelectorAll('.changes li').length === 1")
    exec(script, names)
    assert torch.equal(names["trace"]["head.logits"], drawn.logits)


@pytest.mark.slow
def test_a_switch_pressed_while_effects_are_measured_is_switched(
    studio: Served, leaf: Page
) -> None:
    """Each effect redraws the list; a button redrawn under the pointer would lose the click."""
    target = quote("der hund sieht eine katze .")  # the effects on a short text are measured
    query = f"text={quote(TEXT)}&target={target}"
    leaf.turn(f"{studio.address}#/flow?{query}")
    at_once = leaf.inner.at_once  # measuring goes on, so the page is not idle
    with at_once.expect_response("**/effect?*"):
        at_once.evaluate("hash => { location.hash = hash; }", f"#/whatif?{query}")
    # not `bounding_box`, which may find a button that is just being replaced
    x, y = at_once.evaluate(
        "() => { const { x, y } = document.querySelector('.headswitch').getBoundingClientRect();"
        " return [x, y]; }"
    )
    at_once.mouse.move(x + 5, y + 5)
    at_once.mouse.down()
    at_once.wait_for_timeout(300)  # a slow finger
    at_once.mouse.up()
    leaf.wait("location.hash.includes('off=')")


@pytest.mark.slow
def test_switches_keep_their_place_when_the_first_part_is_switched_off(
    studio: Served, leaf: Page
) -> None:
    leaf.turn(f"{studio.address}#/whatif?text={quote(TEXT)}")
    places = "all => all.map(el => el.getBoundingClientRect()).map(r => [r.x, r.y])"
    before = leaf.inner.eval_on_selector_all(".headswitch", places)
    leaf.inner.locator(".headswitch").first.click()
    leaf.wait("/Restore/.test(document.querySelector('#stage .panel').textContent)")
    assert leaf.inner.eval_on_selector_all(".headswitch", places) == before
    assert "Colour shows" not in leaf.text(".switches")  # no head is coloured yet
    (delta,) = leaf.words(".panel .sumtable .strong td.n")
    assert any(line.startswith(f"Δ {delta}: ") for line in leaf.words(".panel .tail"))
