"""Motion on the page: it shows a change, ends with any input, changes no number, and there is none
where the system asks for less."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.studio.browser import Page, opened
from tests.studio.serving import TEXT, Served, model, serving

pytestmark = pytest.mark.slow

# Every motion that a script starts: its end in ms, and what it moves.
RECORDED = """(() => {
  window.motions = [];
  const animate = Element.prototype.animate;
  Element.prototype.animate = function (frames, timing) {
    window.motions.push([timing.duration + (timing.delay ?? 0), this.getAttribute('class') ?? '']);
    return animate.call(this, frames, timing);
  };
})()"""
OLD = "document.querySelectorAll('.old, .running').length"


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"translate": model("translate-transformer", layers=2)}) as served:
        yield served


@pytest.fixture
def moving(running: Any) -> Iterator[Page]:
    with opened(running) as found:
        found.inner.emulate_media(reduced_motion="no-preference")
        found.inner.at_once.add_init_script(RECORDED)
        yield found
        found.check()


def address(studio: Served, view: str, **keys: str) -> str:
    more = "".join(f"&{key}={value}" for key, value in keys.items())
    return f"{studio.address}#/{view}?text={quote(TEXT)}{more}"


def slowly(page: Page) -> None:
    """Motion takes a hundred times as long: a test can look at it."""
    session = page.inner.context.new_cdp_session(page.inner.at_once)
    session.send("Animation.enable")
    session.send("Animation.setPlaybackRate", {"playbackRate": 0.01})


def test_data_runs_along_the_strands_once_for_each_text(studio: Served, moving: Page) -> None:
    moving.see(address(studio, "flow"))
    moved = moving.inner.evaluate("motions")
    assert [kind for _, kind in moved] == ["running", "running"]  # the encoder, then the decoder
    assert max(end for end, _ in moved) == 400
    assert moving.inner.evaluate(OLD) == 0
    moving.turn(address(studio, "flow", theme="dark"))
    moving.inner.keyboard.press("d")
    assert moving.inner.evaluate("motions.filter(([, kind]) => kind === 'running').length") == 2


def test_a_head_turns_into_the_next_and_the_numbers_are_there_at_once(
    studio: Served, moving: Page
) -> None:
    moving.see(address(studio, "attention", kind="cross", layer="0", head="0"))
    slowly(moving)
    page = moving.inner.at_once  # not at rest: it moves
    page.keyboard.press("]")
    moving.wait("document.querySelectorAll('#stage .old').length === 2")  # matrix and ribbons
    moving.wait("document.querySelector('#stage .panel h2').textContent === 'Head 1'")
    assert all(200 <= end <= 400 for end, _ in page.evaluate("motions"))
    assert page.evaluate("[...document.querySelectorAll('.old')].every(el => el.inert)")
    page.keyboard.press("Shift")  # any input ends it
    assert page.evaluate(OLD) == 0
    assert page.evaluate("document.querySelectorAll('.turning').length") == 0
    page.keyboard.press("]")
    page.keyboard.press("[")
    moving.wait("document.querySelector('#stage .panel h2').textContent === 'Head 1'")


def test_a_layer_of_flow_turns_into_the_next(studio: Served, moving: Page) -> None:
    moving.see(address(studio, "flow", at="decoder.layers.1.cross_attention.pattern"))
    slowly(moving)
    page = moving.inner.at_once
    page.keyboard.press("ArrowUp")
    moving.wait("document.querySelector('.scene > .old') !== null")
    (x, y) = page.evaluate("""() => { const box = document.querySelector('.scene .part');
        const { x, y } = box.getBoundingClientRect(); return [x + 5, y + 5]; }""")
    page.mouse.click(x, y)  # a click goes to the new picture, through the old one
    moving.wait("location.hash.includes('at=encoder.embedding')")


def test_reduced_motion_moves_nothing(studio: Served, own_page: Page) -> None:
    own_page.inner.at_once.add_init_script(RECORDED)
    own_page.see(address(studio, "flow"))
    own_page.inner.keyboard.press("ArrowUp")
    own_page.turn(address(studio, "attention"))
    own_page.inner.keyboard.press("]")
    own_page.turn(address(studio, "whatif"))
    own_page.inner.locator(".headswitch").first.click()
    assert own_page.inner.evaluate("motions") == []
    assert own_page.inner.evaluate(OLD) == 0
